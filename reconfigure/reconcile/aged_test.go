package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

const day = 24 * time.Hour

// mayLive is the example cluster with a maximum age.
func mayLive(maximum time.Duration) reconfigure.Cluster {
	c := example()
	c.Groups[0].MaxAge = maximum
	return c
}

// made sets the age of a node's instance in the cloud.
func (o *observation) made(node string, age time.Duration) {
	o.Servers[node][0].Created = now.Add(-age)
}

// uses gives a node an instance of a certain age, and a state in Slurm.
func (o *observation) uses(node, states string, age time.Duration) {
	o.gone(node)
	o.has(node, "standard")
	o.made(node, age)
	o.slurm(node, states)
}

func TestNodesThatAreTooOld(t *testing.T) {
	one := func(node string, fix Fix) []Finding { return []Finding{{Node: node, Kind: Aged, Fix: fix}} }
	for name, test := range map[string]struct {
		see  func(*observation)
		want []Finding
	}{
		"none":             {func(o *observation) { o.uses("n2", "IDLE CLOUD", 7*day) }, nil},
		"idle":             {func(o *observation) { o.uses("n2", "IDLE CLOUD", 8*day) }, one("n2", Retire)},
		"with a job":       {func(o *observation) { o.uses("n2", "ALLOCATED CLOUD", 8*day) }, one("n2", Retire)},
		"persistent":       {func(o *observation) { o.made("n1", 8*day) }, one("n1", Renew)},
		"the control node": {func(o *observation) { o.made("ctl", 8*day) }, nil},
		"drained by somebody": {func(o *observation) {
			o.uses("n2", "IDLE CLOUD DRAIN", 8*day)
			o.reason("n2", "memory errors")
		}, one("n2", None)},
		"reserved":        {func(o *observation) { o.uses("n2", "IDLE CLOUD RESERVED", 8*day) }, one("n2", None)},
		"in maintenance":  {func(o *observation) { o.uses("n2", "IDLE CLOUD MAINTENANCE", 8*day) }, one("n2", None)},
		"does not answer": {func(o *observation) { o.uses("n2", "IDLE CLOUD NOT_RESPONDING", 8*day) }, one("n2", None)},
		"waited for":      {func(o *observation) { o.uses("n2", "ALLOCATED CLOUD DRAIN POWER_DOWN", 8*day) }, nil},
		"a source does not answer": {func(o *observation) {
			o.uses("n2", "IDLE CLOUD", 8*day)
			o.Missing[snapshot.Terraform] = "the state is locked"
		}, one("n2", None)},
		"a request has it": {func(o *observation) {
			o.uses("n2", "IDLE CLOUD", 8*day)
			o.busy.Nodes = nodeset.Of("n2")
		}, nil},
		"rebuilt since": {func(o *observation) {
			o.uses("n2", "IDLE CLOUD", 8*day)
			o.Lives = map[string]reconfigure.Life{"n2": {Node: "n2", Instance: "id-n2", Made: now.Add(-day)}}
		}, nil},
		"another one was rebuilt": {func(o *observation) {
			o.uses("n2", "IDLE CLOUD", 8*day)
			o.Lives = map[string]reconfigure.Life{"n2": {Node: "n2", Instance: "former", Made: now.Add(-day)}}
		}, one("n2", Retire)},
		"has a second, young instance": {func(o *observation) {
			o.made("n1", 8*day)
			o.serve("n1", "stray", time.Minute)
		}, one("n1", None)},
		"of unknown age": {func(o *observation) {
			o.uses("n2", "IDLE CLOUD", 0)
			o.Servers["n2"][0].Created = time.Time{}
		}, nil},
		"Slurm does not answer": {func(o *observation) {
			o.uses("n2", "IDLE CLOUD", 8*day)
			o.unreachable(snapshot.Slurm)
		}, one("n2", None)},
		"another is unavailable": {func(o *observation) {
			o.uses("n2", "IDLE CLOUD", 8*day)
			o.uses("n3", "MIXED CLOUD DRAIN POWER_DOWN", 9*day)
		}, one("n2", None)},
		"two of them": {func(o *observation) {
			o.uses("n2", "IDLE CLOUD", 8*day)
			o.uses("n3", "MIXED CLOUD", 9*day)
		}, append(one("n3", Retire), one("n2", None)...)},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy()
			test.see(&seen)
			got := seen.compare(mayLive(7 * day))
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(Finding{}, "Detail")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAStoppedInstanceThatIsTooOldIsRemoved(t *testing.T) {
	cluster, seen := mayLive(7*day), healthy()
	cluster.Groups[0].WhenIdle, cluster.Groups[0].MaxStopped = reconfigure.IdleStop, 4
	seen.rests("n2")
	seen.made("n2", 8*day)
	// A start after a stop is a new life of the same disk.
	seen.Lives = map[string]reconfigure.Life{"n2": {Node: "n2", Instance: "id-n2", Made: now.Add(-day)}}
	got := Unattended(cluster, seen.Snapshot, seen.compare(cluster))
	want := []Finding{{Node: "n2", Kind: Aged, Fix: Suspend}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Finding{}, "Detail")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAGroupMadeOnOneDayIsRenewedInParts replaces each retired node with a new instance.
func TestAGroupMadeOnOneDayIsRenewedInParts(t *testing.T) {
	cluster, seen := mayLive(7*day), healthy()
	seen.gone("n1")
	delete(seen.States, "n1")
	cluster.Groups[0].Width, cluster.Groups[0].Min, cluster.Groups[0].Max = 3, 0, 100
	for node := range cluster.Nodes().All() {
		seen.uses(node, "MIXED CLOUD", 8*day)
	}
	last, left := Look{}, 100
	for round := 0; left > 0; round++ {
		if round > 40 {
			t.Fatalf("%d nodes are left", left)
		}
		var fixes []Finding
		seen.Time = seen.Time.Add(time.Hour)
		fixes, last = last.Next(cluster, seen.Snapshot, seen.compare(cluster), 3*time.Hour)
		if len(fixes) > 10 {
			t.Fatalf("%d of 100 nodes at a time", len(fixes))
		}
		for _, f := range fixes {
			if f.Fix != Retire {
				t.Fatalf("%+v", f)
			}
			seen.uses(f.Node, "MIXED CLOUD", 0)
			left--
		}
	}
}

// slurm records the nodes that it powers down. Its states differ from those at the comparison.
type slurm struct {
	states map[string]reconfigure.NodeState
	calls  []string
}

func (s *slurm) States(context.Context, nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
	return s.states, nil
}

func (s *slurm) PowerDown(context.Context, nodeset.NodeSet) error { panic("not called") }

func (s *slurm) PowerDownASAP(_ context.Context, nodes nodeset.NodeSet, reason string) error {
	s.calls = append(s.calls, fmt.Sprintf("%s: %s", nodes, reason))
	return nil
}

func TestANodeIsRetiredOnlyIfSlurmStillUsesIt(t *testing.T) {
	log, err := journal.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	o := healthy()
	for node, states := range map[string]string{
		"n1": "IDLE CLOUD", "n2": "MIXED CLOUD DRAIN", "n3": "MIXED CLOUD", "n4": "IDLE CLOUD",
	} {
		o.slurm(node, states)
	}
	told := &slurm{states: o.States}
	r := Reconciler{Journal: log, Scheduler: func(reconfigure.Instance) Scheduler { return told }}
	c := Comparison{Findings: []Finding{
		{Node: "n1", Kind: Aged, Fix: Retire}, {Node: "n2", Kind: Aged, Fix: Retire}, {Node: "n3", Kind: Aged, Fix: Retire},
		{Node: "n4", Kind: Aged, Fix: Retire},
	}}
	if c.work, err = r.work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Submit(t.Context(), reconfigure.Request{
		Mode: reconfigure.Update, Nodes: nodeset.Of("n4"),
	}); err != nil {
		t.Fatal(err)
	}
	failed, err := r.Fix(t.Context(), c, func(Finding, error) error { return nil })
	if err == nil || failed.String() != "n[2,4]" {
		t.Errorf("left alone: %s, error %v", failed, err)
	}
	if diff := cmp.Diff([]string{"n[1,3]: " + reconfigure.AgedReason}, told.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
