package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/web"
)

// declared returns a cluster with two groups.
func declared() reconfigure.Cluster {
	source := reconfigure.Source{Image: "rocky-9.6", Flavor: "c16", Network: "cluster"}
	large := reconfigure.Source{Image: "rocky-9.6-gpu", Flavor: "g4", Network: "cluster"}
	return reconfigure.Cluster{
		Name:    "alder",
		Control: reconfigure.Control{Name: "ctl", Source: source},
		Groups: []reconfigure.NodeGroup{
			{Name: "standard", Prefix: "node", Width: 2, Source: source, Min: 2, Max: 24},
			{Name: "gpu", Prefix: "gpu", Width: 1, Source: large, Max: 6},
		},
		Limits: []reconfigure.Limit{{Groups: []string{"standard", "gpu"}, Max: 28}},
		Slurm:  reconfigure.Timing{ResumeTimeout: 15 * time.Minute},
		Settings: reconfigure.Settings{
			BootTimeout: 5 * time.Minute, Interrupt: true, Gather: time.Second, Retries: 1, CoolDown: 10 * time.Minute,
			Breaker: 3, Reconcile: 10 * time.Minute,
		},
	}
}

// scene is what a storm leaves.
type scene struct {
	cluster reconfigure.Cluster
	journal *memory.Journal
	answers web.Answers
	look    reconcile.Look
	now     time.Time
	holder  string // the worker
	since   time.Time
}

// server returns the pages of a scene.
func (s scene) server(t testing.TB) *web.Server { return web.New(t.Context(), s.sources()) }

func (s scene) sources() web.Sources {
	return web.Sources{
		Journal: book{s.journal, s.holder, s.since}, Cluster: func() reconfigure.Cluster { return s.cluster },
		Ask:  func(context.Context) (web.Answers, error) { return s.answers, nil },
		Last: func() (reconcile.Look, error) { return s.look, nil },
		Log:  slog.New(slog.NewTextHandler(io.Discard, nil)), Now: func() time.Time { return s.now },
	}
}

// empty returns a scene in which nothing has happened.
func empty(t *testing.T) scene {
	t.Helper()
	seen := snapshot.Snapshot{
		States: map[string]reconfigure.NodeState{}, Instances: map[string]reconfigure.Instance{},
		Servers: map[string][]reconfigure.Server{},
	}
	return scene{cluster: declared(), journal: memory.New(), answers: web.Answers{Seen: seen}, now: time.Now()}
}

// book is a journal in memory with an empty gate, and with the worker that held the lease at the end of the scene.
type book struct {
	*memory.Journal
	holder string
	since  time.Time
}

func (b book) HolderSince(context.Context) (string, time.Time) { return b.holder, b.since }

func (book) KeyUses(context.Context) ([]reconfigure.KeyUse, error) { return nil, nil }

// serve serves the pages of a scene, and returns their address.
func (s scene) serve(t testing.TB) string {
	return listenAt(t, s.server(t).Handler())
}

