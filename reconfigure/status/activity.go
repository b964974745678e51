package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// State is the state of a request without an outcome.
type State string

// The states. The state of a deferred request is the kind of its deferral.
const (
	Waits           State = "waits"       // it waits for a worker, or for earlier requests
	AtWork          State = "at_work"     // a worker carries it out
	Interrupted     State = "interrupted" // its worker has died, and there is no other one
	WaitsForJobs          = State(reconfigure.WaitsForJobs)
	WaitsForSlurm         = State(reconfigure.SlurmUnreachable)
	WaitsForCloud         = State(reconfigure.CloudUnreachable)
	CannotBePlanned       = State(reconfigure.CannotPlan)
)

// Words is the state for people.
func (s State) Words() string {
	words := map[State]string{
		AtWork: "at work", Interrupted: "interrupted", WaitsForJobs: "waits for jobs", WaitsForSlurm: "waits for Slurm",
		WaitsForCloud: "waits for the cloud", CannotBePlanned: "cannot be planned",
	}
	return cmp.Or(words[s], string(s))
}

// Deferred reports whether the state is the kind of a deferral.
func (s State) Deferred() bool {
	return slices.Contains([]State{WaitsForJobs, WaitsForSlurm, WaitsForCloud, CannotBePlanned}, s)
}

// Request is a request without an outcome.
type Request struct {
	reconfigure.Request
	Begun bool  `json:"begun"` // an operation has begun for it
	State State `json:"state"`

	moved time.Time        // the time of its last event
	since time.Time        // when the worker that is at work acquired the lease
	at    map[string]place // the phase of each node; the empty name is for events that name no node
}

// place is the phase of a node, and the time of its last change.
type place struct {
	stop
	moved time.Time
}

// NewRequest returns a request with its progress. The events are those of the request's plans, oldest first.
func NewRequest(r reconfigure.Request, events []reconfigure.Event) Request {
	p := Request{Request: r, Begun: len(events) > 0, at: map[string]place{}}
	for _, e := range events {
		was := p.at[e.Node]
		now := place{stop: was.after(e), moved: e.Time}
		if e.Level == reconfigure.Note {
			now.moved = was.moved // a note does not change the phase
		}
		p.at[e.Node], p.moved = now, e.Time
	}
	return p
}

// state returns the state of the request. Working reports whether a worker holds the lease, which it acquired at since.
func (p Request) state(working bool, since time.Time) State {
	running := working && !p.moved.Before(since)
	switch {
	case p.IsDeferred() && !(running && p.moves(since)):
		return p.deferral()
	case !p.Begun:
		return Waits
	case running:
		return AtWork
	case working:
		return Waits // earlier requests come first
	}
	return Interrupted
}

// deferral returns what a deferred request waits for. If its nodes wait for different things, jobs come last.
func (p Request) deferral() State {
	if whole, ok := p.Deferral(""); ok {
		return State(whole.Kind)
	}
	for _, d := range p.Deferred {
		if d.Kind != reconfigure.WaitsForJobs {
			return State(d.Kind)
		}
	}
	return WaitsForJobs
}

// moves reports whether an operation of one of the nodes has begun since, and has not ended.
func (p Request) moves(since time.Time) bool {
	for _, at := range p.at {
		if at.level == reconfigure.Begun && !at.moved.Before(since) {
			return true
		}
	}
	return false
}

// WithJobs returns the nodes whose jobs the request waits for.
func (p Request) WithJobs() nodeset.NodeSet {
	var names []string
	for _, d := range p.Deferred {
		if d.Node != "" && d.Kind == reconfigure.WaitsForJobs {
			names = append(names, d.Node)
		}
	}
	return nodeset.Of(names...)
}

// Why returns the reason of a deferral other than jobs.
func (p Request) Why() string {
	for _, d := range p.Deferred {
		if State(d.Kind) == p.State {
			return d.Reason
		}
	}
	return ""
}

// Activity is what a request does, or waits to do, at a node.
type Activity struct {
	State   State                 `json:"state"`
	Request reconfigure.RequestID `json:"request"`
	Mode    reconfigure.Mode      `json:"mode"`
	Phase   reconfigure.Phase     `json:"phase,omitempty"`
	Step    string                `json:"step,omitempty"`   // the last step of Terraform or Ansible
	Reason  string                `json:"reason,omitempty"` // why it waits
	Since   time.Time             `json:"since"`
}

