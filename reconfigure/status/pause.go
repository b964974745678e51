package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Pause is a pause, and the requests that it affects.
type Pause struct {
	Pause   *reconfigure.Pause `json:"pause"`   // none: null
	Waiting int                `json:"waiting"` // requests without an outcome
	AtWork  int                `json:"at_work"` // of these, requests whose operations have begun
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
		said += fmt.Sprintf("requests whose operations have begun and will finish: %d\n", p.AtWork)
	}
	return said
}

// PauseWords returns who has paused, since when and why.
func PauseWords(p reconfigure.Pause) string {
	return fmt.Sprintf("paused by %s since %s: %s",
		text.OneLine(p.By), p.Since.UTC().Format(time.RFC3339), text.OneLine(p.Reason))
}

// Teller tells a caller that follows a request why it waits: for the end of a pause, because it is deferred, or for
// other requests.
type Teller struct {
	Log interface {
		Holder(ctx context.Context) string
		Paused(ctx context.Context) (reconfigure.Pause, bool, error)
		Request(ctx context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error)
		Pending(ctx context.Context) ([]reconfigure.Request, error)
	}
	Request reconfigure.RequestID
	Full    func() string // Full returns what to do if the worker's disk is full; else ""

	full   string    // the last result of Full
	next   time.Time // the time of the next look
	told   string    // the last news
	paused bool      // whether they were about a pause
}

// Look returns the news, at most once a second. A pause does not stop operations that have begun, so it is news only
// if the request has none.
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
		return nil, nil // the events of the request show the progress
	}
	e := reconfigure.Event{Time: now, Phase: reconfigure.PhaseRequested, Level: reconfigure.Note, Message: news}
	return []reconfigure.Event{e}, nil
}

// waitWords returns why a request is deferred; empty if it is not.
func waitWords(r reconfigure.Request) string {
	if !r.IsDeferred() {
		return ""
	}
	p := NewRequest(r, nil)
	switch p.State = p.deferral(); p.State {
	case WaitsForJobs:
		return fmt.Sprintf("request %s waits for jobs on %s", r.ID, p.WithJobs())
	case CannotBePlanned:
		return fmt.Sprintf("request %s cannot be planned now, and will be retried: %s", r.ID, text.OneLine(p.Why()))
	}
	return fmt.Sprintf("request %s %s, and will be retried: %s", r.ID, p.State.Words(), text.OneLine(p.Why()))
}

// aheadWords returns the requests for which a request for the whole cluster waits, and those that a destroy ends;
// empty if there are none.
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

// Continued is what `continue` has reset for a node group.
type Continued struct {
	Group    string `json:"group"`
	Failures int    `json:"failures"` // boot failures in a row
	Full     string `json:"full"`     // why the cloud had no room; empty: it had room
}

// String is the same for people.
func (d Continued) String() string {
	var forgotten []string
	if d.Failures > 0 {
		forgotten = append(forgotten, fmt.Sprintf("%d boot failures in a row", d.Failures))
	}
	if d.Full != "" {
		forgotten = append(forgotten, "the lack of room")
	}
	if len(forgotten) == 0 {
		return d.Group + ": nothing had failed"
	}
	return d.Group + ": forgotten: " + strings.Join(forgotten, ", and ")
}
