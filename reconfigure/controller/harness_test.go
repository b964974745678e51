package controller_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// declared returns a cluster with one persistent node, p1, and cloud nodes p2 to p9.
func declared() reconfigure.Cluster {
	source := reconfigure.Source{Image: "v1", Flavor: "small", Network: "cluster"}
	return reconfigure.Cluster{
		Name:     "test",
		Control:  reconfigure.Control{Name: "ctl", Source: source},
		Groups:   []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source, Min: 1, Max: 9}},
		Slurm:    reconfigure.Timing{ResumeTimeout: 15 * time.Minute},
		Settings: reconfigure.Settings{BootTimeout: 5 * time.Minute, Interrupt: true, Gather: time.Second},
	}
}

// never is later than the end of any instance's life.
var never = time.Now().AddDate(100, 0, 0)

// blindness is a way in which a look at the cluster fails.
type blindness int

const (
	sees    blindness = iota
	typo              // the declaration cannot be read
	noLogin           // the cloud refuses the login
	noState           // Terraform's state cannot be read

)

// lab is a simulated cluster, a journal, and workers.
type lab struct {
	*testing.T
	*simulate.World
	journal *memory.Journal // as callers have it open
	cluster reconfigure.Cluster
	config  func(*controller.Config, *memory.Journal) // changes a worker's config
	slurm   operation.Scheduler                       // replaces the world; nil: the world
	start   time.Time
	workers sync.WaitGroup

	lock  sync.Mutex
	blind blindness
	until time.Time // the end of the blindness
	why   string
	tried int // the number of failed looks
	begun []plan

	looks, asked atomic.Int32 // snapshots, and questions to Slurm alone
}

// plan is one that was begun.
type plan struct {
	after time.Duration
	ids   []reconfigure.RequestID
}

// test runs in a synctest bubble. The control node, p1 and some other nodes are there.
func test(t *testing.T, have []string, do func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{T: t, World: simulate.NewWorld(declared()), journal: memory.New(), cluster: declared()}
		l.Have(append([]string{"ctl", "p1"}, have...)...)
		time.Sleep(time.Hour) // so that the boots are older than the requests
		l.start = time.Now()
		do(l)
		l.workers.Wait()
		if clashes := l.Clashes(); len(clashes) > 0 {
			t.Error(clashes)
		}
		if lost := l.Lost(); len(lost) > 0 {
			t.Errorf("lost the jobs on %v", lost)
		}
	})
}

// recorder records events without a buffer.
type recorder struct{ *memory.Journal }

func (r recorder) Record(events ...reconfigure.Event) {
	_ = r.Journal.Record(context.Background(), events...)
}

func (r recorder) Flush(context.Context) error { return nil }

// counting records the plans.
type counting struct {
	*memory.Journal
	lab *lab
}

func (c counting) Begin(
	ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome,
) (int64, error) {
	n, err := c.Journal.Begin(ctx, ids, undone...)
	if err == nil {
		c.lab.lock.Lock()
		defer c.lab.lock.Unlock()
		c.lab.begun = append(c.lab.begun, plan{time.Since(c.lab.start), slices.Clone(ids)})
	}
	return n, err
}

// open is the controller's Config.Open.
func (l *lab) open(j *memory.Journal) func(context.Context) (controller.Site, error) {
	world := l.Deps()
	return func(context.Context) (controller.Site, error) {
		deps := world
		deps.Recorder, deps.Health, deps.Sums = recorder{j}, j, j
		if l.slurm != nil {
			deps.Scheduler = func(reconfigure.Instance) operation.Scheduler { return l.slurm }
		}
		l.lock.Lock()
		defer l.lock.Unlock()
		observer := snapshot.Observer{
			Cluster: l.cluster, States: func(
				ctx context.Context, _ reconfigure.Instance, nodes nodeset.NodeSet,
			) (map[string]reconfigure.NodeState, error) {
				return l.States(ctx, nodes)
			},
			State: func(ctx context.Context, _ nodeset.NodeSet) (reconfigure.State, error) { return l.World.State(ctx) },
			Servers: func(ctx context.Context) (map[string][]reconfigure.Server, error) {
				return l.World.Servers(ctx, nodeset.NodeSet{})
			},
			Server: l.World.Server, Resolve: l.Resolve, Health: j.Health, Events: j.EventsOf,
			Lives: func(ctx context.Context) ([]reconfigure.Life, error) { return j.Lives(ctx, never) },
		}
		observe := func(ctx context.Context, scope snapshot.Scope) (snapshot.Snapshot, error) {
			l.looks.Add(1)
			return observer.Observe(ctx, scope)
		}
		states := func(
			ctx context.Context, control reconfigure.Instance, nodes nodeset.NodeSet,
		) (map[string]reconfigure.NodeState, error) {
			l.asked.Add(1)
			return l.States(ctx, nodes)
		}
		site := controller.Site{Cluster: l.cluster, Observe: observe, States: states, Deps: deps}
		err := errors.New(l.why)
		if !time.Now().Before(l.until) {
			return site, nil
		}
		l.tried++
		switch l.blind {
		case typo:
			return controller.Site{}, err
		case noLogin:
			return controller.Site{Cluster: l.cluster}, err
		case noState:
			observer.State = func(context.Context, nodeset.NodeSet) (reconfigure.State, error) {
				return reconfigure.State{}, err
			}
		}
		return site, nil
	}
}

