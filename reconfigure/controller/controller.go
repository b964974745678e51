// Package controller decides what begins: one loop, under one lease. Its events are that a request came, that an operation
// ended, that a timer is due, and stop. On each it selects the requests that may begin, takes one snapshot, has that planned,
// starts an operation for each node, and writes the outcome of each request whose nodes all have their verdicts. It does
// nothing to the cluster itself: that is the operations' part.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Lease lets one process at a time act.
type Lease interface {
	// Acquire answers false while another process holds the lease. It MUST end with the process that holds it.
	Acquire(ctx context.Context) (release func() error, ok bool, err error)
	// WhileHeld is ctx until the lease is lost, which may happen to a process that lives where the lock is not on this host.
	WhileHeld(ctx context.Context) (context.Context, context.CancelFunc)
}

// Queue is where callers leave their requests.
type Queue interface {
	// Pending is the requests without an outcome, oldest first, with what was written down of them.
	Pending(ctx context.Context) ([]reconfigure.Request, error)
	// Changed is a number that is another one when a request has come, or was taken back, since it was asked for last. It is
	// cheap.
	Changed(ctx context.Context) (int64, error)
	// Paused is an administrator's word that nothing is to begin; false where there is none.
	Paused(ctx context.Context) (reconfigure.Pause, bool, error)
}

// Record is where it is written down what becomes of requests.
type Record interface {
	// Begin opens a plan for the requests, and undoes others, which get their outcomes with it. It MUST be an error, and
	// nothing begun, where one of them has its outcome already, where one that is to be undone has begun, and during a pause.
	Begin(ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome) (int64, error)
	// Finish writes outcomes, all or none; it MUST refuse a second one of a request.
	Finish(ctx context.Context, outcomes ...reconfigure.Outcome) error
	// Defer writes what requests wait for, in the place of what was written before, and the verdicts that there are.
	Defer(ctx context.Context, outcomes ...reconfigure.Outcome) error
}

// Journal is what callers and the controller meet in.
type Journal interface {
	Lease
	Queue
	Record
}

// Site is a cluster as it is declared, and what acts on it.
type Site struct {
	Cluster reconfigure.Cluster
	Observe func(ctx context.Context, scope snapshot.Scope) (snapshot.Snapshot, error)
	// Conf is the configuration that slurmctld would get, compared with the one that it runs with. It is asked for
	// where a plan changes that. Nil: it is not compared.
	Conf func(ctx context.Context, seen snapshot.Snapshot) (*reconfigure.SlurmConf, error)
	Deps operation.Deps
}

// Config is what a controller works with.
type Config struct {
	Journal Journal
	// Open reads the declaration. It is called for each plan, so that an edit counts from the next plan on. With an error it
	// SHOULD give the cluster still, where that could be read.
	Open func(ctx context.Context) (Site, error)
	// Reconcile compares the sources when it is time for that, and may submit requests. It says when to call it next; never
	// where that is not declared. Nil: nothing is compared.
	Reconcile func(ctx context.Context) (next time.Duration, ok bool)
	// Flush returns when the events that operations have recorded are durable. Nil: they are at once.
	Flush func(ctx context.Context) error
	// Succeed has another worker started. It is called by a worker that was told to end, after it has released the lease, where
	// requests came since: whoever made them left them to it. Nil: they wait for the next worker.
	Succeed func(ctx context.Context) error
	// Log hears what was asked for, and what became of it.
	Log *slog.Logger
	// Timing is that of operations; the zero value is operation.DefaultTiming.
	Timing operation.Timing
	// Stay has Run not end when nothing waits.
	Stay bool
	// Replaced reports whether another program is to go on in the place of this one. Run begins nothing more then, and ends
	// when nothing is under way. Nil: never.
	Replaced func() bool
	// Once has Run end when what can be done now is done, though requests are deferred.
	Once bool
}

const (
	// look is how often the journal is asked whether a request has come.
	look = 250 * time.Millisecond
	// again is how often deferred requests are planned again. A look at the jobs that they wait for costs about a second.
	again = 10 * time.Second
	// longestOutage is how long a controller outlives a journal that fails: a database server that is restarted, or gives way
	// to another one, is back in minutes. What lasts longer somebody has to look at; the requests stay where they are.
	longestOutage = 10 * time.Minute
)

