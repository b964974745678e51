package plan_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

// halls is a cluster with three node groups and three partitions. The partitions named all-… are all or nothing.
func halls() reconfigure.Cluster {
	return reconfigure.Cluster{
		Groups: []reconfigure.NodeGroup{{Name: "a", Prefix: "a", Width: 1, Max: 9},
			{Name: "b", Prefix: "b", Width: 1, Max: 9}, {Name: "c", Prefix: "c", Width: 1, Max: 9}},
		Partitions: []reconfigure.Partition{
			{Name: "all-a", Groups: []string{"a"}, AllOrNothing: true},
			{Name: "all-ab", Groups: []string{"a", "b"}, AllOrNothing: true},
			{Name: "some-b", Groups: []string{"b"}},
		},
	}
}

func jobFor(id int64, partition string, nodes ...string) reconfigure.Job {
	return reconfigure.Job{ID: id, Nodes: nodeset.Of(nodes...), Partition: partition}
}

func TestGiveUp(t *testing.T) {
	full := reconfigure.Classify(reconfigure.ClassQuota, errors.New("12 of 12 instances are in use"))
	const said = "given up: job 7 gets all of its nodes or none, and not a2: 12 of 12 instances are in use"
	for name, tc := range map[string]struct {
		jobs    []reconfigure.Job
		refused []string
		want    map[string]string
	}{
		"nothing is refused": {[]reconfigure.Job{jobFor(7, "all-a", "a1", "a2")}, nil, map[string]string{}},
		"one is": {[]reconfigure.Job{jobFor(7, "all-a", "a1", "a2", "a3")}, []string{"a2"},
			map[string]string{"a1": said, "a3": said}},
		"one of another job": {[]reconfigure.Job{jobFor(7, "all-a", "a1", "a2"), jobFor(8, "all-a", "a3", "a4")},
			[]string{"a2"}, map[string]string{"a1": said}},
		"another job needs it": {[]reconfigure.Job{jobFor(7, "all-a", "a1", "a2", "a3"), jobFor(8, "all-a", "a3", "a4")},
			[]string{"a2"}, map[string]string{"a1": said}},
		"the other job does not begin": {
			[]reconfigure.Job{jobFor(7, "all-a", "a1", "a2"), jobFor(8, "all-a", "a1", "a4", "a5")}, []string{"a2", "a5"},
			map[string]string{"a1": said,
				"a4": "given up: job 8 gets all of its nodes or none, and not a5: 12 of 12 instances are in use"},
		},
		"it is named twice": {[]reconfigure.Job{jobFor(7, "all-a", "a1"), jobFor(7, "all-a", "a2")},
			[]string{"a2"}, map[string]string{"a1": said}},
		"its partition does not say so": {[]reconfigure.Job{jobFor(7, "some-b", "b1", "b2")}, []string{"b2"},
			map[string]string{}},
		"it is not about jobs": {nil, []string{"a2"}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			refused := reconfigure.Failures{}
			for _, node := range tc.refused {
				refused[node] = full
			}
			got := map[string]string{}
			for node, err := range plan.GiveUp(halls(), tc.jobs, refused, nodeset.Of("a1", "a2", "a3", "a4", "b1", "b2")) {
				got[node] = err.Error()
				if !errors.Is(err, reconfigure.ErrGivenUp) || reconfigure.ClassOf(err) != reconfigure.ClassQuota {
					t.Errorf("%s: %v of class %s", node, err, reconfigure.ClassOf(err))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := plan.GiveUp(halls(), []reconfigure.Job{jobFor(7, "all-a", "a1", "a2")}, reconfigure.Failures{"a2": full},
		nodeset.NodeSet{}); len(got) > 0 {
		t.Errorf("a node that is not among the candidates: %v", got)
	}
}
