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
// requests, in the place of the current ones. p2 has the same instance as in the backup, p3 has another one, p4 was
// made since, p5 was removed since, and Slurm waits for p6.
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

// TestABackupThatKnowsAnInstanceOtherwiseCostsNoJob has instances whose data in the backup is older: p2 was stopped
// then, p3 had another image. The persistent node p1 is not in the backup. A job runs on each of them.
func TestABackupThatKnowsAnInstanceOtherwiseCostsNoJob(t *testing.T) {
	test(t, []string{"p2", "p3"}, func(l *lab) {
		c := declared()
		c.Groups[0].WhenIdle = reconfigure.IdleStop
		l.declare(c)
		l.Rest("p2")
		l.Forget("p1")
		restore := l.BackUp()
		l.PowersUp("p2")
		l.submit(ask(reconfigure.Resume, "p2"))
		c.Groups[0].Image = "v2"
		l.declare(c)
		update := ask(reconfigure.Update, "p3")
		update.Reimage = true
		l.submit(update)
		l.work()
		running := []string{"p1", "p2", "p3"}
		l.StartJob("p1")
		l.StartJob("p3")
		was := l.IDs()
		if n := l.Node("p2"); n.Spec.Stopped() || !n.Job {
			t.Fatalf("p2: %+v", n)
		}
		if n := l.Node("p3"); n.Made.ImageID != l.Spec("p3").ImageID || !n.Job {
			t.Fatalf("p3: %+v", n)
		}

		restore()
		l.journal = memory.New()
		if n, other := l.Node("p2"), l.Node("p3"); !n.Spec.Stopped() || other.Spec.ImageID == other.Made.ImageID {
			t.Fatalf("the backup is not older: %+v, %+v", n, other)
		}
		l.PowersUp("p4")
		for _, r := range []reconfigure.Request{
			ask(reconfigure.Deploy), ask(reconfigure.Resume, "p2", "p3", "p4"), ask(reconfigure.Suspend, "p2", "p3"),
		} {
			l.submit(r)
			l.work()
		}
		l.compares()
		is := l.IDs()
		for _, node := range running {
			if n := l.Node(node); !n.Job || is[node] != was[node] {
				t.Errorf("%s had instance %s, and has %s: %+v", node, was[node], is[node], n)
			}
		}
		if n := l.Node("p4"); n.Instance.ID == "" || !n.Job {
			t.Errorf("p4, which Slurm has resumed, is %+v", n)
		}

		l.EndJob("p2")
		l.PowersDown("p2")
		l.submit(ask(reconfigure.Suspend, "p2"))
		l.work()
		l.PoweredDown("p2")
		if n := l.Node("p2"); slices.Contains(l.Orphans(), "p2") || n.Instance.ID != "" && !n.Made.Stopped() {
			t.Errorf("after its suspend p2 is %+v, and unknown are %v", n, l.Orphans())
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
