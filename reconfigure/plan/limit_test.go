package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// TestALimitOverGroups has 4 places for two groups with one persistent node each.
func TestALimitOverGroups(t *testing.T) {
	group := func(name, prefix string, persistent int) reconfigure.NodeGroup {
		return reconfigure.NodeGroup{Name: name, Prefix: prefix, Width: 1, Source: source("v1"), Min: persistent, Max: 9}
	}
	cluster := reconfigure.Cluster{
		Control:    reconfigure.Control{Name: "ctl", Source: source("v1")},
		Groups:     []reconfigure.NodeGroup{group("a", "a", 1), group("b", "b", 1), group("free", "f", 0)},
		Partitions: []reconfigure.Partition{{Name: "entire", Groups: []string{"a", "free"}, AllOrNothing: true}},
		Limits:     []reconfigure.Limit{{Groups: []string{"a", "b"}, Max: 4}},
	}
	spec := reconfigure.Spec{Group: "a", ImageID: "v1", FlavorID: "f", NetworkID: "n"}
	stopped, port := spec, reconfigure.Spec{Group: "a", NetworkID: "n"}
	stopped.Power = reconfigure.PowerOff
	for name, test := range map[string]struct {
		desired  map[string]reconfigure.Spec
		underWay string
		ask      string
		job      reconfigure.Job
		insist   bool
		made     string
	}{
		"none is there":               {ask: "a[2-4]", made: "a[2-3]"},
		"one is there":                {desired: map[string]reconfigure.Spec{"b3": spec}, ask: "a[2-4]", made: "a2"},
		"a stopped one is there":      {desired: map[string]reconfigure.Spec{"b3": stopped}, ask: "a[2-4]", made: "a2"},
		"a port is there":             {desired: map[string]reconfigure.Spec{"b3": port}, ask: "a[2-4]", made: "a[2-3]"},
		"one is being made":           {underWay: "b3", ask: "a[2-4]", made: "a2"},
		"one of another group is":     {underWay: "f3", ask: "a[2-4]", made: "a[2-3]"},
		"it is asked for once more":   {desired: map[string]reconfigure.Spec{"a2": spec}, ask: "a2,b[2-3]", made: "a2,b2"},
		"persistent ones have theirs": {ask: "a[1-4]", made: "a[1-3]"},
		"a person asks":               {ask: "a[2-4]", insist: true, made: "a[2-3]"},
		"other groups have none":      {ask: "f[1-9]", made: "f[1-9]"},
		"the one with a job first": {ask: "a[2-4]", job: reconfigure.Job{ID: 1, Nodes: nodeset.Of("a4")},
			made: "a[2,4]"},
		"a job that gets all or none": {ask: "a[2-4],f1", made: "",
			job: reconfigure.Job{ID: 1, Partition: "entire", Nodes: nodeset.Of("a2", "a3", "a4", "f1")}},
	} {
		t.Run(name, func(t *testing.T) {
			nodes, err := nodeset.Parse(test.ask)
			if err != nil {
				t.Fatal(err)
			}
			seen := snapshot.Snapshot{
				Desired:   test.desired,
				Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "c"}},
				States:    map[string]reconfigure.NodeState{},
				Sources: map[reconfigure.Source]reconfigure.Resolved{
					source("v1"): {ImageID: "v1", FlavorID: "f", NetworkID: "n"},
				},
			}
			if test.underWay != "" {
				seen.UnderWay = nodeset.Of(test.underWay)
			}
			r := reconfigure.Request{ID: 1, Mode: reconfigure.Resume, Nodes: nodes}
			r.Insist = test.insist
			if test.job.ID != 0 {
				r.Jobs = []reconfigure.Job{test.job}
			}
			p := plan.Compute(cluster, seen, []reconfigure.Request{r})
			var made nodeset.NodeSet
			for _, c := range p.Changes {
				made = made.Union(nodeset.Of(c.Node))
			}
			if diff := cmp.Diff(test.made, made.String()); diff != "" {
				t.Errorf("(-want +got):\n%s\nrejected %v", diff, p.Rejected)
			}
			for _, rejected := range p.Rejected {
				if rejected.Class != reconfigure.ClassQuota || !rejected.Awaited ||
					!strings.Contains(rejected.Reason, "the limit of 4 nodes for a, b is reached") {
					t.Errorf("%+v", rejected)
				}
			}
		})
	}
}

func TestNoPlanGoesBeyondALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawAiling(t)
		var l reconfigure.Limit
		persistent := 0
		for _, g := range w.cluster.Groups {
			l.Groups, persistent = append(l.Groups, g.Name), persistent+g.Min
		}
		l.Max = persistent + rapid.IntRange(0, 3).Draw(t, "places")
		w.cluster.Limits = []reconfigure.Limit{l}
		w.seen.UnderWay = nodeset.Of(rapid.SliceOf(rapid.SampledFrom(w.cluster.Nodes().Names())).Draw(t, "under way")...)
		before := w.seen.Existing(w.cluster, l).Union(w.cluster.Persistent())
		after := before
		for _, c := range plan.Compute(w.cluster, w.seen, w.requests).Changes {
			if w.cluster.Nodes().Contains(c.Node) && c.Spec.HasInstance() {
				after = after.Union(nodeset.Of(c.Node))
			}
		}
		if after.Len() > max(l.Max, before.Len()) {
			t.Fatalf("%s of at most %d, and %s before", after, l.Max, before)
		}
	})
}
