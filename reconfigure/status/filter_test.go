package status

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestStateWordsAreThoseOfSinfo(t *testing.T) {
	state := func(states string) reconfigure.NodeState {
		return reconfigure.SlurmNode("", strings.Split(states, "+")...)
	}
	for _, tc := range []struct {
		word string
		fit  string // states that the word selects
		not  string
	}{
		{"drain", "IDLE+DRAIN MIXED+DRAIN DOWN+DRAIN", "IDLE DOWN"},
		{"drained", "IDLE+DRAIN DOWN+DRAIN", "MIXED+DRAIN ALLOCATED+DRAIN IDLE+COMPLETING+DRAIN IDLE"},
		{"draining", "MIXED+DRAIN ALLOCATED+DRAIN IDLE+COMPLETING+DRAIN", "IDLE+DRAIN MIXED"},
		{"drng", "MIXED+DRAIN", "IDLE+DRAIN"},
		{"DOWN", "DOWN DOWN+CLOUD+POWERED_DOWN", "IDLE+POWERED_DOWN IDLE+POWERING_DOWN IDLE+POWER_DOWN"},
		{"powered_down", "IDLE+CLOUD+POWERED_DOWN", "IDLE+POWER_DOWN"},
		{"mix", "MIXED MIXED+CLOUD", "IDLE ALLOCATED"},
		{"alloc", "ALLOCATED", "MIXED"},
		{"no_respond", "DOWN+NOT_RESPONDING", "DOWN"},
	} {
		words, err := ParseStates([]string{tc.word})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, s := range strings.Fields(tc.fit) {
			if !words[0].fits(state(s)) {
				t.Errorf("%s does not pick %s", tc.word, s)
			}
		}
		for _, s := range strings.Fields(tc.not) {
			if words[0].fits(state(s)) {
				t.Errorf("%s picks %s", tc.word, s)
			}
		}
	}
}

func TestUnknownStateIsRefusedWithTheKnownOnes(t *testing.T) {
	_, err := ParseStates([]string{"drain", "dran"})
	if err == nil || !strings.Contains(err.Error(), `"dran"`) || !strings.Contains(err.Error(), "drained") {
		t.Errorf("error %v", err)
	}
}

func TestFilter(t *testing.T) {
	seen, known := busy()
	all := report(seen, known)
	type ids = []reconfigure.RequestID
	for name, tc := range map[string]struct {
		filter   Filter
		nodes    string
		groups   []string
		requests ids
	}{
		"names": {
			Filter{Nodes: nodeset.Of("node06", "gpu1")}, "gpu1,node06", []string{"standard", "gpu"}, ids{7, 8, 9},
		},
		"group":  {Filter{Groups: []string{"gpu"}}, "gpu[1-4]", []string{"gpu"}, ids{8, 9}},
		"groups": {Filter{Groups: []string{"gpu", "control"}}, "eiffel-control,gpu[1-4]", []string{"gpu"}, ids{8, 9}},
		"state": {
			Filter{States: []StateWord{"MIXED", "ALLOCATED"}}, "node[01,05-06]", []string{"standard"}, ids{6, 7, 8, 9},
		},
		"outdated": {Filter{Outdated: true}, "node[02-03,05],old1", []string{"standard", "retired"}, ids{8}},
		"failing":  {Filter{Failing: true}, "node07", []string{"standard"}, ids{8}},
		"all of them": {
			Filter{Nodes: nodeset.Of("node01", "node02", "node05"), States: []StateWord{"MIXED", "DRAIN"}, Outdated: true},
			"node02", []string{"standard"}, ids{8},
		},
		"nothing is so": {Filter{Groups: []string{"gpu"}, Failing: true}, "", nil, ids{8}},
	} {
		t.Run(name, func(t *testing.T) {
			got := all.Only(tc.filter)
			if got.Names().String() != tc.nodes {
				t.Errorf("nodes %s, not %s", got.Names(), tc.nodes)
			}
			var groups []string
			for _, g := range got.Groups {
				groups = append(groups, g.Group)
				i := slices.IndexFunc(all.Groups, func(a Group) bool { return a.Group == g.Group })
				if diff := cmp.Diff(all.Groups[i], g); diff != "" {
					t.Errorf("the sums of a group are no longer of it all:\n%s", diff)
				}
			}
			if diff := cmp.Diff(tc.groups, groups); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			var requests ids
			for _, r := range got.Requests {
				requests = append(requests, r.ID)
			}
			if diff := cmp.Diff(tc.requests, requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(len(report(seen, known).Nodes), len(all.Nodes)); diff != "" {
		t.Errorf("a filter has changed the report that it was given:\n%s", diff)
	}
}
