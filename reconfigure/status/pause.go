package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Pause is a pause, and what it stops.
type Pause struct {
	Pause   *reconfigure.Pause `json:"pause"`   // none: null
	Waiting int                `json:"waiting"` // requests without an outcome
	AtWork  int                `json:"at_work"` // of these, requests with operations under way
	Leader  string             `json:"leader"`  // the worker that holds the lease; empty: none
}

// NewPause returns the pause that was read from the journal.
func NewPause(j Journal) Pause {
	p := Pause{Pause: j.Pause, Waiting: len(j.Pending), Leader: j.Leader}
	for _, r := range j.Requests() {
		if r.State == AtWork {
			p.AtWork++
		}
	}
	return p
}

// String is the same for people.
func (p Pause) String() string {
	said := fmt.Sprintf("requests without an outcome: %d\n", p.Waiting)
	if p.Pause == nil {
		return "not paused\n" + said
	}
	said = PauseWords(*p.Pause) + "\nnothing begins until `reconfigure continue`\n" + said
	if p.AtWork > 0 {
		said += fmt.Sprintf("requests whose operations are under way, and go on to their end: %d\n", p.AtWork)
	}
	return said
}

// PauseWords returns who has paused, since when and why.
func PauseWords(p reconfigure.Pause) string {
	return fmt.Sprintf("paused by %s since %s: %s",
		text.OneLine(p.By), p.Since.UTC().Format(time.RFC3339), text.OneLine(p.Reason))
}

// Teller tells a caller that follows a request what it waits for: the end of a pause, what it is deferred for, or other
// requests.
type Teller struct {
	Log interface {
		Holder(ctx context.Context) string
		Paused(ctx context.Context) (reconfigure.Pause, bool, error)
		Request(ctx context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error)
		Pending(ctx context.Context) ([]reconfigure.Request, error)
	}
	Request reconfigure.RequestID
	Full    func() string // returns what to do if the worker has no room to write; else ""

	full   string    // what it returned last
	next   time.Time // when the next look is due
	told   string    // the last news
	paused bool      // whether they were of a pause
}

// Look returns what is new, at most once a second. A pause does not stop operations that have begun, so it is told when
// the request has none.
func (t *Teller) Look(ctx context.Context, now time.Time) ([]reconfigure.Event, error) {
	if now.Before(t.next) {
		return nil, nil
	}
	t.next = now.Add(time.Second)
	if full := t.Full(); full != t.full {
		t.full = full
		if full != "" {
			return []reconfigure.Event{{
				Time: now, Phase: reconfigure.PhaseRequested, Level: reconfigure.Note, Message: full,
			}}, nil
		}
	}
	p, paused, err := t.Log.Paused(ctx)
	if err != nil {
		return nil, err
	}
	r, _, err := t.Log.Request(ctx, t.Request)
	if err != nil || paused && r.Touched && !r.IsDeferred() && t.Log.Holder(ctx) != "" {
		return nil, err
	}
	news := waitWords(r)
	if r.Waits() {
		pending, err := t.Log.Pending(ctx)
		if err != nil {
			return nil, err
		}
		news = aheadWords(r, pending)
	}
	if paused {
		news = fmt.Sprintf("request %s waits: %s", t.Request, PauseWords(p))
	}
	if news == t.told {
		return nil, nil
	}
	ended := t.paused && news == ""
	if t.told, t.paused = news, paused; ended {
		news = "the pause has ended"
	}
	if news == "" {
		return nil, nil // the events of the request say what happens now
	}
	e := reconfigure.Event{Time: now, Phase: reconfigure.PhaseRequested, Level: reconfigure.Note, Message: news}
	return []reconfigure.Event{e}, nil
}

// waitWords returns what a request is deferred for; empty if it is not deferred.
func waitWords(r reconfigure.Request) string {
	if !r.IsDeferred() {
		return ""
	}
	p := NewRequest(r, nil)
	switch p.State = p.deferral(); p.State {
	case WaitsForJobs:
		return fmt.Sprintf("request %s waits for jobs on %s", r.ID, p.WithJobs())
	case CannotBePlanned:
		return fmt.Sprintf("request %s cannot be planned now, and is tried again: %s", r.ID, text.OneLine(p.Why()))
	}
	return fmt.Sprintf("request %s %s, and is tried again: %s", r.ID, p.State.Words(), text.OneLine(p.Why()))
}

// aheadWords returns which requests one for the whole cluster waits for, and which a destroy ends; empty: none.
func aheadWords(r reconfigure.Request, pending []reconfigure.Request) string {
	var ends, waits []string
	for _, other := range pending {
		name := fmt.Sprintf("request %s (%s)", other.ID, strings.TrimSpace(string(other.Mode)+" "+other.Nodes.String()))
		switch {
		case other.ID >= r.ID || !other.Touched || other.IsDeferred():
		case other.SupersededBy(r):
			ends = append(ends, name)
		default:
			waits = append(waits, name)
		}
	}
	var said []string
	if len(ends) > 0 {
		said = append(said, "ends "+strings.Join(ends, ", "))
	}
	if len(waits) > 0 {
		said = append(said, "waits for "+strings.Join(waits, ", "))
	}
	if len(said) == 0 {
		return ""
	}
	return fmt.Sprintf("request %s %s", r.ID, strings.Join(said, " and "))
}

// Continued is what `continue` has forgotten of a node group.
type Continued struct {
	Group    string `json:"group"`
	Failures int    `json:"failures"` // boot failures in a row
	Full     string `json:"full"`     // why the cloud had no room; empty: it had
}

// String is the same for people.
func (d Continued) String() string {
	var forgotten []string
	if d.Failures > 0 {
		forgotten = append(forgotten, fmt.Sprintf("%d boot failures in a row", d.Failures))
	}
	if d.Full != "" {
		forgotten = append(forgotten, "that there was no room")
	}
	if len(forgotten) == 0 {
		return d.Group + ": nothing had failed"
	}
	return d.Group + ": forgotten: " + strings.Join(forgotten, ", and ")
}
