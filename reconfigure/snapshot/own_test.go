package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// A server with a node's name counts as its instance only if Terraform's state has no other one.
func TestWhichServerIsANodesOwn(t *testing.T) {
	a, b := reconfigure.Server{ID: "a"}, reconfigure.Server{ID: "b"}
	for name, tc := range map[string]struct {
		state   string // the instance's id
		servers []reconfigure.Server
		own     string
		lost    bool
	}{
		"the one in the state":               {"a", []reconfigure.Server{a}, "a", false},
		"the one in the state, of several":   {"b", []reconfigure.Server{a, b}, "b", false},
		"a single one, but not in the state": {"", []reconfigure.Server{b}, "b", false},
		"several, and none in the state":     {"", []reconfigure.Server{a, b}, "", false},
		"another one than in the state":      {"a", []reconfigure.Server{b}, "", true},
		"none":                               {"a", nil, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{
				Instances: map[string]reconfigure.Instance{}, Servers: map[string][]reconfigure.Server{"n1": tc.servers},
			}
			if tc.state != "" {
				s.Instances["n1"] = reconfigure.Instance{Node: "n1", ID: tc.state}
			}
			own, there := s.Own("n1")
			if own.ID != tc.own || there != (tc.own != "") || s.Lost("n1") != tc.lost {
				t.Errorf("%q, %v; lost: %v", own.ID, there, s.Lost("n1"))
			}
		})
	}
}

func TestInstancesThatAreSetAsideAreNoInstancesOfTheNode(t *testing.T) {
	one, failed, last := reconfigure.Server{ID: "1"}, reconfigure.Server{ID: "2", Aside: true}, reconfigure.Server{ID: "3"}
	listed := map[string][]reconfigure.Server{"n1": {one, failed, last}, "n2": {one}, "n3": {failed}}
	instances, aside := Divide(listed)
	want := map[string][]reconfigure.Server{"n1": {one, last}, "n2": {one}}
	if diff := cmp.Diff(want, instances); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]reconfigure.Server{"n1": {failed}, "n3": {failed}}, aside); diff != "" {
		t.Errorf("set aside (-want +got):\n%s", diff)
	}
	if len(listed["n1"]) != 3 {
		t.Errorf("the list has changed: %+v", listed)
	}
}
