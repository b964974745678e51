package metrics_test

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/metrics"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

const never = 100 * 365 * 24 * time.Hour

// scene is a simulated cluster with a persistent node p1, and cloud nodes p2 to p9, and a worker that compares the
// sources every five minutes. It begins at a midnight in UTC.
type scene struct {
	*testing.T
	*simulate.World
	journal  *memory.Journal
	cluster  reconfigure.Cluster
	registry atomic.Pointer[prometheus.Registry]

	stop func() // ends the worker
	lost atomic.Int64
	deaf atomic.Bool // the notify command fails

	lock   sync.Mutex
	look   reconcile.Look
	frozen bool // the sources are not compared any more
}

func play(t *testing.T, do func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		source := reconfigure.Source{Image: "v1", Flavor: "small", Network: "cluster"}
		s := &scene{T: t, journal: memory.New(), cluster: reconfigure.Cluster{
			Name:    "test",
			Control: reconfigure.Control{Name: "ctl", Source: source},
			Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source, Min: 1, Max: 9}},
			Slurm:   reconfigure.Timing{ResumeTimeout: 15 * time.Minute},
			Settings: reconfigure.Settings{
				BootTimeout: 5 * time.Minute, Interrupt: true, Gather: time.Second, Breaker: 3, Reconcile: 5 * time.Minute,
			},
		}}
		s.World = simulate.NewWorld(s.cluster)
		s.Have("ctl", "p1")
		s.collect()
		ctx, cancel := context.WithCancel(t.Context())
		var worker sync.WaitGroup
		worker.Go(func() {
			if err := s.work(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("the worker ended: %v", err)
			}
		})
		s.stop = func() { cancel(); worker.Wait() }
		do(s)
		s.stop()
	})
}

// collect begins with a new collector, as a new worker does.
func (s *scene) collect() { s.from(s.journal) }

// from begins with a new collector that reads another journal.
func (s *scene) from(j metrics.Journal) {
	collector := metrics.NewCollector(metrics.Facts{
		Journal: j, Cluster: func() reconfigure.Cluster { return s.cluster },
		Look: func() (reconcile.Look, error) {
			s.lock.Lock()
			defer s.lock.Unlock()
			return s.look, nil
		},
		Size: func(context.Context) (int64, error) { return 1 << 20, nil },
		Lost: s.lost.Load, Notified: func() (up, known bool) { return !s.deaf.Load(), true },
	})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	s.registry.Store(registry)
}

type recorder struct{ *memory.Journal }

func (r recorder) Record(events ...reconfigure.Event) {
	_ = r.Journal.Record(context.Background(), events...)
}

func (recorder) Flush(context.Context) error { return nil }

func (s *scene) observer() snapshot.Observer {
	j := s.journal
	return snapshot.Observer{
		Cluster: s.cluster, States: func(
			ctx context.Context, _ reconfigure.Instance, nodes nodeset.NodeSet,
		) (map[string]reconfigure.NodeState, error) {
			return s.States(ctx, nodes)
		},
		State: func(ctx context.Context, _ nodeset.NodeSet) (reconfigure.State, error) { return s.World.State(ctx) },
		Servers: func(ctx context.Context) (map[string][]reconfigure.Server, error) {
			return s.World.Servers(ctx, nodeset.NodeSet{})
		},
		Server: s.World.Server, Resolve: s.Resolve, Health: j.Health, Events: j.EventsOf,
		Lives: func(ctx context.Context) ([]reconfigure.Life, error) { return j.Lives(ctx, time.Now().Add(never)) },
	}
}

func (s *scene) work(ctx context.Context) error {
	j := s.journal.Open()
	return controller.Run(ctx, controller.Config{
		Journal: j, Stay: true, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Timing: operation.DefaultTiming(),
		Open: func(context.Context) (controller.Site, error) {
			deps := s.Deps()
			deps.Recorder, deps.Health, deps.Sums = recorder{j}, j, j
			o := s.observer()
			return controller.Site{Cluster: s.cluster, Observe: o.Observe, States: o.States, Deps: deps}, nil
		},
		Reconcile: func(ctx context.Context) (time.Duration, bool) { s.compare(ctx); return 5 * time.Minute, true },
	})
}

// compare compares the sources as a worker does, and fixes nothing.
func (s *scene) compare(ctx context.Context) {
	seen, err := s.observer().Observe(ctx, snapshot.Scope{Servers: true})
	if err != nil {
		return
	}
	pending, _ := s.journal.Pending(ctx)
	var busy reconcile.Busy
	for _, r := range pending {
		busy.Nodes = busy.Nodes.Union(r.Open())
	}
	found := reconcile.Compare(s.cluster, seen, busy, reconcile.DefaultMinAge, reconfigure.CloudCommands{})
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.frozen {
		return
	}
	_, s.look = s.look.Next(s.cluster, seen, found, time.Hour)
}

// job runs a job on nodes: Slurm powers them up, and down when they were used.
func (s *scene) job(use time.Duration, nodes ...string) {
	s.PowersUp(nodes...)
	s.ask(reconfigure.Resume, nodes...)
	pass(15 * time.Minute)
	pass(use)
	s.rest(nodes...)
}

func (s *scene) rest(nodes ...string) {
	s.PowersDown(nodes...)
	s.ask(reconfigure.Suspend, nodes...)
	pass(5 * time.Minute)
	s.PoweredDown(nodes...)
}

func (s *scene) ask(m reconfigure.Mode, nodes ...string) {
	s.Helper()
	r := reconfigure.Request{Mode: m, Nodes: nodeset.Of(nodes...), Submitted: time.Now()}
	if _, err := s.journal.Submit(s.Context(), r); err != nil {
		s.Error(err)
	}
}

// now is a sample: the values by the text of their series.
func (s *scene) now() map[string]float64 {
	s.Helper()
	families, err := s.registry.Load().Gather()
	if err != nil {
		s.Error(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			add := func(suffix, more string, v float64) {
				values[series(f.GetName()+suffix, m.GetLabel(), more)] = v
			}
			switch {
			case m.Histogram != nil:
				for _, b := range m.Histogram.Bucket {
					add("_bucket", `le="`+number(b.GetUpperBound())+`"`, float64(b.GetCumulativeCount()))
				}
				add("_bucket", `le="+Inf"`, float64(m.Histogram.GetSampleCount()))
				add("_sum", "", m.Histogram.GetSampleSum())
				add("_count", "", float64(m.Histogram.GetSampleCount()))
			case m.Counter != nil:
				add("", "", m.Counter.GetValue())
			default:
				add("", "", m.Gauge.GetValue())
			}
		}
	}
	return values
}

func series(name string, labels []*dto.LabelPair, more string) string {
	text := ""
	for _, l := range labels {
		text += "," + l.GetName() + `="` + l.GetValue() + `"`
	}
	if more != "" {
		text += "," + more
	}
	if text == "" {
		return name
	}
	return name + "{" + text[1:] + "}"
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func paused() reconfigure.Campaign {
	return reconfigure.Campaign{State: reconfigure.CampaignPaused, Groups: []string{"group"}, Started: time.Now()}
}
