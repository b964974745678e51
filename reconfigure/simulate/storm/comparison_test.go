package storm

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// looks keeps the last comparison of the sources, which the next worker reads too.
type looks struct {
	lock  sync.Mutex
	last  reconcile.Look
	every time.Duration // 0: the sources are not compared
}

func (k *looks) get() (reconcile.Look, time.Duration) {
	k.lock.Lock()
	defer k.lock.Unlock()
	return k.last, k.every
}

// end makes the workers stop comparing, so that they end when no request is left.
func (k *looks) end() {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.every = 0
}

// compare returns the controller's comparison of the sources, as package worker does; nil if it does not compare.
func (l *life) compare(open func() reconfigure.Cluster) func(context.Context) (time.Duration, bool) {
	if l.looks == nil {
		return nil
	}
	return func(ctx context.Context) (time.Duration, bool) {
		l.alive()
		last, every := l.looks.get()
		if every == 0 {
			return 0, false
		}
		if due := last.Time.Add(every); time.Now().Before(due) {
			return time.Until(due), true
		}
		cluster := open()
		site := l.site(cluster)
		r := reconcile.Reconciler{
			Cluster: cluster, Journal: diary{l}, MinAge: reconcile.DefaultMinAge,
			Observe: func(ctx context.Context) (snapshot.Snapshot, error) {
				seen, err := site.Observe(ctx, snapshot.Scope{Servers: true, Declared: true})
				l.takes(l.pace) // so that much happens between the comparison and the fix
				return seen, err
			},
			Cloud:     func(context.Context) (reconcile.Cloud, error) { return cloud{l, l.deps.Cloud}, nil },
			Scheduler: func(i reconfigure.Instance) reconcile.Scheduler { return slurm{l, l.deps.Scheduler(i)} },
		}
		keep := func(next reconcile.Look) error {
			l.alive()
			defer l.did("kept a comparison")
			l.looks.lock.Lock()
			defer l.looks.lock.Unlock()
			l.looks.last = next
			return nil
		}
		tell := func(f reconcile.Finding, err error) error {
			if err == nil {
				l.fixed.Add(1)
			}
			return nil
		}
		_ = r.Unattended(ctx, last, reconcile.StaleAfter*every, keep, tell) // failed fixes are tried again
		return every, true
	}
}

func (d diary) LastMoves(ctx context.Context) (map[string]reconfigure.Event, error) {
	d.alive()
	return d.book.LastMoves(ctx)
}

func (d diary) Submit(ctx context.Context, r reconfigure.Request) (reconfigure.Request, error) {
	d.alive()
	defer d.did("submitted " + string(r.Mode) + " " + r.Nodes.String())
	d.fixed.Add(1)
	return d.book.Submit(ctx, r)
}

func (c cloud) RemovePort(context.Context, string, string, time.Time) error {
	panic("the simulated cloud has no ports")
}

func (s slurm) PowerDownASAP(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	return s.tell("will power down ", nodes, func() error { return s.world.PowerDownASAP(ctx, nodes, reason) })
}

var (
	_ reconcile.Journal   = diary{}
	_ reconcile.Cloud     = cloud{}
	_ reconcile.Scheduler = slurm{}
	_ operation.Scheduler = slurm{}
)

// healed gives the workers' comparison enough time. Then it checks that no cloud node is left that costs money for
// nothing or that Slurm waits for in vain. Nodes that an administrator has taken out of use do not count.
func (s *storm) healed() {
	all := step{nodes: s.cluster().Nodes().Names()}
	for range 3 {
		s.pass(time.Hour + 10*time.Minute) // a failed fix is tried again after an hour
		s.end(all)
		s.suspendDown()
	}
	s.pass(10 * time.Minute)
	orphans, cluster := s.world.Orphans(), s.cluster()
	for node := range cluster.Nodes().Difference(cluster.Persistent()).All() {
		n := s.world.Node(node)
		ours := n.Reason == "" || strings.HasPrefix(n.Reason, simulate.ReasonPrefix)
		out := strings.Contains(n.State, "DRAIN") || strings.Contains(n.State, "DOWN+CLOUD")
		gone := strings.Contains(n.State, "POWERED_DOWN") || strings.Contains(n.State, "POWERING_DOWN")
		switch {
		case out && !ours:
		case gone && (n.Instance.Node != "" || slices.Contains(orphans, node)):
			s.complain("the workers' own comparison has left an instance of %s, which is powered down: %+v", node, n)
		case strings.Contains(n.State, "POWERING_UP"):
			s.complain("Slurm waits for %s, and the workers' own comparison has not noticed: %+v", node, n)
		case strings.Contains(n.State, "DOWN+CLOUD") && ours:
			s.complain("%s was left %s: %s", node, n.State, n.Reason)
		}
	}
}

// suspendDown ends SuspendTime for cloud nodes that are DOWN and have an instance. Slurm powers down DOWN nodes as it
// does idle ones. It leaves DOWN nodes without an instance to the workers' comparison.
func (s *storm) suspendDown() {
	c := s.cluster()
	for node := range c.Nodes().Difference(c.Persistent()).All() {
		if n := s.world.Node(node); strings.Contains(n.State, "DOWN+CLOUD") && n.Instance.ID != "" {
			s.giveUp(step{nodes: []string{node}})
		}
	}
}

// TestStormOfComparisons runs storms in which the workers compare the sources by themselves, and fix the effects of
// lost calls, faults and administrators.
func TestStormOfComparisons(t *testing.T) {
	kinds := []string{ // the first kinds are drawn most often
		"jobs need", "jobs end on", "calls are lost", "Slurm gives up", "time passes", "kill now", "node fault", "jobs need",
	}
	kinds = slices.Concat(kinds, slices.Sorted(maps.Keys(deeds())), kinds, kinds)
	compares := func(s *storm) { s.looks = &looks{every: 5 * time.Minute} }
	faults := append(nodeFaults(), simulate.NeverRemoved, simulate.SlurmRefuses, simulate.LostCreate)
	blowWith(t, compares, func(t *rapid.T) []step { return drawStepsOf(t, kinds, faults) })
}

// TestStormOfInstancesThatAreKept runs storms in which instances fail often, on a cloud that can set them aside.
func TestStormOfInstancesThatAreKept(t *testing.T) {
	kinds := []string{
		"jobs need", "node fault", "jobs need", "kill now", "time passes", "jobs end on", "Slurm gives up", "update",
		"jobs need", "Slurm gives up", "cluster fault", "kill", "jobs need", "kill",
	}
	faults := slices.Repeat([]simulate.Fault{simulate.Lemon, simulate.NoSSH, simulate.Unhealthy}, 3)
	faults = append(faults, simulate.StartsByItself, simulate.StartsByItself, simulate.NeverAside, simulate.NoValidHost,
		simulate.NeverRemoved)
	set := func(s *storm) { s.looks, s.keeps = &looks{every: 5 * time.Minute}, true }
	blowWith(t, set, func(t *rapid.T) []step { return drawStepsOf(t, kinds, faults) })
}
