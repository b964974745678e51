package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// statusReport is what `status` prints.
type statusReport struct {
	Cluster  string           `json:"cluster"`
	Leader   string           `json:"leader"` // the worker at work; empty: none
	Requests []pendingRequest `json:"requests"`
	Silent   []silence        `json:"silent"`
	Nodes    []statusNode     `json:"nodes"`
}

type statusNode struct {
	Node     string             `json:"node"`
	Group    string             `json:"group"`
	Kind     nodeKind           `json:"kind"`
	Slurm    []string           `json:"slurm"` // base state and flags; empty where Slurm does not know the node, or is silent
	Reason   string             `json:"reason,omitempty"`
	Instance string             `json:"instance,omitempty"` // Nova's status, or missing
	Created  time.Time          `json:"created,omitzero"`
	Address  string             `json:"address,omitempty"`
	Image    string             `json:"image,omitempty"` // as declared, where the instance is of that image
	ImageID  string             `json:"image_id,omitempty"`
	Last     *reconfigure.Event `json:"last,omitempty"`
}

// missing stands in the place of Nova's status where Terraform has an instance that the cloud has not.
const missing = "MISSING"

type nodeKind string

const (
	kindControl    nodeKind = "control"
	kindPersistent nodeKind = "persistent"
	kindCloud      nodeKind = "cloud"
)

func (v sight) report(c reconfigure.Cluster, p past) statusReport {
	// A list is a list, for those who read it by a program.
	r := statusReport{Cluster: c.Name, Leader: p.leader, Requests: append([]pendingRequest{}, p.pending...), Silent: append([]silence{}, v.silent...)}
	add := func(name, group string, kind nodeKind, source reconfigure.Source) {
		n := v.node(name, source)
		n.Group, n.Kind = group, kind
		if e, ok := p.last[name]; ok {
			n.Last = &e
		}
		r.Nodes = append(r.Nodes, n)
	}
	add(c.Control.Name, reconfigure.ControlGroup, kindControl, c.Control.Source)
	for _, g := range c.Groups {
		persistent := g.Persistent()
		for node := range g.Nodes().All() {
			kind := kindCloud
			if persistent.Contains(node) {
				kind = kindPersistent
			}
			add(node, g.Name, kind, g.Source)
		}
	}
	return r
}

// node is what the parties say of a node that is declared to be made of the source.
func (v sight) node(name string, source reconfigure.Source) statusNode {
	state := v.states[name]
	n := statusNode{Node: name, Slurm: append([]string{}, state.States...), Reason: state.Reason, Address: v.instances[name].Address}
	known := v.instances[name].ID != ""
	if known {
		n.ImageID = v.desired[name].ImageID
	}
	if known && v.servers != nil && v.servers[name] == nil {
		n.Instance = missing
	}
	for _, server := range v.servers[name] {
		if n.Instance != "" {
			n.Instance += "," // two instances of one name are trouble: show both
		}
		n.Instance += server.Status
		n.Created = server.Created
		n.ImageID = cmp.Or(server.ImageID, n.ImageID)
		n.Address = cmp.Or(n.Address, server.Address)
	}
	if n.ImageID != "" && n.ImageID == v.sources[source].ImageID {
		n.Image = source.Image
	}
	return n
}

// write prints the report for people.
func (r statusReport) write(w io.Writer, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s\n\n", r.Cluster)
	r.writeNodes(&b, now)
	r.writeRequests(&b, now)
	if len(r.Silent) > 0 {
		b.WriteString("\n")
	}
	for _, s := range r.Silent {
		fmt.Fprintf(&b, "%s does not answer: %s\n", s.Who.name(), s.Reason)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p party) name() string {
	return map[party]string{partyCloud: "The cloud", partyTerraform: "Terraform", partySlurm: "Slurm"}[p]
}

func (r statusReport) writeNodes(b *strings.Builder, now time.Time) {
	rows := [][]string{{"NODE", "GROUP", "KIND", "SLURM", "INSTANCE", "SINCE", "IMAGE", "ADDRESS", "LAST", "REASON"}}
	var down []string
	for _, n := range r.Nodes {
		if n.powersDown() {
			down = append(down, n.Node)
			continue
		}
		rows = append(rows, []string{
			n.Node, n.Group, string(n.Kind), strings.Join(n.Slurm, "+"), n.Instance, ago(now, n.Created), cmp.Or(n.Image, n.ImageID), n.Address, n.lastWords(now), n.why(),
		})
	}
	table(b, rows)
	if len(down) > 0 {
		fmt.Fprintf(b, "\n%s: %s\n", r.unseen(), nodeset.Of(down...))
	}
}

// unseen says what is known of the nodes that have no line of their own.
func (r statusReport) unseen() string {
	if slices.ContainsFunc(r.Silent, func(s silence) bool { return s.Who == partyCloud }) {
		return "Nothing is known of"
	}
	return "Without instance, as nothing needs them"
}

// powersDown tells of a cloud node that nobody has anything to say of.
func (n statusNode) powersDown() bool {
	idle := len(n.Slurm) == 0 || slices.Contains(n.Slurm, "POWERED_DOWN")
	return n.Kind == kindCloud && n.Instance == "" && n.Address == "" && idle && n.why() == ""
}

// why is Slurm's reason; where it has none, the reason why the node failed last.
func (n statusNode) why() string {
	if n.Reason == "" && n.Last != nil && n.Last.Level == reconfigure.Failed {
		return oneLine(n.Last.Message)
	}
	return oneLine(n.Reason)
}

// lastWords is what the tool did last with a node.
func (n statusNode) lastWords(now time.Time) string {
	if n.Last == nil {
		return ""
	}
	words := string(n.Last.Phase)
	if n.Last.Level != reconfigure.Note { // whatever was noted, the node is in the middle of the phase
		words += " " + string(n.Last.Level)
	}
	return words + " " + ago(now, n.Last.Time) + " ago"
}

func (r statusReport) writeRequests(b *strings.Builder, now time.Time) {
	if len(r.Requests) == 0 {
		return
	}
	rows := [][]string{{"REQUEST", "MODE", "STATE", "SINCE", "BY", "NODES", "WHY"}}
	for _, p := range r.Requests {
		rows = append(rows, []string{p.ID.String(), string(p.Mode), p.state(r.Leader != ""), ago(now, p.Submitted), p.Caller, p.Nodes.String(), oneLine(p.Reason)})
	}
	b.WriteString("\n")
	table(b, rows)
	if r.Leader == "" {
		b.WriteString("\nNo worker is at work: `reconfigure worker` starts one.\n")
		return
	}
	fmt.Fprintf(b, "\nAt work: %s\n", r.Leader)
}

func (p pendingRequest) state(led bool) string {
	switch {
	case p.Begun && led:
		return "at work"
	case p.Begun:
		return "cut short" // its worker has died
	}
	return "waits"
}

// table writes rows in columns, the first one as the header. A column without any content below its header is left out.
func table(b *strings.Builder, rows [][]string) {
	used := make([]bool, len(rows[0]))
	for _, row := range rows[1:] {
		for i, cell := range row {
			used[i] = used[i] || cell != ""
		}
	}
	out := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.StripEscape)
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			if used[i] {
				cells = append(cells, cmp.Or(cell, "-"))
			}
		}
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	_ = out.Flush() // a builder takes everything
}

// ago is how long something is past; empty where it never was.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return span(now.Sub(then))
}
