package controller_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// portless is a cloud whose instances have no ports of their own.
type portless struct{ *simulate.World }

func (portless) RemovePort(context.Context, string, string, time.Time) error { return nil }

// compares has the worker's comparison look and fix several times, as an hour of a worker that stays, and carries out
// the requests.
func (l *lab) compares() {
	l.Helper()
	ctx := l.Context()
	r := reconcile.Reconciler{
		Cluster: l.cluster, Journal: l.journal, MinAge: reconcile.DefaultMinAge,
		Observe: func(ctx context.Context) (snapshot.Snapshot, error) {
			site, err := l.open(l.journal)(ctx)
			if err != nil {
				return snapshot.Snapshot{}, err
			}
			return site.Observe(ctx, snapshot.Scope{Servers: true, Declared: true})
		},
		Cloud:     func(context.Context) (reconcile.Cloud, error) { return portless{l.World}, nil },
		Scheduler: func(reconfigure.Instance) reconcile.Scheduler { return l.World },
	}
	var last reconcile.Look
	keep := func(next reconcile.Look) error { last = next; return nil }
	for range 12 {
		pass(5 * time.Minute)
		if err := r.Unattended(ctx, last, time.Hour, keep, func(reconcile.Finding, error) error { return nil }); err != nil {
			l.Error(err)
		}
		l.work()
	}
}

// TestABackupThatIsOlderThanTheCloudCostsNoJob puts Terraform's map and states of a backup, and a journal without
// requests, in the place of the current ones. p2 has the same instance as in the backup, p3 has another one, p4 was made
// since, p5 was removed since, and Slurm waits for p6.
func TestABackupThatIsOlderThanTheCloudCostsNoJob(t *testing.T) {
	test(t, []string{"p2", "p3", "p5"}, func(l *lab) {
		suspend := func(nodes ...string) {
			l.PowersDown(nodes...)
			l.submit(ask(reconfigure.Suspend, nodes...))
			l.work()
			l.PoweredDown(nodes...)
		}
		l.StartJob("p2")
		restore := l.BackUp()
		suspend("p3", "p5")
		l.PowersUp("p3", "p4")
		l.submit(ask(reconfigure.Resume, "p3", "p4"))
		l.work()
		l.PowersUp("p6")
		running := []string{"p2", "p3", "p4"}
		was := l.IDs()
		for _, node := range running {
			if n := l.Node(node); !n.Job || n.Instance.ID != was[node] {
				t.Fatalf("%s: %+v", node, n)
			}
		}

		restore()
		l.journal = memory.New()
		if orphans := l.Orphans(); !slices.Equal(orphans, []string{"p3", "p4"}) {
			t.Fatalf("the backup does not know the instances of %v: the test proves nothing", orphans)
		}
		for _, r := range []reconfigure.Request{
			ask(reconfigure.Deploy), ask(reconfigure.Resume, running...), // slurmctld calls again after a crash
			ask(reconfigure.Suspend, running...),
		} {
			l.submit(r)
			l.work()
		}
		l.compares()
		is := l.IDs()
		for _, node := range append(running, "ctl", "p1") {
			if is[node] != was[node] {
				t.Errorf("%s had instance %s, and has %s", node, was[node], is[node])
			}
		}
		for _, node := range running {
			if n := l.Node(node); !n.Job {
				t.Errorf("the job on %s has ended: %+v", node, n)
			}
		}
		if n := l.Node("p6"); n.Instance.ID == "" || !n.Job {
			t.Errorf("p6, for which Slurm waited, is %+v", n)
		}

		for _, node := range running {
			l.EndJob(node)
		}
		suspend(running...)
		l.compares()
		if diff := cmp.Diff([]string{"ctl", "p1", "p6"}, nodesOf(l.IDs())); diff != "" || len(l.Orphans()) > 0 {
			t.Errorf("instances (-want +got):\n%s\nunknown: %v", diff, l.Orphans())
		}
		l.PowersUp(running...)
		l.submit(ask(reconfigure.Resume, running...))
		l.work()
		for _, node := range running {
			if n := l.Node(node); n.Instance.ID == "" || !n.Job {
				t.Errorf("after the next resume %s is %+v", node, n)
			}
		}
	})
}

func nodesOf(ids map[string]string) (nodes []string) {
	for node := range ids {
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	return nodes
}
