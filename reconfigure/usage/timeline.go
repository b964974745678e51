package usage

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Step is one thing that happened to a job, or to an instance of one of its nodes.
type Step struct {
	Time     time.Time `json:"time"`
	What     What      `json:"what"`
	Node     string    `json:"node,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Text     string    `json:"text,omitempty"`
}

// What is the kind of a step.
type What string

// The kinds, in the order in which they happen.
const (
	Submitted  What = "submitted"
	Asked      What = "asked for" // Slurm asked for nodes
	Planned    What = "planned"   // the operation of a node began
	Made       What = "made"      // the cloud has the instance
	Booted     What = "booted"    // SSH answers
	Configured What = "configured"
	Registered What = "registered" // slurmd has registered
	Failed     What = "failed"
	Started    What = "started"
	Ended      What = "ended"
	Removed    What = "removed"
)

var order = []What{
	Submitted, Asked, Planned, Made, Booted, Configured, Registered, Failed, Started, Ended, Removed,
}

// timeline returns all steps of a job in order. Slurm's times are cut off to whole seconds, so all steps in the
// second of the job's start come before the start.
func timeline(j Job, requests []reconfigure.Request, failures []Step) []Step {
	steps := slices.Clone(failures)
	add := func(at time.Time, what What, node, instance, text string) {
		if !at.IsZero() {
			steps = append(steps, Step{at, what, node, instance, text})
		}
	}
	add(j.Submitted, Submitted, "", "", "")
	for _, r := range requests {
		add(r.Submitted, Asked, "", "", fmt.Sprintf("%s in request %s", r.Nodes, r.ID))
	}
	for _, l := range j.Instances {
		planned := func(s Step) bool { return s.What == Planned && s.Node == l.Node && s.Time.Equal(l.Planned) }
		ours := !j.Asked.IsZero() && !l.Made.Before(j.Asked)
		if ours && !slices.ContainsFunc(steps, planned) { // a retry belongs to the same plan
			add(l.Planned, Planned, l.Node, "", fmt.Sprintf("plan %d", l.Plan))
		}
		add(l.Made, Made, l.Node, l.Instance, madeOf(l))
		add(l.Booted, Booted, l.Node, l.Instance, "")
		add(l.Configured, Configured, l.Node, l.Instance, "")
		add(l.Registered, Registered, l.Node, l.Instance, "")
		add(l.Removed, Removed, l.Node, l.Instance, l.Failed)
	}
	add(j.Started, Started, "", "", j.Nodes.String())
	add(j.Ended, Ended, "", "", j.State)
	place := func(s Step) time.Time {
		switch start := j.Started.Add(truncated); {
		case s.What == Started, s.What == Ended && s.Time.Before(start):
			return start
		}
		return s.Time
	}
	slices.SortStableFunc(steps, func(a, b Step) int {
		return cmp.Or(place(a).Compare(place(b)), slices.Index(order, a.What)-slices.Index(order, b.What))
	})
	return steps
}

// madeOf describes an instance and its place.
func madeOf(l reconfigure.Life) string {
	text := fmt.Sprintf("image %s, flavor %s", cmp.Or(l.Image, l.ImageID), cmp.Or(l.Flavor, l.FlavorID))
	if l.Host != "" {
		text += ", host " + l.Host
	}
	return text
}

// failuresOf returns why nodes were not made for requests, in order: the failures of operations, and the verdicts of
// requests for nodes without such an event, for which nothing was begun.
func failuresOf(f Facts, nodes nodeset.NodeSet, requests []reconfigure.Request) []Step {
	var steps []Step
	for _, r := range requests {
		told := map[string]bool{}
		for _, e := range f.Events[r.ID] {
			if e.Level == reconfigure.Failed && nodes.Contains(e.Node) {
				told[e.Node] = true
				steps = append(steps, Step{e.Time, Failed, e.Node, "", fmt.Sprintf("%s: %s", e.Phase, e.Message)})
			}
		}
		o, ended := f.Outcomes[r.ID]
		verdicts, at := r.Verdicts, f.Now
		if ended {
			verdicts, at = o.Verdicts, o.Finished
		}
		for _, v := range verdicts {
			good := v.Status == reconfigure.StatusDone || v.Status == reconfigure.StatusUnchanged
			if !good && !told[v.Node] && !v.Nodes().Intersect(nodes).Empty() {
				steps = append(steps, Step{at, Failed, v.Node, "", fmt.Sprintf("%s: %s", v.Status, v.Reason)})
			}
		}
		if o.Error != "" {
			steps = append(steps, Step{at, Failed, "", "", o.Error})
		}
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return a.Time.Compare(b.Time) })
	return steps
}
