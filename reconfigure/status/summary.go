package status

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Group has the sums of a node group. A node may count in several of them: a node that is down may also be drained. A
// sum is missing if its source does not answer.
type Group struct {
	Group       string `json:"group"`
	Persistent  int    `json:"persistent"`
	Cloud       int    `json:"cloud"`
	Undeclared  int    `json:"undeclared"`             // instances of nodes that the group no longer declares
	Up          *int   `json:"up,omitempty"`           // Slurm may start jobs there
	Busy        *int   `json:"busy,omitempty"`         // a job runs there
	Drain       *int   `json:"drain,omitempty"`        // Slurm starts no more jobs there
	Down        *int   `json:"down,omitempty"`         // Slurm does not use them
	Powering    *int   `json:"powering,omitempty"`     // Slurm powers them up or down
	PoweredDown *int   `json:"powered_down,omitempty"` // without an instance, or stopped, since no job needs them
	Stopped     int    `json:"stopped,omitempty"`      // the instance was stopped while idle
	Failing     int    `json:"failing"`                // whose last operation failed
	Outdated    *int   `json:"outdated,omitempty"`     // that differ from the declaration

	CoolDown *CoolDown `json:"cool_down,omitempty"` // no more nodes of the group are made
	Breaker  *Breaker  `json:"breaker,omitempty"`   // one node of the group is made at a time
}

// CoolDown is a time in which no nodes of a group are made, because the cloud had no room for one of them.
type CoolDown struct {
	Until  time.Time         `json:"until"`
	Node   string            `json:"node"`
	Class  reconfigure.Class `json:"class"`
	Reason string            `json:"reason"`
}

// Breaker is the reason why one node of a group is made at a time.
type Breaker struct {
	Failures int               `json:"failures"` // boot failures in a row
	Since    time.Time         `json:"since"`
	Node     string            `json:"node"` // the last node that failed
	Class    reconfigure.Class `json:"class"`
	Reason   string            `json:"reason"`
	Probe    string            `json:"probe,omitempty"` // the node that is tried now
}

// addHealth adds the cool-down and the breaker of the group.
func (g *Group) addHealth(h reconfigure.Health, c reconfigure.Cluster, now time.Time) {
	if until, cools := plan.CoolsDown(h, now, c.Settings); cools {
		g.CoolDown = &CoolDown{until, h.Full.Node, h.Full.Class, h.Full.Reason}
	}
	if plan.Broken(h, c.Settings) {
		g.Breaker = &Breaker{h.Failures, h.Since, h.Last.Node, h.Last.Class, h.Last.Reason, plan.Probing(h, now, c.Slurm)}
	}
}

// words returns the same for people, a line each.
func (g Group) words(now time.Time) []string {
	var lines []string
	if d := g.CoolDown; d != nil {
		lines = append(
			lines,
			fmt.Sprintf(
				"Group %s cools down for %s, since the cloud had no room for %s: %s",
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
				"Group %s: %d boot failures in a row, the first %s ago; %s is tried alone until a node boots, or `reconfigure "+
					"continue %s`; the last was %s: %s",
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

// summarize returns the sums of each group, in the order of nodes.
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
	g.Stopped = count(nodes, func(n Node) bool { return n.Stopped })
}

// countStates counts the states in Slurm.
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
	for _, n := range []*int{
		&g.Persistent, &g.Cloud, g.Up, g.Busy, g.Drain, g.Down, g.Powering, g.PoweredDown, &g.Stopped, &g.Failing,
		g.Outdated,
		&g.Undeclared,
	} {
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
		"STOPPED",
		"FAILING",
		"OUTDATED",
		"UNDECLARED",
	}
}

// figure returns an empty text for zero, so that a column of zeros is left out.
func figure(n *int) string {
	switch {
	case n == nil:
		return "?"
	case *n == 0:
		return ""
	}
	return strconv.Itoa(*n)
}

// failing reports whether the last operation of a node failed.
func (n Node) failing() bool { return n.Last != nil && n.Last.Level == reconfigure.Failed }