// listenAt serves a handler until the end of the test, and returns its address.
func listenAt(t testing.TB, h http.Handler) string {
	l, err := web.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- web.Serve(ctx, l, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// storm is a simulated cluster with jobs, faults and workers.
type storm struct {
	*testing.T
	*simulate.World
	journal *memory.Journal
	workers sync.WaitGroup
	stop    []context.CancelFunc
	random  *rand.Rand
	jobs    []*job
	next    int64
	idle    map[string]time.Time
	look    reconcile.Look
}

// job is a job in the storm.
type job struct {
	reconfigure.JobRun
	length time.Duration
}

// played are the scenes by their length: a storm plays the same each time.
var played = map[time.Duration]scene{}

// weather plays a storm of jobs, with faults, for some hours of simulated time, and returns what it leaves. Tests that
// change the scene play their own.
func weather(t *testing.T, length time.Duration) scene {
	t.Helper()
	if s, ok := played[length]; ok {
		return s
	}
	var s scene
	synctest.Test(t, func(t *testing.T) {
		w := &storm{
			T: t, World: simulate.NewWorld(declared()), journal: memory.New(), random: rand.New(rand.NewPCG(1, 2)), next: 4200,
			idle: map[string]time.Time{},
		}
		w.Have("ctl", "node01", "node02")
		for minute := range int(length / time.Minute) {
			w.faults(minute, int(length/time.Minute))
			w.minute(minute)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		s = w.leaves()
		for _, stop := range w.stop {
			stop()
		}
		w.Unstick()
		w.workers.Wait()
	})
	played[length] = s
	return s
}

// faults begins and ends faults.
func (w *storm) faults(minute, of int) {
	switch minute {
	case of / 6:
		w.Order(simulate.NoValidHost, "gpu1", "gpu2")
	case of / 3:
		w.Clear(simulate.NoValidHost)
		w.Order(simulate.PlaybookFails, "node09")
	case of / 2:
		w.Clear(simulate.PlaybookFails)
	case of - 150:
		w.Order(simulate.NoSSH, "node05", "node06", "node07", "node08")
	case of - 130:
		w.Clear(simulate.NoSSH)
		w.Drained("bad memory", "node02")
	case of - 75: // an image that does not boot
		w.Order(simulate.NoSSH, w.Cluster().Groups[0].Nodes().Names()...)
	case of - 30:
		w.Switch("node01", reconfigure.PowerOff)
	case of - 25:
		w.look = w.compare(w.sees())
	case of - 1: // a request that is at work at the end
		states, err := w.States(context.Background(), nodeset.NodeSet{})
		if err != nil {
			w.Fatal(err)
		}
		w.submits(w.Cluster().Groups[1], states, w.used())
	}
}

// minute submits, starts and ends jobs, and suspends idle nodes.
func (w *storm) minute(n int) {
	seconds := func(least, more int) time.Duration { return time.Duration(least+w.random.IntN(more)) * time.Second }
	w.Takes(simulate.Building, seconds(20, 30))
	w.Takes(simulate.Booting, seconds(15, 25))
	w.Takes(simulate.Playing, seconds(35, 50))
	now := time.Now()
	states, err := w.States(context.Background(), nodeset.NodeSet{})
	if err != nil {
		w.Fatal(err)
	}
	for _, j := range w.jobs {
		w.moves(j, states, now)
	}
	used := w.used()
	if w.random.IntN(100) < 12 || n == 2 {
		w.submits(w.Cluster().Groups[w.random.IntN(5)/4], states, used)
	}
	for node, since := range w.idle {
		if !used[node] && now.Sub(since) > 15*time.Minute && states[node].Usable() {
			delete(w.idle, node)
			w.PowersDown(node)
			w.asks(reconfigure.Request{Mode: reconfigure.Suspend, Nodes: nodeset.Of(node), Caller: "slurm from 192.0.2.7"})
			w.PoweredDown(node)
		}
	}
}

// used returns the nodes of jobs.
func (w *storm) used() map[string]bool {
	used := map[string]bool{}
	for _, j := range w.jobs {
		if j.Ended.IsZero() {
			for node := range j.Nodes.All() {
				used[node] = true
			}
		}
	}
	return used
}

// moves starts and ends a job.
func (w *storm) moves(j *job, states map[string]reconfigure.NodeState, now time.Time) {
	switch {
	case !j.Ended.IsZero():
		return
	case j.Started.IsZero():
		for node := range j.Nodes.All() {
			if s := states[node]; s.Down() || s.PoweredDown() {
				if now.Sub(j.Submitted) > 20*time.Minute {
					j.State, j.Ended = "NODE_FAIL", now
				}
				w.keeps(j)
				return
			} else if !s.Ready() {
				return
			}
		}
		j.State, j.Started = "RUNNING", now
		for node := range j.Nodes.All() {
			w.StartJob(node)
		}
	case now.Sub(j.Started) > j.length:
		j.State, j.Ended = "COMPLETED", now
		for node := range j.Nodes.All() {
			w.EndJob(node)
			w.idle[node] = now
		}
	default:
		return
	}
	w.keeps(j)
}

// submits submits a job for free nodes of a group.
func (w *storm) submits(group reconfigure.NodeGroup, states map[string]reconfigure.NodeState, used map[string]bool) {
	var free []string
	for node := range group.Nodes().All() {
		if s := states[node]; !used[node] && (s.PoweredDown() || s.Usable()) && !s.Down() {
			free = append(free, node)
		}
	}
	n := min(1+w.random.IntN(4), len(free))
	if n == 0 {
		return
	}
	free = free[:n]
	slices.Sort(free)
	w.next++
	nodes := nodeset.Of(free...)
	j := &job{reconfigure.JobRun{
		ID: w.next, User: []string{"anna", "bela", "chen"}[w.random.IntN(3)], Partition: group.Name, State: "CONFIGURING",
		Nodes: nodes, Submitted: time.Now().Truncate(time.Second),
	}, time.Duration(10+w.random.IntN(80)) * time.Minute}
	w.jobs = append(w.jobs, j)
	w.keeps(j)
	var off []string
	for _, node := range free {
		delete(w.idle, node)
		if states[node].PoweredDown() {
			off = append(off, node)
		}
	}
	if len(off) == 0 {
		return
	}
	w.PowersUp(off...)
	w.asks(reconfigure.Request{
		Mode: reconfigure.Resume, Nodes: nodeset.Of(off...), Caller: "slurm from 192.0.2.7",
		Jobs: []reconfigure.Job{{ID: j.ID, Nodes: nodes, Partition: group.Name}},
	})
}

func (w *storm) keeps(j *job) {
	if err := w.journal.KeepJobRuns(context.Background(), 0, j.JobRun); err != nil {
		w.Fatal(err)
	}
}

// asks submits a request, and starts a worker.
func (w *storm) asks(r reconfigure.Request) {
	r.Submitted = time.Now()
	if _, err := w.journal.Submit(context.Background(), r); err != nil {
		w.Fatal(err)
	}
	j := w.journal.Open()
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = append(w.stop, cancel)
	site := func(context.Context) (controller.Site, error) {
		deps := w.Deps()
		deps.Recorder, deps.Health, deps.Sums = recorder{j}, j, j
		observer := w.observer(j)
		return controller.Site{Cluster: w.Cluster(), Observe: observer.Observe, States: observer.States, Deps: deps}, nil
	}
	config := controller.Config{
		Journal: j, Open: site, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Timing: operation.DefaultTiming(),
	}
	w.workers.Go(func() {
		if err := controller.Run(ctx, config); err != nil && !errors.Is(err, context.Canceled) &&
			!errors.Is(err, reconfigure.ErrLeaseLost) {
			w.Errorf("a worker ended with %v", err)
		}
	})
}

// recorder records events without a buffer. Instances get hosts, which the simulated cloud does not have.
type recorder struct{ *memory.Journal }

func (r recorder) Record(events ...reconfigure.Event) {
	for i, e := range events {
		if e.Life != nil && e.Life.Instance != "" {
			life := *e.Life
			life.Host = fmt.Sprintf("compute-%d", len(life.Node)*7%3+int(life.Node[len(life.Node)-1])%4)
			events[i].Life = &life
		}
	}
	_ = r.Journal.Record(context.Background(), events...)
}

func (recorder) Flush(context.Context) error { return nil }

func (w *storm) observer(j *memory.Journal) snapshot.Observer {
	return snapshot.Observer{
		Cluster: w.Cluster(),
		States: func(
			ctx context.Context, _ reconfigure.Instance, nodes nodeset.NodeSet,
		) (map[string]reconfigure.NodeState, error) {
			return w.States(ctx, nodes)
		},
		State: func(ctx context.Context, _ nodeset.NodeSet) (reconfigure.State, error) { return w.World.State(ctx) },
		Servers: func(ctx context.Context) (map[string][]reconfigure.Server, error) {
			return w.World.Servers(ctx, nodeset.NodeSet{})
		},
		Server: w.World.Server, Resolve: w.Resolve, Health: j.Health, Events: j.EventsOf,
		Lives: func(ctx context.Context) ([]reconfigure.Life, error) { return j.Lives(ctx, time.Now()) },
	}
}

// sees returns a snapshot.
func (w *storm) sees() snapshot.Snapshot {
	seen, err := w.observer(w.journal).Observe(context.Background(), snapshot.Scope{Servers: true, Declared: true})
	if err != nil {
		w.Fatal(err)
	}
	return seen
}

// compare returns the next comparison of the sources.
func (w *storm) compare(seen snapshot.Snapshot) reconcile.Look {
	pending, err := w.journal.Pending(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	busy := reconcile.Busy{}
	for _, r := range pending {
		busy.Nodes = busy.Nodes.Union(r.Nodes)
	}
	findings := reconcile.Compare(w.Cluster(), seen, busy, time.Hour, reconfigure.CloudCommands{})
	_, look := w.look.Next(w.Cluster(), seen, findings, time.Hour)
	return look
}

// leaves returns the scene after the storm.
func (w *storm) leaves() scene {
	seen := w.sees()
	room := reconfigure.Room{
		Limit: reconfigure.Use{Instances: 40, Cores: 640, RAM: 2560 << 10},
		Used:  reconfigure.Use{Instances: len(seen.Instances), Cores: 16 * len(seen.Instances), RAM: len(seen.Instances) << 16},
	}
	s := scene{
		cluster: w.Cluster(), journal: w.journal, answers: web.Answers{Seen: seen, Room: &room}, look: w.compare(seen),
		now: time.Now(),
	}
	s.holder, s.since = w.journal.HolderSince(context.Background())
	return s
}