// fails lets all looks fail for a while.
func (l *lab) fails(b blindness, d time.Duration, why string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.blind, l.until, l.why = b, time.Now().Add(d), why
}

func (l *lab) declare(c reconfigure.Cluster) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.cluster = c
	l.World.Declare(c)
}

// run is a worker in a process of its own.
func (l *lab) run(ctx context.Context) error { return l.runWith(ctx, l.config) }

func (l *lab) runWith(ctx context.Context, config func(*controller.Config, *memory.Journal)) error {
	j := l.journal.Open()
	c := controller.Config{
		Journal: counting{j, l}, Open: l.open(j), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Timing: operation.DefaultTiming(),
	}
	if config != nil {
		config(&c, j)
	}
	return controller.Run(ctx, c)
}

// work runs a worker until nothing is left to do.
func (l *lab) work() {
	l.Helper()
	if err := l.run(l.Context()); err != nil {
		l.Errorf("a worker ended with %v", err)
	}
}

// spawn starts a worker, and returns how to stop it, and a channel with its end.
func (l *lab) spawn() (stop func(), ended <-chan error) {
	ctx, cancel := context.WithCancel(l.Context())
	done, config := make(chan error, 1), l.config
	l.workers.Go(func() {
		err := l.runWith(ctx, config)
		cancel()
		done <- err
	})
	return cancel, done
}

func ask(m reconfigure.Mode, nodes ...string) reconfigure.Request {
	r := reconfigure.Request{Mode: m, Nodes: nodeset.Of(nodes...)}
	if m == reconfigure.Update || m == reconfigure.Shrink {
		r.DrainTimeout = 2 * time.Hour
	}
	return r
}

// submit submits a request without starting a worker.
func (l *lab) submit(requests ...reconfigure.Request) (last reconfigure.RequestID) {
	l.Helper()
	for _, r := range requests {
		r.Submitted = time.Now()
		made, err := l.journal.Submit(context.WithoutCancel(l.Context()), r)
		if err != nil {
			l.Error(err)
		}
		last = made.ID
	}
	return last
}

// calls submits a request, and starts a worker, as each call of the tool does.
func (l *lab) calls(m reconfigure.Mode, nodes ...string) (id reconfigure.RequestID) {
	l.Helper()
	id = l.submit(ask(m, nodes...))
	l.workers.Go(l.work)
	return id
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

type codes = map[reconfigure.RequestID]reconfigure.Code

const (
	done      = reconfigure.CodeDone
	failed    = reconfigure.CodeFailed
	partial   = reconfigure.CodePartial
	refused   = reconfigure.CodeRefused
	cancelled = reconfigure.CodeCancelled
)

func (l *lab) outcome(id reconfigure.RequestID) (reconfigure.Outcome, bool) {
	l.Helper()
	o, ok, err := l.journal.Outcome(context.WithoutCancel(l.Context()), id)
	if err != nil {
		l.Error(err)
	}
	return o, ok
}

// ends returns the codes of the requests that have ended.
func (l *lab) ends() codes {
	l.Helper()
	all, err := l.journal.Requests(context.WithoutCancel(l.Context()), 1000)
	if err != nil {
		l.Error(err)
	}
	ends := codes{}
	for _, r := range all {
		if o, ok := l.outcome(r.ID); ok {
			ends[r.ID] = o.Code
		}
	}
	return ends
}

func (l *lab) wantEnds(want codes) {
	l.Helper()
	if diff := cmp.Diff(want, l.ends()); diff != "" {
		l.Errorf("after %s (-want +got):\n%s\ncalls:\n%s", time.Since(l.start), diff, strings.Join(l.Calls(), "\n"))
	}
}

func (l *lab) wantCalls(want ...string) {
	l.Helper()
	if diff := cmp.Diff(want, l.Calls()); diff != "" {
		l.Errorf("calls (-want +got):\n%s", diff)
	}
}

func (l *lab) pending() []reconfigure.Request {
	l.Helper()
	all, err := l.journal.Pending(context.WithoutCancel(l.Context()))
	if err != nil {
		l.Error(err)
	}
	return all
}

// took returns how long a request took.
func (l *lab) took(id reconfigure.RequestID) time.Duration {
	l.Helper()
	o, ok := l.outcome(id)
	if !ok {
		l.Fatalf("request %s has no outcome", id)
	}
	r, _, err := l.journal.Request(l.Context(), id)
	if err != nil {
		l.Error(err)
	}
	return o.Finished.Sub(r.Submitted)
}

func (l *lab) wantTook(id reconfigure.RequestID, least, most time.Duration) {
	l.Helper()
	if d := l.took(id); d < least || d > most {
		l.Errorf("request %s took %s", id, d)
	}
}

// plans returns the plans that have begun so far.
func (l *lab) plans() []plan {
	l.lock.Lock()
	defer l.lock.Unlock()
	return slices.Clone(l.begun)
}

func (l *lab) looksThatFailed() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.tried
}

// leased reports whether anybody holds the lease.
func (l *lab) leased() bool { return l.journal.Holder(context.WithoutCancel(l.Context())) != "" }
