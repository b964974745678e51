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

// State is where a request stands that has no outcome yet.
type State string

// The states. A deferred request has the kind of its deferral.
const (
	Waits           State = "waits"     // for a worker, or for requests that come first
	AtWork          State = "at_work"   // a worker carries it out
	CutShort        State = "cut_short" // its worker has died, and no other one is at work
	WaitsForJobs          = State(reconfigure.WaitsForJobs)
	WaitsForSlurm         = State(reconfigure.SlurmUnreachable)
	WaitsForCloud         = State(reconfigure.CloudUnreachable)
	CannotBePlanned       = State(reconfigure.CannotPlan)
)

// Words is the state for people.
func (s State) Words() string {
	words := map[State]string{
		AtWork: "at work", CutShort: "cut short", WaitsForJobs: "waits for jobs", WaitsForSlurm: "waits for Slurm",
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
	Begun bool  `json:"begun"` // something was done for it
	State State `json:"state"`

	moved time.Time        // when the last thing happened that is known
	since time.Time        // when the worker began that is at work
	at    map[string]place // where each node is; under the empty name what no single node owns
}

// place is where a node is on its way, and since when nothing has moved it.
type place struct {
	stop
	moved time.Time
}

// NewRequest is a request with the events of the plans that it was in, oldest first.
func NewRequest(r reconfigure.Request, events []reconfigure.Event) Request {
	p := Request{Request: r, Begun: len(events) > 0, at: map[string]place{}}
	for _, e := range events {
		was := p.at[e.Node]
		now := place{stop: was.after(e), moved: e.Time}
		if e.Level == reconfigure.Note {
			now.moved = was.moved // notes move no node
		}
		p.at[e.Node], p.moved = now, e.Time
	}
	return p
}

// stand is where the request stands, given whether a worker is at work and since when.
func (p Request) stand(working bool, since time.Time) State {
	running := working && !p.moved.Before(since)
	switch {
	case p.IsDeferred() && !(running && p.moves(since)):
		return p.deferral()
	case !p.Begun:
		return Waits
	case running:
		return AtWork
	case working:
		return Waits // other requests come first
	}
	return CutShort
}

// deferral is what a deferred request waits for: as a whole or, where its nodes wait for different things, for
// something else than jobs.
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

// moves reports whether a worker is in the middle of something with one of the nodes.
func (p Request) moves(since time.Time) bool {
	for _, at := range p.at {
		if at.level == reconfigure.Begun && !at.moved.Before(since) {
			return true
		}
	}
	return false
}

// WithJobs is the nodes whose jobs the request waits for.
func (p Request) WithJobs() nodeset.NodeSet {
	var names []string
	for _, d := range p.Deferred {
		if d.Node != "" && d.Kind == reconfigure.WaitsForJobs {
			names = append(names, d.Node)
		}
	}
	return nodeset.Of(names...)
}

// Why is the reason for which a request is deferred, by something else than jobs.
func (p Request) Why() string {
	for _, d := range p.Deferred {
		if State(d.Kind) == p.State {
			return d.Reason
		}
	}
	return ""
}

// Activity is what is being done with a node, or is to be done.
type Activity struct {
	State   State                 `json:"state"`
	Request reconfigure.RequestID `json:"request"`
	Mode    reconfigure.Mode      `json:"mode"`
	Phase   reconfigure.Phase     `json:"phase,omitempty"`
	Step    string                `json:"step,omitempty"`   // the last one of Terraform's or Ansible's
	Reason  string                `json:"reason,omitempty"` // why it waits
	Since   time.Time             `json:"since"`
}

// activities is what is being done with each node. Where several requests name a node, the one counts that is nearest
// to its end; the older one among equals.
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
	order := []State{AtWork, WaitsForJobs, WaitsForSlurm, WaitsForCloud, CannotBePlanned, CutShort, Waits}
	return slices.Index(order, a.State)
}

// concerned is the nodes that the request names, or that something was done with for it.
func (p Request) concerned() nodeset.NodeSet {
	var names []string
	for node := range p.at {
		if node != "" {
			names = append(names, node)
		}
	}
	return p.Open().Union(nodeset.Of(names...))
}

// activity is what the request has to do with a node; false where it is finished with it.
func (p Request) activity(node string) (Activity, bool) {
	a := Activity{State: p.State, Request: p.ID, Mode: p.Mode, Since: p.Submitted}
	at, open := p.at[node], p.Nodes.Empty() || p.Open().Contains(node)
	deferral, deferred := p.Deferral(node)
	if !deferred {
		deferral, deferred = p.Deferral("")
	}
	under := at.level == reconfigure.Begun || at.level != "" && !deferred
	switch {
	case p.State == CutShort && at.phase != "", p.State == AtWork && under && !at.moved.Before(p.since):
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
	return a, false // nothing is done to it
}

// words is the activity for people.
func (a Activity) words(now time.Time) string {
	since := text.Ago(now, a.Since)
	switch {
	case a.State == AtWork:
		return string(a.Phase) + " " + since
	case a.State == WaitsForJobs:
		return "waits for jobs " + since
	case a.State == CutShort:
		return "cut short at " + string(a.Phase) + " " + since
	}
	return string(a.Mode) + " " + a.State.Words() + " " + since
}

// story is the words with all that is known beside them.
func (a Activity) story(now time.Time) string {
	story := a.words(now) + " (" + string(a.Mode) + ", request " + a.Request.String() + ")"
	if more := cmp.Or(a.Step, a.Reason); more != "" {
		story += ": " + text.OneLine(more)
	}
	return story
}

// BegunWords says where a request stands that cannot be taken back, and what an administrator can do who does not
// want it.
func (p Request) BegunWords() string {
	is := map[State]string{
		Waits:           "was taken up by a worker",
		AtWork:          "is at work",
		WaitsForJobs:    "waits for jobs on " + p.WithJobs().String(),
		WaitsForSlurm:   "waits for Slurm: " + text.OneLine(p.Why()),
		WaitsForCloud:   "waits for the cloud: " + text.OneLine(p.Why()),
		CannotBePlanned: "cannot be planned now, and is tried again: " + text.OneLine(p.Why()),
		CutShort:        "was cut short, and the next worker takes it up again",
	}[p.State]
	return is + "; " + p.remedy()
}

func (p Request) remedy() string {
	switch {
	case p.State.Deferred() && p.State != WaitsForJobs:
		return "fix that, or have nothing begin by `reconfigure pause`"
	case p.State == WaitsForJobs && (p.Mode == reconfigure.Shrink || p.Mode == reconfigure.Resize):
		return "with another `reconfigure enlarge` its nodes stay"
	case p.State == WaitsForJobs:
		return "where they do not end within its --drain-timeout, the nodes stay as they are"
	case p.Mode == reconfigure.Resume:
		return fmt.Sprintf("`scontrol update nodename=%s state=power_down` has the nodes removed again", p.Nodes)
	case p.Mode == reconfigure.Suspend:
		return "Slurm resumes the nodes as soon as a job needs them"
	}
	return fmt.Sprintf("`reconfigure wait %s` shows how it ends", p.ID)
}

// list is a hostlist that fits into a column.
func list(nodes nodeset.NodeSet, all bool) string {
	const most = 30
	if all {
		return nodes.String()
	}
	return text.Clip(nodes.String(), most)
}

// join is words with commas.
func join[T ~string](all []T) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = string(one)
	}
	return strings.Join(words, ", ")
}
