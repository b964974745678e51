package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
)

// reconcileReport is what `reconcile` prints. docs/reconcile.md describes each field.
type reconcileReport struct {
	Cluster  string          `json:"cluster"`
	Silent   []silence       `json:"silent"`
	AtWork   nodeset.NodeSet `json:"at_work"`       // not judged
	Whole    bool            `json:"whole_at_work"` // no node is judged
	Findings []findingReport `json:"findings"`

	rows []findingRow
}

type findingReport struct {
	Node    string         `json:"node"`
	Kind    reconcile.Kind `json:"kind"`
	Note    bool           `json:"note"`
	Detail  string         `json:"detail"`
	Server  string         `json:"server,omitempty"`
	Fix     reconcile.Fix  `json:"fix,omitempty"`
	Command string         `json:"command,omitempty"`
}

// findingRow is nodes of which the same is to be told: an image that was bumped concerns thousands.
type findingRow struct {
	reconcile.Finding // but for the node
	nodes             []string
}

func newReconcileReport(cluster string, d compared) reconcileReport {
	r := reconcileReport{Cluster: cluster, Silent: append([]silence{}, d.silent...), AtWork: d.seen.AtWork, Whole: d.seen.Whole, Findings: []findingReport{}}
	at := map[reconcile.Finding]int{}
	for _, f := range d.findings {
		r.Findings = append(r.Findings, findingReport{f.Node, f.Kind, f.Kind.Note(), f.Detail, f.Server, f.Fix, byHand(f, nodeset.Of(f.Node))})
		node := f.Node
		f.Node = ""
		i, known := at[f]
		if !known {
			i = len(r.rows)
			at[f] = i
			r.rows = append(r.rows, findingRow{Finding: f})
		}
		r.rows[i].nodes = append(r.rows[i].nodes, node)
	}
	return r
}

// byHand is the command for a finding, as it is typed into a shell.
func byHand(f reconcile.Finding, nodes nodeset.NodeSet) string {
	list := nodes.String()
	if strings.ContainsAny(list, "[]") {
		list = "'" + list + "'"
	}
	return strings.ReplaceAll(f.Command, reconcile.Nodes, list)
}

func (r reconcileReport) show(c *cli.Context) error {
	if wantsJSON(c) {
		return json.NewEncoder(c.App.Writer).Encode(r)
	}
	return r.write(c.App.Writer)
}

// write prints the report for people.
func (r reconcileReport) write(w io.Writer) error {
	var b strings.Builder
	if len(r.rows) > 0 {
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "NODE\tFINDING\tWHAT --fix WOULD DO")
		for _, row := range r.rows {
			fmt.Fprintf(table, "%s\t%s: %s\t%s\n", nodeset.Of(row.nodes...), row.word(), printable(row.Detail), row.remedy())
		}
		table.Flush() // a Builder takes everything
	}
	for _, s := range r.Silent {
		fmt.Fprintf(&b, "%s does not answer: %s\n", s.Who.name(), s.Reason)
	}
	switch {
	case r.Whole:
		b.WriteString("A request for the whole cluster is under way: no node is judged until it has ended.\n")
	case !r.AtWork.Empty():
		fmt.Fprintf(&b, "Not judged, since requests for them are under way: %s\n", r.AtWork)
	}
	if len(r.rows) == 0 && len(r.Silent) == 0 && !r.Whole {
		b.WriteString("Nothing differs.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f findingRow) word() string { return strings.ReplaceAll(string(f.Kind), "_", " ") }

func (f findingRow) remedy() string {
	does := map[reconcile.Fix]string{
		reconcile.Suspend: "suspend: remove what is left of it",
		reconcile.Resume:  "resume: make it ready",
		reconcile.Enlarge: "enlarge: make its instance",
		reconcile.Delete:  "remove this instance",
	}[f.Fix]
	command := byHand(f.Finding, nodeset.Of(f.nodes...))
	switch {
	case does != "":
		return does
	case command != "":
		return "nothing; by hand: " + command
	}
	return "nothing"
}

// showRemoved tells what became of an instance that nobody wanted.
func showRemoved(c *cli.Context, f reconcile.Finding, failure error) error {
	if wantsJSON(c) {
		return json.NewEncoder(c.App.Writer).Encode(struct {
			Node    string `json:"node"`
			Server  string `json:"server"`
			Removed bool   `json:"removed"`
		}{f.Node, f.Server, failure == nil})
	}
	result := "removed"
	if failure != nil {
		result = "not removed"
	}
	_, err := fmt.Fprintf(c.App.Writer, "instance %s of %s: %s\n", f.Server, f.Node, result)
	return err
}
