package status

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Group counts the nodes of a group. A node counts in several columns: one that is down may be drained, too. What is
// unknown is not there: the sources that do not answer stand in the report.
type Group struct {
	Group       string `json:"group"`
	Persistent  int    `json:"persistent"`
	Cloud       int    `json:"cloud"`
	Undeclared  int    `json:"undeclared"`             // instances of the group's nodes that are not declared any more
	Up          *int   `json:"up,omitempty"`           // Slurm may start jobs there
	Busy        *int   `json:"busy,omitempty"`         // a job runs there
	Drain       *int   `json:"drain,omitempty"`        // Slurm starts no more jobs there
	Down        *int   `json:"down,omitempty"`         // Slurm has given them up
	Powering    *int   `json:"powering,omitempty"`     // on their way up or down
	PoweredDown *int   `json:"powered_down,omitempty"` // without instance, as nothing needs them
	Failing     int    `json:"failing"`                // what was done last went wrong
	Outdated    *int   `json:"outdated,omitempty"`     // not what is declared

	CoolDown *CoolDown `json:"cool_down,omitempty"` // Slurm gets no more of them
	Breaker  *Breaker  `json:"breaker,omitempty"`   // Slurm gets one of them at a time
}

// CoolDown is until when a group is not asked for more, since the cloud had no room for one of its nodes.
type CoolDown struct {
	Until  time.Time         `json:"until"`
	Node   string            `json:"node"`
	Class  reconfigure.Class `json:"class"`
	Reason string            `json:"reason"`
}

// Breaker is why a group is tried by one node at a time.
type Breaker struct {
	Failures int               `json:"failures"` // in a row
	Since    time.Time         `json:"since"`
	Node     string            `json:"node"` // the last that failed
	Class    reconfigure.Class `json:"class"`
	Reason   string            `json:"reason"`
	Probe    string            `json:"probe,omitempty"` // that tries the group now
}

// addHealth adds the failures of the group, where they keep nodes from Slurm.
func (g *Group) addHealth(h reconfigure.Health, c reconfigure.Cluster, now time.Time) {
	if until, cools := h.CoolsDown(now, c.Settings); cools {
		g.CoolDown = &CoolDown{until, h.Full.Node, h.Full.Class, h.Full.Reason}
	}
	if h.Broken(c.Settings) {
		g.Breaker = &Breaker{h.Failures, h.Since, h.Last.Node, h.Last.Class, h.Last.Reason, h.Probing(now, c.Slurm)}
	}
}

// words is the same for people, a line each.
func (g Group) words(now time.Time) []string {
	var lines []string
	if d := g.CoolDown; d != nil {
		lines = append(
			lines,
			fmt.Sprintf(
				"Group %s cools down for %s, since there was no room for %s: %s",
				g.Group,
				text.Span(d.Until.Sub(now)),
				d.Node,
				text.OneLine(d.Class.Said(d.Reason)),
			),
		)
	}
	if b := g.Breaker; b != nil {
		lines = append(
			lines,
			fmt.Sprintf(
				"Group %s: %d boot failures in a row, the first %s ago; %s is tried alone until one comes up, or `reconfigure continue %s`; the last was %s: %s",
				g.Group,
				b.Failures,
				text.Ago(now, b.Since),
				cmp.Or(b.Probe, "the next"),
				g.Group,
				b.Node,
				text.OneLine(b.Class.Said(b.Reason)),
			),
		)
	}
	return lines
}

// summarize counts the compute nodes, group by group, in the order of the nodes.
func summarize(nodes []Node, seen snapshot.Snapshot) []Group {
	groups := []Group{}
	members := map[string][]Node{}
	for _, n := range nodes {
		if n.Kind == KindControl || n.Group == "" {
			continue
		}
		if _, known := members[n.Group]; !known {
			groups = append(groups, Group{Group: n.Group})
		}
		members[n.Group] = append(members[n.Group], n)
	}
	for i := range groups {
		g := &groups[i]
		g.count(members[g.Group])
		if seen.Answers(snapshot.Slurm) {
			g.countStates(members[g.Group])
		}
		if seen.Answers(snapshot.Cloud) && seen.Answers(snapshot.Terraform) {
			g.Outdated = new(count(members[g.Group], func(n Node) bool { return len(n.Outdated) > 0 }))
		}
	}
	return groups
}

func (g *Group) count(nodes []Node) {
	of := func(kind Kind) int { return count(nodes, func(n Node) bool { return n.Kind == kind }) }
	g.Persistent, g.Cloud, g.Undeclared = of(KindPersistent), of(KindCloud), of(KindUndeclared)
	g.Failing = count(nodes, Node.failing)
}

// countStates counts what Slurm says.
func (g *Group) countStates(nodes []Node) {
	in := func(is func(reconfigure.NodeState) bool) *int {
		return new(count(nodes, func(n Node) bool { return is(n.state) }))
	}
	g.Up, g.Busy = in(reconfigure.NodeState.Usable), in(reconfigure.NodeState.Running)
	g.Drain, g.Down = in(reconfigure.NodeState.Drained), in(reconfigure.NodeState.Down)
	g.Powering = in(func(s reconfigure.NodeState) bool { return s.PoweringUp() || s.PoweringDown() })
	g.PoweredDown = in(reconfigure.NodeState.PoweredDown)
}

func count(nodes []Node, is func(Node) bool) (n int) {
	for _, node := range nodes {
		if is(node) {
			n++
		}
	}
	return n
}

func (g Group) row() []string {
	row := []string{g.Group}
	for _, n := range []*int{&g.Persistent, &g.Cloud, g.Up, g.Busy, g.Drain, g.Down, g.Powering, g.PoweredDown, &g.Failing, g.Outdated, &g.Undeclared} {
		row = append(row, figure(n))
	}
	return row
}

func summaryHeader() []string {
	return []string{
		"GROUP",
		"PERSISTENT",
		"CLOUD",
		"UP",
		"BUSY",
		"DRAIN",
		"DOWN",
		"POWERING",
		"POWERED_DOWN",
		"FAILING",
		"OUTDATED",
		"UNDECLARED",
	}
}

// figure is empty for nothing, so that a column of nothing is left out.
func figure(n *int) string {
	switch {
	case n == nil:
		return "?"
	case *n == 0:
		return ""
	}
	return strconv.Itoa(*n)
}

// failing reports whether what was done last with a node went wrong.
func (n Node) failing() bool { return n.Last != nil && n.Last.Level == reconfigure.Failed }