// Run holds the lease and carries out requests until none is left, and nothing is under way. It returns at once where another
// process holds the lease: that one looks for new requests after it has released it, so that none is overlooked. During a
// pause nothing begins, and Run returns as if no request waited; whoever ends the pause MUST start a worker afterwards.
//
// When ctx ends Run ends, too, as soon as what it has started has: no verdict comes of that, and the requests stay. Those that
// come meanwhile are the successor's. An error of the journal ends it only when it lasts.
func Run(ctx context.Context, config Config) error {
	outage := newOutage(config.Log)
	for {
		left, err := hold(ctx, config, outage)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && config.Once:
			return err
		case err != nil:
			if err := outage.wait(ctx, err); err != nil {
				return err
			}
		case config.replaced(), !left && !config.Stay:
			return nil
		case !left:
			if !pause(ctx, look) {
				return context.Cause(ctx)
			}
		}
	}
}

func (c Config) replaced() bool { return c.Replaced != nil && c.Replaced() }

// hold acquires the lease, works, and releases it; false where another process holds it, or nothing is left. Who saw that
// somebody holds the lease leaves his request to that one: so there is another look after the release.
func hold(ctx context.Context, config Config, outage *outage) (left bool, err error) {
	release, ok, err := config.Journal.Acquire(ctx)
	if err != nil || !ok {
		return false, err
	}
	held, stop := config.Journal.WhileHeld(ctx)
	c := newController(held, config, outage)
	err = c.loop()
	newest := reconfigure.RequestID(0)
	if ctx.Err() != nil {
		newest = c.newestKnown(ctx)
	}
	c.stop()
	if config.Flush != nil { // while the lease is held: what is written after that is not the holder's any more
		err = errors.Join(err, config.Flush(context.WithoutCancel(held)))
	}
	stop()
	err = errors.Join(err, release())
	if ctx.Err() != nil {
		succeed(ctx, config, newest)
	}
	if err != nil {
		return false, err
	}
	return anythingToBegin(ctx, config)
}

// newestKnown is the newest request of those that came before the worker was told to end; the largest number
// where that is unknown.
func (c *controller) newestKnown(ctx context.Context) reconfigure.RequestID {
	if !c.read {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
		defer cancel()
		pending, err := c.Journal.Pending(ctx)
		if err != nil {
			return math.MaxInt64
		}
		c.note(pending)
	}
	return c.newest
}

// lastLook is how long a worker that was told to end waits for the journal.
const lastLook = 10 * time.Second

// succeed starts another worker where requests came after the newest one that this one knew.
func succeed(ctx context.Context, config Config, newest reconfigure.RequestID) {
	if config.Succeed == nil || config.Once {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	_, paused, err := config.Journal.Paused(ctx)
	if err != nil || paused {
		return
	}
	pending, err := config.Journal.Pending(ctx)
	if err != nil || !slices.ContainsFunc(pending, func(r reconfigure.Request) bool { return r.ID > newest }) {
		return
	}
	if err := config.Succeed(ctx); err != nil {
		config.Log.WarnContext(ctx, "requests came while this worker ended, and no other one could be started", "reason", err.Error())
	}
}

func anythingToBegin(ctx context.Context, config Config) (bool, error) {
	if _, paused, err := config.Journal.Paused(ctx); err != nil || paused {
		return false, err
	}
	pending, err := config.Journal.Pending(ctx)
	if config.Once {
		begin := Next(pending, busy{}, func(r reconfigure.Request) bool { return !r.IsDeferred() })
		return len(begin.Together) > 0, err
	}
	return len(pending) > 0, err
}

// outage is a time in which the journal fails.
type outage struct {
	log    *slog.Logger
	since  time.Time // zero: it does not fail
	pauses *backoff.ExponentialBackOff
}

func newOutage(log *slog.Logger) *outage {
	p := backoff.NewExponentialBackOff()
	p.InitialInterval, p.MaxInterval = time.Second, 30*time.Second
	return &outage{log: log, pauses: p}
}

// over notes that the journal works.
func (o *outage) over() {
	if !o.since.IsZero() {
		o.since = time.Time{}
		o.pauses.Reset()
	}
}

// errOutage is why a controller ends that the journal has failed for too long.
var errOutage = errors.New("the journal has failed for too long")

// next notes that the journal has failed, and says how long to leave it alone; errOutage comes when it has failed for too long.
func (o *outage) next(ctx context.Context, err error) (time.Duration, error) {
	if errors.Is(err, errOutage) {
		return 0, err
	}
	if o.since.IsZero() {
		o.since = time.Now()
	}
	if time.Since(o.since) >= longestOutage {
		return 0, fmt.Errorf("%w, %s; the last error: %w", errOutage, longestOutage, err)
	}
	rest := o.pauses.NextBackOff()
	o.log.WarnContext(ctx, "the journal cannot be used, and is tried again", "reason", err.Error(), "pause", rest.Round(time.Second))
	return rest, nil
}

func (o *outage) wait(ctx context.Context, err error) error {
	rest, err := o.next(ctx, err)
	if err == nil && !pause(ctx, rest) {
		err = context.Cause(ctx)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
