package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// standing is where a request stands that has no outcome yet.
type standing string

const (
	standsWaiting  standing = "waits"     // for a worker, or until a batch has ended
	standsAtWork   standing = "at_work"   // a worker carries it out
	standsHeld     standing = "held"      // until jobs have ended
	standsAgain    standing = "again"     // for another try with nodes whose instance was no good, which begins at once
	standsPutOff   standing = "put_off"   // until what keeps it from being planned is over; it is tried again
	standsCutShort standing = "cut_short" // its worker has died, and no other one is at work
)

// words is how people read it.
func (s standing) words() string { return strings.ReplaceAll(string(s), "_", " ") }

// pendingRequest is a request without an outcome.
type pendingRequest struct {
	reconfigure.Request
	Begun bool     `json:"begun"` // a batch has carried it
	State standing `json:"state"`

	batch int64            // the last batch that anything is known of
	moved time.Time        // when the last thing happened that is known
	at    map[string]place // where it has left the nodes; under the empty name what no single node owns
}

// place is where a node is on its way, and in which batch it got there.
type place struct {
	stop
	batch int64
}

func newPendingRequest(r reconfigure.Request, events []reconfigure.Event) pendingRequest {
	p := pendingRequest{Request: r, Begun: len(events) > 0, at: map[string]place{}}
	for _, e := range events {
		was := p.at[e.Node]
		now := place{stop: was.after(e), batch: e.Batch}
		if e.Level == reconfigure.Note {
			now.batch = was.batch // notes move nobody
		}
		p.at[e.Node], p.batch, p.moved = now, e.Batch, e.Time
	}
	return p
}

// stand says where the request stands. Several batches may be under way: all that the worker that leads has begun, and that have left the request without an outcome.
func (p pendingRequest) stand(led bool, since time.Time) standing {
	running := led && !p.moved.Before(since)
	switch {
	case p.Held && !(running && p.moves()):
		_, putOff := p.putOff()
		switch {
		case putOff:
			return standsPutOff
		case !p.triedAgain().Empty():
			return standsAgain
		}
		return standsHeld
	case !p.Begun:
		return standsWaiting
	case running:
		return standsAtWork
	case led:
		return standsWaiting // another batch goes first
	}
	return standsCutShort
}

// moves tells whether the last batch is in the middle of something with one of the nodes.
func (p pendingRequest) moves() bool {
	for _, at := range p.at {
		if at.level == reconfigure.Begun && at.batch == p.batch {
			return true
		}
	}
	return false
}

// standings is the requests with where they stand.
func (p past) standings() []pendingRequest {
	requests := append([]pendingRequest{}, p.pending...) // a list is a list, for those who read it by a program
	for i := range requests {
		requests[i].State = requests[i].stand(p.leader != "", p.since)
	}
	return requests
}

// withJobs is the nodes whose jobs the request waits for. A journal of the first version does not tell: all that have no verdict, then.
func (p pendingRequest) withJobs() nodeset.NodeSet {
	if len(p.Deferred) == 0 {
		return p.Open()
	}
	return p.waitingFor(func(w reconfigure.Deferral) bool { return w.Tries == 0 && !w.Veiled })
}

// putOff is what keeps the request from being planned: as a whole, or a node of it.
func (p pendingRequest) putOff() (reconfigure.Deferral, bool) {
	if whole, ok := p.Wait(""); ok {
		return whole, true
	}
	i := slices.IndexFunc(p.Deferred, func(w reconfigure.Deferral) bool { return w.Veiled })
	if i < 0 {
		return reconfigure.Deferral{}, false
	}
	return p.Deferred[i], true
}

// triedAgain is the nodes that are to be tried once more.
func (p pendingRequest) triedAgain() nodeset.NodeSet {
	return p.waitingFor(func(w reconfigure.Deferral) bool { return w.Tries > 0 })
}

func (p pendingRequest) waitingFor(what func(reconfigure.Deferral) bool) nodeset.NodeSet {
	var names []string
	for _, w := range p.Deferred {
		if w.Node != "" && what(w) {
			names = append(names, w.Node)
		}
	}
	return nodeset.Of(names...)
}

// activity is what is being done with a node, or is to be done.
type activity struct {
	State   standing              `json:"state"`
	Request reconfigure.RequestID `json:"request"`
	Mode    reconfigure.Mode      `json:"mode"`
	Phase   reconfigure.Phase     `json:"phase,omitempty"`
	Step    string                `json:"step,omitempty"`   // the last one of Terraform's or Ansible's
	Reason  string                `json:"reason,omitempty"` // why it waits
	Since   time.Time             `json:"since"`
}

// activities is what is being done with each node. Where several requests name a node, the one counts that is nearest to its end; the older one among equals.
func activities(requests []pendingRequest) map[string]activity {
	doing := map[string]activity{}
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

func (a activity) rank() int {
	return slices.Index([]standing{standsAtWork, standsAgain, standsHeld, standsPutOff, standsCutShort, standsWaiting}, a.State)
}

// concerned is the nodes that the request names, or that something was done with for it.
func (p pendingRequest) concerned() nodeset.NodeSet {
	var names []string
	for node := range p.at {
		if node != "" {
			names = append(names, node)
		}
	}
	return p.Open().Union(nodeset.Of(names...))
}

// activity is what the request has to do with a node; false where it is through with it.
func (p pendingRequest) activity(node string) (activity, bool) {
	a := activity{State: p.State, Request: p.ID, Mode: p.Mode, Since: p.Submitted}
	at, open := p.at[node], p.Open().Contains(node)
	begun := at.phase != "" && at.batch == p.batch
	switch {
	case p.State == standsAtWork && begun, p.State == standsCutShort && begun:
		a.Phase, a.Step, a.Since = at.phase, at.step.Message, at.since
		return a, at.level != reconfigure.Failed
	case p.State == standsAtWork && !p.Held, p.State == standsCutShort:
		return a, false // the batch does nothing to it
	case p.State == standsWaiting:
		return a, open
	}
	// The batch at work may be for other nodes of a held request.
	a.State = standsHeld
	wait, own := p.Wait(node)
	if whole, putOff := p.Wait(""); putOff && !own {
		wait, a.State = whole, standsPutOff
	}
	switch {
	case wait.Tries > 0:
		a.State = standsAgain
	case wait.Veiled:
		a.State = standsPutOff
	}
	a.Reason = wait.Reason
	if at.phase == reconfigure.PhaseDrain {
		a.Since = at.since
	}
	return a, open
}

// words is the activity for people.
func (a activity) words(now time.Time) string {
	since := ago(now, a.Since)
	switch a.State {
	case standsAtWork:
		return string(a.Phase) + " " + since
	case standsHeld:
		return "waits for jobs " + since
	case standsAgain:
		return string(a.Mode) + " again " + since
	case standsPutOff:
		return string(a.Mode) + " put off " + since
	case standsCutShort:
		return "cut short at " + string(a.Phase) + " " + since
	}
	return string(a.Mode) + " waits " + since
}

// story is the words with all that is known beside them.
func (a activity) story(now time.Time) string {
	story := a.words(now) + " (" + string(a.Mode) + ", request " + a.Request.String() + ")"
	if more := cmp.Or(a.Step, a.Reason); more != "" {
		story += ": " + oneLine(more)
	}
	return story
}
