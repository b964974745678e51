package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

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

	rows []company[reconcile.Finding]
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

func newReconcileReport(cluster string, d compared) reconcileReport {
	r := reconcileReport{Cluster: cluster, Silent: append([]silence{}, d.silent...), AtWork: d.seen.AtWork, Whole: d.seen.Whole, Findings: []findingReport{}}
	for _, f := range d.findings {
		r.Findings = append(r.Findings, findingReport{f.Node, f.Kind, f.Kind.Note(), f.Detail, f.Server, f.Fix, byHand(f.Command, nodeset.Of(f.Node))})
	}
	r.rows = alike(d.findings, func(f reconcile.Finding) (string, reconcile.Finding) {
		node := f.Node
		f.Node = ""
		return node, f
	})
	return r
}

// byHand is a finding's command for the nodes, as it is typed into a shell.
func byHand(command string, nodes nodeset.NodeSet) string {
	list := nodes.String()
	if strings.ContainsAny(list, "[]") {
		list = "'" + list + "'"
	}
	return strings.ReplaceAll(command, reconcile.Nodes, list)
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
		rows := [][]string{{"NODE", "FINDING", "WHAT --fix WOULD DO"}}
		for _, row := range r.rows {
			rows = append(rows, []string{row.nodes.String(), finding(row.first), remedy(row.first, row.nodes)})
		}
		table(&b, rows)
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

// finding is what is found, for people.
func finding(f reconcile.Finding) string {
	return strings.ReplaceAll(string(f.Kind), "_", " ") + ": " + printable(f.Detail)
}

// remedy says what is done about a finding at the nodes, or is left to administrators.
func remedy(f reconcile.Finding, nodes nodeset.NodeSet) string {
	does := map[reconcile.Fix]string{
		reconcile.Suspend: "suspend: remove what is left of it",
		reconcile.Resume:  "resume: make it ready",
		reconcile.Enlarge: "enlarge: make its instance",
		reconcile.Delete:  "remove this instance",
	}[f.Fix]
	command := byHand(f.Command, nodes)
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
