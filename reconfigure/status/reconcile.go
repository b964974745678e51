package status

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Reconcile is what `reconcile` prints. docs/guides/reconcile.md describes each field.
type Reconcile struct {
	Cluster     string                 `json:"cluster"`
	Unreachable []snapshot.Unreachable `json:"unreachable"`
	AtWork      nodeset.NodeSet        `json:"at_work"`       // the nodes that are not judged
	Whole       bool                   `json:"whole_at_work"` // no node is judged
	Findings    []Finding              `json:"findings"`

	rows []text.Group[reconcile.Finding]
}

// Finding is a finding as programs read it.
type Finding struct {
	Node    string         `json:"node"`
	Kind    reconcile.Kind `json:"kind"`
	Note    bool           `json:"note"`
	Detail  string         `json:"detail"`
	Server  string         `json:"server,omitempty"`
	Port    string         `json:"port,omitempty"`
	Fix     reconcile.Fix  `json:"fix,omitempty"`
	Command string         `json:"command,omitempty"`
}

// NewReconcile returns the report of a comparison.
func NewReconcile(cluster string, c reconcile.Comparison) Reconcile {
	r := Reconcile{
		Cluster: cluster, Unreachable: unreachable(c.Seen.Unreachable()), AtWork: c.Busy.Nodes, Whole: c.Busy.Whole,
		Findings: newFindings(c.Findings),
	}
	r.rows = text.GroupNodes(c.Findings, func(f reconcile.Finding) (string, reconcile.Finding) {
		node := f.Node
		f.Node = ""
		return node, f
	})
	return r
}

func newFindings(findings []reconcile.Finding) []Finding {
	all := make([]Finding, len(findings))
	for i, f := range findings {
		all[i] = Finding{
			f.Node,
			f.Kind,
			f.Kind.Note(),
			f.Detail,
			f.Server,
			f.Port,
			f.Fix,
			byHand(f.Command, nodeset.Of(f.Node)),
		}
	}
	return all
}

// byHand returns a finding's command for the nodes, quoted for a shell.
func byHand(command string, nodes nodeset.NodeSet) string {
	list := nodes.String()
	if strings.ContainsAny(list, "[]") {
		list = "'" + list + "'"
	}
	return strings.ReplaceAll(command, reconcile.Nodes, list)
}

// Write prints the report for people.
func (r Reconcile) Write(w io.Writer) error {
	var b strings.Builder
	if len(r.rows) > 0 {
		rows := [][]string{{"NODE", "FINDING", "WHAT --fix WOULD DO"}}
		for _, row := range r.rows {
			finding := row.First.Kind.Words() + ": " + text.Printable(row.First.Detail)
			rows = append(rows, []string{row.Nodes.String(), finding, remedy(row.First, row.Nodes)})
		}
		_ = text.Table(&b, rows, 0) // writing to a builder never fails
	}
	writeUnreachable(&b, r.Unreachable, true)
	switch {
	case r.Whole:
		b.WriteString("A request for the whole cluster is in progress: no node is judged before it has ended.\n")
	case !r.AtWork.Empty():
		fmt.Fprintf(&b, "Not judged, since requests for them are in progress: %s\n", r.AtWork)
	}
	if len(r.rows) == 0 && len(r.Unreachable) == 0 && !r.Whole {
		b.WriteString("Nothing differs.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// remedy returns what --fix does about a finding at the nodes, or the command for an administrator.
func remedy(f reconcile.Finding, nodes nodeset.NodeSet) string {
	does := map[reconcile.Fix]string{
		reconcile.Suspend:  "suspend: remove the rest of it",
		reconcile.Resume:   "resume: make it ready",
		reconcile.Enlarge:  "enlarge: make its instance",
		reconcile.Delete:   "remove this instance",
		reconcile.Update:   "update: boot it, or make it as declared, when its jobs have ended",
		reconcile.Renew:    "update: make it anew when its jobs have ended",
		reconcile.Retire:   "Slurm powers it down when its jobs have ended",
		reconcile.HandBack: "hand it back to Slurm: power_down_force",
	}[f.Fix]
	command := byHand(f.Command, nodes)
	switch {
	case f.Port != "" && does != "":
		return "remove this port"
	case f.Kind == reconcile.Silent && does != "":
		return "resume: the playbooks start slurmd"
	case f.Kind == reconcile.Unadopted && does != "":
		return "resume: add it to Terraform's state"
	case does != "":
		return does
	case command != "":
		return "nothing; by hand: " + command
	}
	return "nothing"
}

// Fixed is the result of a fix that is not a request.
type Fixed struct {
	reconcile.Finding
	Done bool
}

// MarshalJSON has the fields that docs/guides/reconcile.md describes.
func (f Fixed) MarshalJSON() ([]byte, error) {
	if f.Fix == reconcile.HandBack {
		return json.Marshal(struct {
			Node       string `json:"node"`
			HandedBack bool   `json:"handed_back"`
		}{f.Node, f.Done})
	}
	if f.Fix == reconcile.Retire {
		return json.Marshal(struct {
			Node    string `json:"node"`
			Retired bool   `json:"retired"`
		}{f.Node, f.Done})
	}
	return json.Marshal(struct {
		Node    string `json:"node"`
		Server  string `json:"server,omitempty"`
		Port    string `json:"port,omitempty"`
		Removed bool   `json:"removed"`
	}{f.Node, f.Server, f.Port, f.Done})
}

// String returns the result for people.
func (f Fixed) String() string {
	what, became := "instance "+f.Server+" of "+f.Node, "removed"
	if f.Port != "" {
		what = "port " + f.Port + " of " + f.Node
	}
	if f.Fix == reconcile.HandBack {
		what, became = f.Node, "handed back to Slurm"
	}
	if f.Fix == reconcile.Retire {
		what, became = f.Node, "taken out of use, since its instance is too old"
	}
	if !f.Done {
		became = "not " + became
	}
	return what + ": " + became
}
