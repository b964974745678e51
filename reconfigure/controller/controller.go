// Package controller decides what begins: one loop, under one lease. Its events are: a request came, an operation
// ended, a timer is due, stop. On each event it selects the requests that may begin, takes one snapshot, plans,
// starts an operation for each node, and writes the outcome of each request whose nodes all have verdicts. Only
// operations change the cluster.
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
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Lease lets one process at a time act.
type Lease interface {
	// Acquire returns false while another process holds the lease. The lease MUST end with the process that holds it.
	Acquire(ctx context.Context) (release func() error, ok bool, err error)
	// WhileHeld returns ctx, which ends when the lease is lost. A process can lose it if the lock is not on this host.
	WhileHeld(ctx context.Context) (context.Context, context.CancelFunc)
}

// Queue has the requests of callers.
type Queue interface {
	// Pending returns the requests without an outcome, oldest first, with their deferrals and verdicts.
	Pending(ctx context.Context) ([]reconfigure.Request, error)
	// Changed returns a number that differs from the last one if a request has come or was cancelled since. It is cheap.
	Changed(ctx context.Context) (int64, error)
	// Paused returns the pause in which nothing may begin; false if there is none.
	Paused(ctx context.Context) (reconfigure.Pause, bool, error)
	// Campaign returns the newest campaign; false if there was none.
	Campaign(ctx context.Context) (reconfigure.Campaign, bool, error)
}

// Record stores plans, outcomes and deferrals.
type Record interface {
	// Begin opens a plan for the requests, and stores the outcomes of those that are undone. It MUST fail without any
	// effect if one of the requests has an outcome, if one that would be undone has begun, and during a pause.
	Begin(ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome) (int64, error)
	// Finish stores outcomes, all or none. It MUST refuse a second outcome of a request.
	Finish(ctx context.Context, outcomes ...reconfigure.Outcome) error
	// Defer replaces the deferrals of requests, and stores their verdicts so far.
	Defer(ctx context.Context, outcomes ...reconfigure.Outcome) error
}

// Journal is shared by callers and the controller.
type Journal interface {
	Lease
	Queue
	Record
}

// Site is a declared cluster, and the adapters that act on it.
type Site struct {
	Cluster reconfigure.Cluster
	Observe func(ctx context.Context, scope snapshot.Scope) (snapshot.Snapshot, error)
	// States returns the states of at least these nodes, and asks only Slurm. Nil: each plan takes a whole snapshot.
	States func(
		ctx context.Context, control reconfigure.Instance, nodes nodeset.NodeSet,
	) (map[string]reconfigure.NodeState, error)
	// Conf returns slurmctld's next configuration, compared with its running one. It is called if a plan changes that
	// configuration. Nil: it is not compared.
	Conf func(ctx context.Context, seen snapshot.Snapshot) (*reconfigure.SlurmConf, error)
	Deps operation.Deps
}

// Config is the configuration of a controller.
type Config struct {
	Journal Journal
	// Open reads the declaration. It is called for each plan, so that an edit takes effect with the next plan.
	// Besides an error it SHOULD return the cluster, if that could be read.
	Open func(ctx context.Context) (Site, error)
	// Reconcile compares the sources, and may submit requests. It returns when to call it next; ok is false if the sources
	// are not to be compared. Nil: nothing is compared.
	Reconcile func(ctx context.Context) (next time.Duration, ok bool)
	// Campaign advances the campaign, and may submit requests. It returns the latest time for the next call; stay
	// is false while it has nothing to do until a caller changes the campaign or a request ends. Nil: there are no
	// campaigns.
	Campaign func(ctx context.Context) (next time.Duration, stay bool)
	// Flush returns when the events that operations have recorded are durable. Nil: they are durable at once.
	Flush func(ctx context.Context) error
	// Succeed starts another worker. A worker that was told to end calls it after it has released the lease, if
	// requests came in the meantime: their callers saw that the lease was taken, and started no worker. Nil: they
	// wait for the next worker.
	Succeed func(ctx context.Context) error
	// Log receives the requests and their outcomes.
	Log *slog.Logger
	// Timing is for operations; the zero value stands for operation.DefaultTiming.
	Timing operation.Timing
	// Stay keeps Run from ending when no request waits.
	Stay bool
	// Replaced reports whether the program's file was replaced, so that a new process must continue. Run then begins
	// nothing more, and returns when nothing is in progress. Nil: never.
	Replaced func() bool
	// Once ends Run when everything that can be done now is done, even if requests are deferred.
	Once bool
}

