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
	r := reconcileReport{Cluster: cluster, Silent: append([]silence{}, d.silent...), AtWork: d.seen.AtWork, Whole: d.seen.Whole, Findings: findingReports(d.findings)}
	r.rows = alike(d.findings, func(f reconcile.Finding) (string, reconcile.Finding) {
		node := f.Node
		f.Node = ""
		return node, f
	})
	return r
}

func findingReports(findings []reconcile.Finding) []findingReport {
	reports := make([]findingReport, len(findings))
	for i, f := range findings {
		reports[i] = findingReport{f.Node, f.Kind, f.Kind.Note(), f.Detail, f.Server, f.Fix, byHand(f.Command, nodeset.Of(f.Node))}
	}
	return reports
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
	return kindWords(f.Kind) + ": " + printable(f.Detail)
}

func kindWords(k reconcile.Kind) string { return strings.ReplaceAll(string(k), "_", " ") }

// remedy says what is done about a finding at the nodes, or is left to administrators.
func remedy(f reconcile.Finding, nodes nodeset.NodeSet) string {
	does := map[reconcile.Fix]string{
		reconcile.Suspend:  "suspend: remove what is left of it",
		reconcile.Resume:   "resume: make it ready",
		reconcile.Enlarge:  "enlarge: make its instance",
		reconcile.Delete:   "remove this instance",
		reconcile.HandBack: "hand it back to Slurm: power_down_force",
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

// showMended tells what became of what is mended without a request.
func showMended(c *cli.Context, f reconcile.Finding, failure error) error {
	done := failure == nil
	switch {
	case wantsJSON(c) && f.Fix == reconcile.HandBack:
		return json.NewEncoder(c.App.Writer).Encode(struct {
			Node       string `json:"node"`
			HandedBack bool   `json:"handed_back"`
		}{f.Node, done})
	case wantsJSON(c):
		return json.NewEncoder(c.App.Writer).Encode(struct {
			Node    string `json:"node"`
			Server  string `json:"server"`
			Removed bool   `json:"removed"`
		}{f.Node, f.Server, done})
	}
	_, err := fmt.Fprintln(c.App.Writer, mendedWords(f, done))
	return err
}

// mendedWords says what became of what is mended without a request.
func mendedWords(f reconcile.Finding, done bool) string {
	what, became := "instance "+f.Server+" of "+f.Node, "removed"
	if f.Fix == reconcile.HandBack {
		what, became = f.Node, "handed back to Slurm"
	}
	if !done {
		became = "not " + became
	}
	return what + ": " + became
}
