package explain_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/explain"
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
		Name:    "test",
		Control: reconfigure.Control{Name: "ctl", Source: source},
		Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source, Min: 1, Max: 9}},
		Slurm:   reconfigure.Timing{ResumeTimeout: 15 * time.Minute},
		Settings: reconfigure.Settings{
			BootTimeout: 5 * time.Minute, Interrupt: true, Gather: time.Second, Retries: 1, CoolDown: 2 * time.Minute,
			Breaker: 3,
		},
	}
}

// cluster is a simulated cluster with a journal, workers, and the jobs that Slurm reports.
type cluster struct {
	*testing.T
	*simulate.World
	journal *memory.Journal
	open    *memory.Journal // as the last worker has it open
	workers sync.WaitGroup
	stop    context.CancelFunc
	runs    []reconfigure.JobRun
}

// play runs do in a cluster in which the control node, p1 and some other nodes exist. In the bubble the time begins at
// midnight of 2000-01-01 UTC.
func play(t *testing.T, have []string, do func(*cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{T: t, World: simulate.NewWorld(declared()), journal: memory.New(), stop: func() {}}
		c.Have(append([]string{"ctl", "p1"}, have...)...)
		c.Takes(simulate.Building, 20*time.Second)
		c.Takes(simulate.Booting, 15*time.Second)
		c.Takes(simulate.Playing, 40*time.Second)
		pass(time.Hour) // so that the boots are older than the requests
		do(c)
		c.stop()
		c.Unstick()
		c.workers.Wait()
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// recorder records events without a buffer.
type recorder struct{ *memory.Journal }

func (r recorder) Record(events ...reconfigure.Event) {
	_ = r.Journal.Record(context.Background(), events...)
}

func (recorder) Flush(context.Context) error { return nil }

func (c *cluster) observer(j *memory.Journal) snapshot.Observer {
	return snapshot.Observer{
		Cluster: c.Cluster(),
		States: func(
			ctx context.Context, _ reconfigure.Instance, nodes nodeset.NodeSet,
		) (map[string]reconfigure.NodeState, error) {
			return c.States(ctx, nodes)
		},
		State: func(ctx context.Context, _ nodeset.NodeSet) (reconfigure.State, error) { return c.World.State(ctx) },
		Servers: func(ctx context.Context) (map[string][]reconfigure.Server, error) {
			return c.World.Servers(ctx, nodeset.NodeSet{})
		},
		Server: c.World.Server, Resolve: c.Resolve, Health: j.Health, Events: j.EventsOf,
		Lives: func(ctx context.Context) ([]reconfigure.Life, error) { return j.Lives(ctx, time.Now()) },
	}
}

// work starts a worker, as each call of the tool does.
func (c *cluster) work() {
	j := c.journal.Open()
	ctx, cancel := context.WithCancel(context.Background())
	c.stop, c.open = cancel, j
	site := func(context.Context) (controller.Site, error) {
		deps := c.Deps()
		deps.Recorder, deps.Health, deps.Sums = recorder{j}, j, j
		observer := c.observer(j)
		return controller.Site{Cluster: c.Cluster(), Observe: observer.Observe, States: observer.States, Deps: deps}, nil
	}
	config := controller.Config{
		Journal: j, Open: site, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Timing: operation.DefaultTiming(),
	}
	c.workers.Go(func() {
		if err := controller.Run(ctx, config); err != nil && !errors.Is(err, context.Canceled) &&
			!errors.Is(err, reconfigure.ErrLeaseLost) {
			c.Errorf("a worker ended with %v", err)
		}
	})
}

// asks submits a request, and starts a worker.
func (c *cluster) asks(r reconfigure.Request) reconfigure.RequestID {
	c.Helper()
	r.Submitted = time.Now()
	made, err := c.journal.Submit(context.Background(), r)
	if err != nil {
		c.Fatal(err)
	}
	c.work()
	synctest.Wait()
	return made.ID
}

// submits is a job that Slurm gives these nodes after five seconds, and that waits until they are up.
func (c *cluster) submits(id int64, nodes ...string) {
	c.Helper()
	set := nodeset.Of(nodes...)
	run := reconfigure.JobRun{
		ID: id, User: "anna", Partition: "batch", State: "CONFIGURING", Nodes: set,
		Submitted: time.Now().Truncate(time.Second),
	}
	c.keeps(run)
	pass(5 * time.Second)
	c.PowersUp(nodes...)
	c.asks(reconfigure.Request{
		Mode: reconfigure.Resume, Nodes: set, Caller: "slurm@192.0.2.7", Jobs: []reconfigure.Job{{ID: id, Nodes: set}},
	})
}

// becomes changes the newest run of a job, as Slurm reports it.
func (c *cluster) becomes(state string, change func(*reconfigure.JobRun)) {
	c.Helper()
	run := c.runs[len(c.runs)-1]
	run.State = state
	change(&run)
	c.keeps(run)
}

func (c *cluster) keeps(run reconfigure.JobRun) {
	c.Helper()
	if err := c.journal.KeepJobRuns(context.Background(), 0, run); err != nil {
		c.Fatal(err)
	}
	c.runs = append(c.runs, run)
}

// tells returns the story of a subject.
func (c *cluster) tells(s explain.Subject) explain.Story {
	c.Helper()
	ctx := context.Background()
	known, err := explain.Read(ctx, c.journal, s, time.Now().Add(-7*24*time.Hour))
	if err != nil {
		c.Fatal(err)
	}
	seen, err := c.observer(c.journal).Observe(ctx, snapshot.Scope{Servers: true})
	if err != nil {
		c.Fatal(err)
	}
	return explain.New(explain.Facts{Now: time.Now(), Cluster: c.Cluster(), Seen: seen, Journal: known}, s)
}

// happened returns the history.
func (c *cluster) happened(f explain.Filter) []explain.Line {
	c.Helper()
	lines, err := explain.NewHistory(c.journal, f).Next(context.Background(), time.Now())
	if err != nil {
		c.Fatal(err)
	}
	return lines
}
