package status

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Preview is what a dry run prints.
type Preview struct {
	Declaration fmt.Stringer                 `json:"declaration,omitempty"` // the change to all.yml
	Nodes       []PreviewNode                `json:"nodes"`
	Rejected    []reconfigure.Rejection      `json:"rejected,omitempty"`
	Terraform   []reconfigure.ResourceChange `json:"terraform,omitempty"`
	Refused     []reconfigure.ResourceChange `json:"refused,omitempty"` // by the fence
	Unseen      string                       `json:"unseen,omitempty"`  // why Terraform is not in the preview
	Plays       []Play                       `json:"plays,omitempty"`
}

// PreviewNode is the change of a node in a preview.
type PreviewNode struct {
	Node   string             `json:"node"`
	Action reconfigure.Action `json:"action"`
	// drain the node first, and wait until its jobs have ended
	Drain    bool                    `json:"drain,omitempty"`
	Reason   string                  `json:"reason"`
	Requests []reconfigure.RequestID `json:"requests"` // 0 is the request of this preview
	Lost     string                  `json:"lost,omitempty"`
	Note     string                  `json:"note,omitempty"`
}

// Play is a play of Ansible, and the hosts on which it would run.
type Play struct {
	Name  string          `json:"name"`
	Hosts nodeset.NodeSet `json:"hosts"`
}

// NewPreview returns the preview of a plan: first is the current plan, last the plan after the jobs on the nodes to
// drain have ended. A problem that is a reconfigure.Refusal is shown as the fence's answer to Terraform's plan; any
// other problem is returned.
func NewPreview(first, last reconfigure.Plan, terraform reconfigure.Preview, problem error) (Preview, error) {
	var refusal *reconfigure.Refusal
	if problem != nil && !errors.As(problem, &refusal) {
		return Preview{}, problem
	}
	p := Preview{Nodes: []PreviewNode{}, Rejected: last.Rejected, Terraform: terraform.Changes}
	if refusal != nil {
		p.Refused = refusal.Changes
	}
	for _, c := range last.Changes {
		p.Nodes = append(p.Nodes, PreviewNode{
			Node: c.Node, Action: c.Action, Reason: c.Reason, Requests: c.Requests, Note: c.Note,
			Lost:  loss(c, terraform.Changes),
			Drain: slices.ContainsFunc(first.Deferred, func(d reconfigure.Deferral) bool { return d.Node == c.Node }),
		})
	}
	return p, nil
}

// loss returns what a change destroys.
func loss(change reconfigure.Change, terraform []reconfigure.ResourceChange) string {
	switch {
	case change.Action == reconfigure.Reboot:
		return "reboot: memory content"
	case change.Action == reconfigure.Capture && change.HandOver:
		return "delete: the instance, after the image"
	case change.Action == reconfigure.Capture:
		return "replace: new instance, after the image"
	}
	for _, loss := range []struct {
		effect reconfigure.Effect
		words  string
	}{
		{reconfigure.EffectReplace, "replace: new instance"},
		{reconfigure.EffectRebuild, "rebuild: disk lost, same address"},
		{reconfigure.EffectResize, "resize: restarted"},
		{reconfigure.EffectStop, "stop: memory content"},
		{reconfigure.EffectDelete, "delete: the instance"},
	} {
		if slices.ContainsFunc(terraform, func(c reconfigure.ResourceChange) bool {
			return c.Node == change.Node && c.Effect == loss.effect
		}) {
			return loss.words
		}
	}
	return ""
}

// Write prints the preview for people.
func (p Preview) Write(w io.Writer) error {
	var b strings.Builder
	if p.Declaration != nil {
		fmt.Fprintf(&b, "%s\n\n", p.Declaration)
	}
	if rows := p.rows(); len(rows) > 1 {
		_ = text.Table(&b, rows, 0) // writing to a builder never fails
	} else {
		b.WriteString("nothing to do\n")
	}
	resources(&b, "\nTerraform:\n", p.Terraform)
	if p.Unseen != "" {
		fmt.Fprintf(&b, "\n%s\n", p.Unseen)
	}
	resources(&b, "\nrefused, since no request asks for it:\n", p.Refused)
	for i, play := range p.Plays {
		if i == 0 {
			b.WriteString("\nAnsible:\n")
		}
		fmt.Fprintf(&b, "  %s: %s\n", play.Name, play.Hosts)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Preview) rows() [][]string {
	rows := [][]string{{"NODE", "WHAT", "WHY", "REQUEST", "LOST"}}
	for _, n := range p.Nodes {
		what, why := string(n.Action), n.Reason
		if n.Drain {
			what = "drain, " + what
		}
		if n.Note != "" {
			why += "; " + n.Note
		}
		rows = append(rows, []string{n.Node, what, why, requests(n.Requests), cmp.Or(n.Lost, "-")})
	}
	for _, g := range text.GroupNodes(p.Rejected, func(r reconfigure.Rejection) (string, reconfigure.Rejection) {
		node := r.Node
		r.Node = ""
		return node, r
	}) {
		rows = append(rows, []string{
			g.Nodes.String(), "nothing", text.OneLine(g.First.Reason), requests([]reconfigure.RequestID{g.First.Request}), "-",
		})
	}
	return rows
}

func resources(b *strings.Builder, title string, changes []reconfigure.ResourceChange) {
	for i, change := range changes {
		if i == 0 {
			b.WriteString(title)
		}
		fmt.Fprintf(b, "  %s %s", change.Effect, change.Address)
		if change.Detail != "" {
			fmt.Fprintf(b, " (%s)", change.Detail)
		}
		b.WriteString("\n")
	}
}

// requests lists numbers of requests.
func requests(ids []reconfigure.RequestID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id.String()
		if id == 0 {
			names[i] = "(this one)"
		}
	}
	return strings.Join(names, ", ")
}