const (
	// poll is the interval at which the journal is asked for new requests.
	poll = 250 * time.Millisecond
	// again is the interval at which deferred requests are planned again. If they wait for jobs, Slurm is asked first
	// whether a state of their nodes has changed.
	again = 10 * time.Second
	// writeAgain is the minimum time between two writes of a request's verdicts before it has its outcome.
	writeAgain = time.Second
	// longestOutage is how long a controller continues while the journal fails. A restart or a failover of a
	// database server takes minutes. A longer failure needs an administrator; the requests stay in the journal.
	longestOutage = 10 * time.Minute
)

// Run holds the lease and carries out requests until none is left and nothing is in progress. It returns at once if
// another process holds the lease; that process looks for new requests after it has released the lease, so none is
// missed. During a pause nothing begins, and Run returns as if no request waited; the process that ends the pause
// MUST start a worker.
//
// When ctx ends, Run returns as soon as everything that it started has ended. It then writes no verdicts, and the
// requests stay. It leaves requests that come meanwhile to its successor. An error of the journal ends Run only if it
// lasts for longestOutage.
func Run(ctx context.Context, config Config) error {
	outage := newOutage(config.Log)
	for {
		left, err := underLease(ctx, config, outage)
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
			if err := sleep.For(ctx, poll); err != nil {
				return err
			}
		}
	}
}

func (c Config) replaced() bool { return c.Replaced != nil && c.Replaced() }

// underLease acquires the lease, works, and releases it. left is false if another process holds the lease, or if no
// request is left. It looks for requests again after the release, since a caller starts no worker while a worker holds
// the lease.
func underLease(ctx context.Context, config Config, outage *outage) (left bool, err error) {
	release, ok, err := config.Journal.Acquire(ctx)
	if err != nil || !ok {
		return false, err
	}
	leased, stop := config.Journal.WhileHeld(ctx)
	c := newController(leased, config, outage)
	err = c.loop()
	newest := reconfigure.RequestID(0)
	if ctx.Err() != nil {
		newest = c.newestKnown(ctx)
	}
	c.stop()
	if config.Flush != nil { // before the release: without the lease nothing can be written
		err = errors.Join(err, config.Flush(context.WithoutCancel(leased)))
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

// newestKnown returns the newest request that came before the worker was told to end; the largest number if that is
// unknown.
func (c *controller) newestKnown(ctx context.Context) reconfigure.RequestID {
	if !c.queue.read {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
		defer cancel()
		pending, err := c.Journal.Pending(ctx)
		if err != nil {
			return math.MaxInt64
		}
		c.note(pending)
	}
	return c.queue.newest
}

// lastLook is how long a worker that was told to end waits for the journal.
const lastLook = 10 * time.Second

// succeed starts another worker if requests came after the newest one that this worker knew.
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
		config.Log.WarnContext(
			ctx, "requests came while this worker ended, but no other worker could be started", "reason", err.Error(),
		)
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
	if err != nil || len(pending) > 0 || config.Campaign == nil {
		return len(pending) > 0, err
	}
	c, _, err := config.Journal.Campaign(ctx)
	return c.Active(), err
}

// outage measures the duration of a failure of the journal.
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

// over is called when the journal works.
func (o *outage) over() {
	if !o.since.IsZero() {
		o.since = time.Time{}
		o.pauses.Reset()
	}
}

// errOutage ends a controller.
var errOutage = errors.New("the journal has failed for too long")

// next is called when the journal has failed. It returns the time until the next attempt, or errOutage after
// longestOutage.
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
	o.log.WarnContext(
		ctx, "the journal cannot be used; retrying", "reason", err.Error(), "pause", rest.Round(time.Second),
	)
	return rest, nil
}

func (o *outage) wait(ctx context.Context, err error) error {
	rest, err := o.next(ctx, err)
	if err != nil {
		return err
	}
	return sleep.For(ctx, rest)
}