// activities returns the activity at each node. If several requests name a node, the one at work counts, then the
// deferred ones; among equals, the oldest.
func activities(requests []Request) map[string]Activity {
	doing := map[string]Activity{}
	for _, r := range requests {
		for node := range r.concerned().All() {
			a, ok := r.activity(node)
			if other, taken := doing[node]; ok && (!taken || a.rank() < other.rank()) {
				doing[node] = a
			}
		}
	}
	return doing
}

func (a Activity) rank() int {
	order := []State{AtWork, WaitsForJobs, WaitsForSlurm, WaitsForCloud, CannotBePlanned, Interrupted, Waits}
	return slices.Index(order, a.State)
}

// concerned returns the nodes that the request names, and those that have events for it.
func (p Request) concerned() nodeset.NodeSet {
	var names []string
	for node := range p.at {
		if node != "" {
			names = append(names, node)
		}
	}
	return p.Open().Union(nodeset.Of(names...))
}

// activity returns the activity of the request at a node; false if it has finished with the node.
func (p Request) activity(node string) (Activity, bool) {
	a := Activity{State: p.State, Request: p.ID, Mode: p.Mode, Since: p.Submitted}
	at, open := p.at[node], p.Nodes.Empty() || p.Open().Contains(node)
	deferral, deferred := p.Deferral(node)
	if !deferred {
		deferral, deferred = p.Deferral("")
	}
	under := at.level == reconfigure.Begun || at.level != "" && !deferred
	switch {
	case p.State == Interrupted && at.phase != "", p.State == AtWork && under && !at.moved.Before(p.since):
		a.Phase, a.Step, a.Since = at.phase, at.step.Message, at.since
		return a, open && at.level != reconfigure.Failed
	case deferred:
		a.State, a.Reason = State(deferral.Kind), deferral.Reason
		if at.phase == reconfigure.PhaseDrain {
			a.Since = at.since
		}
		return a, open
	case p.State == Waits:
		return a, open && p.Open().Contains(node)
	}
	return a, false // no activity
}

// words returns the activity for people.
func (a Activity) words(now time.Time) string {
	since := text.Ago(now, a.Since)
	switch {
	case a.State == AtWork:
		return string(a.Phase) + " " + since
	case a.State == WaitsForJobs:
		return "waits for jobs " + since
	case a.State == Interrupted:
		return "interrupted at " + string(a.Phase) + " " + since
	}
	return string(a.Mode) + " " + a.State.Words() + " " + since
}

// details returns the words, the request, and the step or the reason.
func (a Activity) details(now time.Time) string {
	said := a.words(now) + " (" + string(a.Mode) + ", request " + a.Request.String() + ")"
	if more := cmp.Or(a.Step, a.Reason); more != "" {
		said += ": " + text.OneLine(more)
	}
	return said
}

// BegunWords returns the state of a request that cannot be cancelled, and what an administrator can do instead.
func (p Request) BegunWords() string {
	is := map[State]string{
		Waits:           "was started by a worker",
		AtWork:          "is at work",
		WaitsForJobs:    "waits for jobs on " + p.WithJobs().String(),
		WaitsForSlurm:   "waits for Slurm: " + text.OneLine(p.Why()),
		WaitsForCloud:   "waits for the cloud: " + text.OneLine(p.Why()),
		CannotBePlanned: "cannot be planned now, and will be retried: " + text.OneLine(p.Why()),
		Interrupted:     "was interrupted, and the next worker continues it",
	}[p.State]
	return is + "; " + p.remedy()
}

func (p Request) remedy() string {
	switch {
	case p.State.Deferred() && p.State != WaitsForJobs:
		return "fix that, or stop new operations by `reconfigure pause`"
	case p.State == WaitsForJobs && (p.Mode == reconfigure.Shrink || p.Mode == reconfigure.Resize):
		return "another `reconfigure enlarge` keeps its nodes"
	case p.State == WaitsForJobs:
		return "if they do not end within its --drain-timeout, the nodes stay as they are"
	case p.Mode == reconfigure.Resume:
		return fmt.Sprintf("`scontrol update nodename=%s state=power_down` removes the nodes again", p.Nodes)
	case p.Mode == reconfigure.Suspend:
		return "Slurm resumes the nodes as soon as a job needs them"
	}
	return fmt.Sprintf("`reconfigure wait %s` shows how it ends", p.ID)
}

// list returns a hostlist that fits into a column, or all of it.
func list(nodes nodeset.NodeSet, all bool) string {
	const most = 30
	if all {
		return nodes.String()
	}
	return text.Clip(nodes.String(), most)
}

// join joins words with commas.
func join[T ~string](all []T) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = string(one)
	}
	return strings.Join(words, ", ")
}
