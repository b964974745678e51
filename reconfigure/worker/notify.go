package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/notify"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

const (
	// notifyFile has a notifier's state, in the state directory.
	notifyFile = "notify.json"
	// notifyEvery is the interval at which the journal is read for notices.
	notifyEvery = 2 * time.Second
	// notifyWithin is the time limit of the command; for its end after SIGINT it has another second.
	notifyWithin = 10 * time.Second
)

// notifier calls the site's command. It has its own goroutine, and waits for nothing that the worker does.
type notifier struct {
	notify.Notifier
	site    site.Site
	log     *journal.Journal
	out     *slog.Logger
	within  time.Duration
	written []byte // the state in the file

	lock      sync.Mutex
	up, known bool
}

// notifies calls the declared command with what happens, until end is called. It returns nil if none is declared.
func notifies(ctx context.Context, s site.Site, log *journal.Journal, out *slog.Logger) (n *notifier, end func()) {
	if s.Cluster.Settings.Notify == "" {
		return nil, func() {}
	}
	n = &notifier{site: s, log: log, out: out, within: notifyWithin, Notifier: notify.Notifier{
		Cluster: s.Cluster.Name, Classes: s.Cluster.Settings.NotifyClasses,
	}}
	if err := n.begin(ctx); err != nil {
		out.WarnContext(ctx, "notify: what was notified before is unknown", "reason", err.Error())
	}
	ended := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(notifyEvery):
				n.turn(ctx, time.Now())
			}
		}
	})
	return n, func() {
		close(ended)
		wait.Wait()
		ctx, cancel := context.WithTimeout(ctx, n.within)
		defer cancel()
		n.turn(ctx, time.Now()) // what the worker did last
	}
}

// notifyState returns the stored state; false if there is none.
func notifyState(s site.Site) (state notify.State, ok bool, err error) {
	text, err := os.ReadFile(s.StateFile(notifyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return state, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	return state, err == nil, err
}

// NotifyError returns why the last call of the notify command failed; empty if it did not.
func NotifyError(s site.Site) string {
	state, ok, err := notifyState(s)
	if err != nil || !ok || s.Cluster.Settings.Notify == "" {
		return ""
	}
	return state.Error
}

// begin continues where the last worker ended. A first one begins with what happens from now on.
func (n *notifier) begin(ctx context.Context) error {
	state, ok, err := notifyState(n.site)
	if ok {
		n.State = state
		n.said(state.Error == "", len(state.Sent) > 0)
		return nil
	}
	moves, broken := n.log.LastMoves(ctx)
	for _, e := range moves {
		n.State.Event = max(n.State.Event, e.ID)
	}
	return errors.Join(err, broken)
}

// turn reads what is new, calls the command, and stores the state.
func (n *notifier) turn(ctx context.Context, now time.Time) {
	if err := n.read(ctx, now); err != nil && ctx.Err() == nil {
		n.out.DebugContext(ctx, "notify: the journal cannot be read", "reason", err.Error()) // the worker says it
	}
	good := true
	for _, w := range n.Due(now) {
		if good = good && ctx.Err() == nil && n.call(ctx, w); !good {
			n.Failed(w) // after a failure no other call is made, so that the end of the worker waits for one at most
		}
	}
	text, err := json.Marshal(n.State)
	if err == nil && !bytes.Equal(text, n.written) {
		if err = renameio.WriteFile(n.site.StateFile(notifyFile), text, 0o600); err == nil {
			n.written = text
		}
	}
	if err != nil {
		n.out.WarnContext(ctx, "notify: the state could not be stored, so a notice may come twice", "reason", err.Error())
	}
}

// read adds what is new in the journal, and the last comparison.
func (n *notifier) read(ctx context.Context, now time.Time) error {
	const page = 1000
	for {
		events, err := n.log.EventsAfter(ctx, n.State.Event, time.Unix(0, 0), page)
		if err != nil {
			return err
		}
		for _, e := range events {
			n.Event(e)
		}
		if len(events) < page {
			break
		}
	}
	if look, err := LastLook(n.site); err == nil {
		n.Look(look)
	}
	c, there, err := n.log.Campaign(ctx)
	if err == nil && there {
		n.Campaign(c, now)
	}
	return err
}

// call calls the command with a notice on its standard input, and reports whether it succeeded.
func (n *notifier) call(ctx context.Context, w notify.Notice) bool {
	text, err := json.Marshal(w)
	if err == nil {
		limited, cancel := context.WithTimeoutCause(ctx, n.within,
			fmt.Errorf("it did not end within %s, and was killed", n.within))
		err = process.Run(limited, process.Cmd{
			Path: n.site.Cluster.Settings.Notify, Dir: n.site.Dir, Env: site.Environment(os.Environ()),
			Stdin: bytes.NewReader(append(text, '\n')), Grace: time.Second,
		})
		cancel()
	}
	n.State.Error = ""
	if err != nil {
		n.State.Error = err.Error()
		n.out.WarnContext(ctx, "the notify command failed; the notice is sent again in a minute", "kind", w.Kind,
			"reason", err.Error())
	}
	n.said(err == nil, true)
	return err == nil
}

func (n *notifier) said(up, known bool) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.up, n.known = up, known
}

// last reports whether the last call succeeded; known is false if none was made.
func (n *notifier) last() (up, known bool) {
	n.lock.Lock()
	defer n.lock.Unlock()
	return n.up, n.known
}
