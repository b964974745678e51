package status

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/openstack"
)

func TestStateWordsAreThoseOfSinfo(t *testing.T) {
	state := func(states string) reconfigure.NodeState {
		return reconfigure.SlurmNode("", strings.Split(states, "+")...)
	}
	for _, tc := range []struct {
		word string
		fit  string // states that the word picks
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
		words, err := parseStates([]string{tc.word})
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
	_, err := parseStates([]string{"drain", "dran"})
	if err == nil || !strings.Contains(err.Error(), `"dran"`) || !strings.Contains(err.Error(), "drained") {
		t.Errorf("error %v", err)
	}
}

func TestFilter(t *testing.T) {
	seen, known := busy()
	report := seen.report(threeGroups, known)
	type ids = []reconfigure.RequestID
	for name, tc := range map[string]struct {
		filter   filter
		nodes    string
		groups   []string
		requests ids
	}{
		"names":         {filter{nodes: nodeset.Of("node06", "gpu1")}, "gpu1,node06", []string{"standard", "gpu"}, ids{7, 8, 9}},
		"group":         {filter{groups: []string{"gpu"}}, "gpu[1-4]", []string{"gpu"}, ids{8, 9}},
		"groups":        {filter{groups: []string{"gpu", "control"}}, "eiffel-control,gpu[1-4]", []string{"gpu"}, ids{8, 9}},
		"state":         {filter{states: []stateWord{"MIXED", "ALLOCATED"}}, "node[01,05-06]", []string{"standard"}, ids{6, 7, 8, 9}},
		"outdated":      {filter{outdated: true}, "node[02-03,05],old1", []string{"standard", "retired"}, ids{8}},
		"failing":       {filter{failing: true}, "node07", []string{"standard"}, ids{8}},
		"all of them":   {filter{nodes: nodeset.Of("node01", "node02", "node05"), states: []stateWord{"MIXED", "DRAIN"}, outdated: true}, "node02", []string{"standard"}, ids{8}},
		"nothing is so": {filter{groups: []string{"gpu"}, failing: true}, "", nil, ids{8}},
	} {
		t.Run(name, func(t *testing.T) {
			got := report.only(tc.filter)
			if got.names().String() != tc.nodes {
				t.Errorf("nodes %s, not %s", got.names(), tc.nodes)
			}
			var groups []string
			for _, g := range got.Groups {
				groups = append(groups, g.Group)
				i := slices.IndexFunc(report.Groups, func(all groupSummary) bool { return all.Group == g.Group })
				if diff := cmp.Diff(report.Groups[i], g); diff != "" {
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
	if diff := cmp.Diff(len(seen.report(threeGroups, known).Nodes), len(report.Nodes)); diff != "" {
		t.Errorf("a filter has changed the report that it was given:\n%s", diff)
	}
}

func TestInWhatANodeIsNotWhatIsDeclared(t *testing.T) {
	spec := reconfigure.Spec{Group: "standard", ImageID: newImage, FlavorID: "large", NetworkID: "net"}
	wanted := map[reconfigure.Source]reconfigure.Resolved{declaredSource: {ImageID: newImage, FlavorID: "large", NetworkID: "net"}}
	instance := reconfigure.Instance{Node: "node01", ID: "1", Address: "10.60.0.2"}
	server := openstack.Server{ID: "1", Name: "node01", Status: "ACTIVE", ImageID: newImage}
	with := func(change func(*reconfigure.Spec)) reconfigure.Spec {
		s := spec
		change(&s)
		return s
	}
	old := server
	old.ImageID = oldImage
	tainted, part := instance, reconfigure.Instance{Node: "node01", Tainted: true}
	tainted.Tainted = true
	for name, tc := range map[string]struct {
		spec      reconfigure.Spec
		instances []reconfigure.Instance
		servers   []openstack.Server
		deaf      bool // neither the cloud nor Terraform answers
		want      []drift
	}{
		"nothing":                        {spec: spec, instances: []reconfigure.Instance{instance}, servers: []openstack.Server{server}},
		"image, says the cloud":          {spec: spec, instances: []reconfigure.Instance{instance}, servers: []openstack.Server{old}, want: []drift{driftImage}},
		"flavor and network and group":   {spec: with(func(s *reconfigure.Spec) { s.FlavorID, s.NetworkID, s.Group = "tiny", "other", "gpu" }), instances: []reconfigure.Instance{instance}, servers: []openstack.Server{server}, want: []drift{driftFlavor, driftNetwork, driftGroup}},
		"no instance":                    {want: []drift{driftMissing}},
		"a server without Terraform":     {servers: []openstack.Server{server}},
		"half made":                      {spec: spec, instances: []reconfigure.Instance{tainted}, servers: []openstack.Server{server}, want: []drift{driftTainted}},
		"a part only":                    {spec: spec, instances: []reconfigure.Instance{part}, want: []drift{driftTainted}},
		"lost":                           {spec: spec, instances: []reconfigure.Instance{instance}, want: []drift{driftLost}},
		"doubled":                        {spec: spec, instances: []reconfigure.Instance{instance}, servers: []openstack.Server{server, server}, want: []drift{driftDoubled}},
		"nobody can tell: none is there": {deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := sight{sources: wanted, servers: map[string][]openstack.Server{}, desired: map[string]reconfigure.Spec{"node01": tc.spec}, instances: map[string]reconfigure.Instance{}}
			if tc.servers != nil {
				v.servers["node01"] = tc.servers
			}
			for _, i := range tc.instances {
				v.instances["node01"] = i
			}
			if tc.deaf {
				v = sight{}
			}
			got := v.report(threeGroups, past{}).only(filter{nodes: nodeset.Of("node01")}).Nodes[0].Outdated
			if diff := cmp.Diff(append([]drift{}, tc.want...), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
