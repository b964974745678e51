package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// TestFallbackFlavors plans for a group whose flavor is "small", and whose fallback flavors are "gone", which the cloud
// does not have, and "large". n1 is persistent; the instances are of "large".
func TestFallbackFlavors(t *testing.T) {
	own := reconfigure.Source{Image: "v1", Flavor: "small", Network: "n"}
	c := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: own},
		Groups: []reconfigure.NodeGroup{
			{Name: "g", Prefix: "n", Width: 1, Source: own, Fallbacks: []string{"gone", "large"}, Min: 1, Max: 9},
		},
	}
	large := reconfigure.Spec{Group: "g", ImageID: "v1", FlavorID: "large", NetworkID: "n"}
	stopped := large
	stopped.Power = reconfigure.PowerOff
	seen := func() snapshot.Snapshot {
		up := reconfigure.NodeState{Flags: reconfigure.NodeIdle | reconfigure.NodeDrain, Reason: "reconfigure: update"}
		return snapshot.Snapshot{
			Time:    time.Now(),
			Desired: map[string]reconfigure.Spec{"ctl": {Group: reconfigure.ControlGroup, ImageID: "v1"}, "n3": large, "n4": stopped},
			Instances: map[string]reconfigure.Instance{
				"ctl": {Node: "ctl", ID: "0"}, "n3": {Node: "n3", ID: "3"}, "n4": {Node: "n4", ID: "4"},
			},
			Sources: map[reconfigure.Source]reconfigure.Resolved{
				own: {ImageID: "v1", FlavorID: "small", NetworkID: "n"},
				{Image: "v1", Flavor: "gone", Network: "n"}:  {Err: "not found", Class: reconfigure.ClassMissing},
				{Image: "v1", Flavor: "large", Network: "n"}: {ImageID: "v1", FlavorID: "large", NetworkID: "n"},
			},
			States: map[string]reconfigure.NodeState{"n3": up},
		}
	}
	plans := func(mode reconfigure.Mode, node string) reconfigure.Change {
		t.Helper()
		requests := []reconfigure.Request{{ID: 1, Mode: mode, Nodes: nodeset.Of(node), Submitted: time.Now()}}
		p := Compute(c, seen(), requests)
		change, ok := p.Of(node)
		if !ok {
			t.Fatalf("no change of %s: %+v", node, p)
		}
		return change
	}
	if got := plans(reconfigure.Resume, "n2"); got.Action != reconfigure.Create || got.Spec.FlavorID != "small" ||
		!slices.Equal(got.Fallbacks, []reconfigure.Fallback{{FlavorID: "large"}}) {
		t.Errorf("a new cloud node: %+v", got)
	}
	if got := plans(reconfigure.Enlarge, "n1"); got.Action != reconfigure.Create || got.Fallbacks != nil {
		t.Errorf("a new persistent node: %+v", got)
	}
	if got := plans(reconfigure.Update, "n3"); got.Action != reconfigure.Reboot {
		t.Errorf("an update of a node of a fallback flavor: %+v", got)
	}
	if got := plans(reconfigure.Resume, "n4"); got.Action != reconfigure.Start || got.Spec != large {
		t.Errorf("the resume of a stopped one: %+v", got)
	}
	c.Groups[0].Fallbacks = nil
	if got := plans(reconfigure.Update, "n3"); got.Action != reconfigure.Replace || got.Spec.FlavorID != "small" {
		t.Errorf("without fallback flavors: %+v", got)
	}
	c.Groups[0].Fallbacks = []string{"large"}
	large2 := own
	large2.Flavor = "large"
	if diff := cmp.Diff(map[reconfigure.Source]bool{own: true, large2: true}, set(Sources(c, nil,
		[]reconfigure.Request{{Mode: reconfigure.Resume, Nodes: nodeset.Of("n2")}}))); diff != "" {
		t.Errorf("what is resolved: %s", diff)
	}
}

// TestFallbackZones plans for a group in zone "a", with zone "b" and flavor "large" as fallbacks. n2 is in zone "b".
func TestFallbackZones(t *testing.T) {
	source := func(flavor, zone string) reconfigure.Source {
		return reconfigure.Source{Image: "v1", Flavor: flavor, Network: "n",
			Placement: reconfigure.Placement{Zone: zone}}
	}
	c := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: source("small", "")},
		Groups: []reconfigure.NodeGroup{{Name: "g", Prefix: "n", Width: 1, Source: source("small", "a"),
			FallbackZones: []string{"b"}, Fallbacks: []string{"large"}, Max: 9}},
	}
	there := reconfigure.Spec{Group: "g", ImageID: "v1", FlavorID: "small", NetworkID: "n",
		Placement: reconfigure.Placement{Zone: "b"}}
	seen := snapshot.Snapshot{
		Time:    time.Now(),
		Desired: map[string]reconfigure.Spec{"ctl": {Group: reconfigure.ControlGroup, ImageID: "v1"}, "n2": there},
		Instances: map[string]reconfigure.Instance{
			"ctl": {Node: "ctl", ID: "0"}, "n2": {Node: "n2", ID: "2"},
		},
		Sources: map[reconfigure.Source]reconfigure.Resolved{},
		States: map[string]reconfigure.NodeState{"n2": {Flags: reconfigure.NodeIdle | reconfigure.NodeDrain,
			Reason: "reconfigure: update"}},
	}
	for _, s := range append(c.Groups[0].Sources(), c.Control.Source) {
		seen.Sources[s] = reconfigure.Resolved{ImageID: "v1", FlavorID: s.Flavor, NetworkID: "n", Placement: s.Placement}
	}
	of := func(mode reconfigure.Mode, node string) reconfigure.Change {
		t.Helper()
		requests := []reconfigure.Request{{ID: 1, Mode: mode, Nodes: nodeset.Of(node), Submitted: time.Now()}}
		p := Compute(c, seen, requests)
		change, ok := p.Of(node)
		if !ok {
			t.Fatalf("no change of %s: %+v", node, p)
		}
		return change
	}
	want := []reconfigure.Fallback{
		{FlavorID: "small", Zone: "b"}, {FlavorID: "large", Zone: "a"}, {FlavorID: "large", Zone: "b"},
	}
	if got := of(reconfigure.Resume, "n1"); got.Spec.Zone != "a" || !slices.Equal(got.Fallbacks, want) {
		t.Errorf("a new node: %+v", got)
	}
	if got := of(reconfigure.Update, "n2"); got.Action != reconfigure.Reboot {
		t.Errorf("an update of a node in a fallback zone: %+v", got)
	}
	// A worker has ended while it made the instance.
	seen.Desired["n3"] = there
	if got := of(reconfigure.Resume, "n3"); got.Spec != there || !slices.Equal(got.Fallbacks, want[1:]) {
		t.Errorf("what a worker has begun: %+v", got)
	}
	c.Groups[0].Min = 3
	if got := of(reconfigure.Enlarge, "n3"); got.Spec.Zone != "a" || got.Fallbacks != nil {
		t.Errorf("the same for a persistent node: %+v", got)
	}
	c.Groups[0].Min, c.Groups[0].FallbackZones = 0, nil
	if got := of(reconfigure.Update, "n2"); got.Action != reconfigure.Replace || got.Spec.Zone != "a" {
		t.Errorf("without fallback zones: %+v", got)
	}
}

// TestWhatTheDeclarationAdmitsStays has a stopped instance in a zone that is no longer declared, or that is declared
// now.
func TestWhatTheDeclarationAdmitsStays(t *testing.T) {
	for name, tc := range map[string]struct {
		declared, is string
		want         reconfigure.Action
	}{
		"the zone":          {"a", "a", reconfigure.Start},
		"any zone":          {"", "a", reconfigure.Start},
		"another zone":      {"a", "b", reconfigure.Replace},
		"a zone, not known": {"a", "", reconfigure.Replace},
	} {
		own := reconfigure.Source{Image: "v1", Flavor: "f", Network: "n"}
		own.Zone = tc.declared
		c := reconfigure.Cluster{
			Control: reconfigure.Control{Name: "ctl", Source: own},
			Groups:  []reconfigure.NodeGroup{{Name: "g", Prefix: "n", Width: 1, Source: own, Max: 9}},
		}
		spec := reconfigure.Spec{Group: "g", ImageID: "v1", FlavorID: "f", NetworkID: "n", Power: reconfigure.PowerOff}
		spec.Zone = tc.is
		resolved := reconfigure.Resolved{ImageID: "v1", FlavorID: "f", NetworkID: "n"}
		resolved.Zone = tc.declared
		p := Compute(c, snapshot.Snapshot{
			Desired:   map[string]reconfigure.Spec{"n1": spec},
			Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "0"}, "n1": {Node: "n1", ID: "1"}},
			Sources:   map[reconfigure.Source]reconfigure.Resolved{own: resolved},
			States:    map[string]reconfigure.NodeState{},
		}, []reconfigure.Request{{ID: 1, Mode: reconfigure.Resume, Nodes: nodeset.Of("n1")}})
		change, _ := p.Of("n1")
		wanted := tc.is
		if tc.want == reconfigure.Replace {
			wanted = tc.declared
		}
		if change.Action != tc.want || change.Spec.Zone != wanted {
			t.Errorf("%s: %+v", name, change)
		}
	}
}

// TestAZoneThatOnlyTheMapHasIsNoReasonForAReplacement has an instance that is not where its entry says, and a declaration
// that leaves the zone to the cloud: the update is a reboot.
func TestAZoneThatOnlyTheMapHasIsNoReasonForAReplacement(t *testing.T) {
	own := reconfigure.Source{Image: "v1", Flavor: "f", Network: "n"}
	spec := reconfigure.Spec{Group: "g", ImageID: "v1", FlavorID: "f", NetworkID: "n"}
	spec.Zone = "a"
	p := Compute(reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: own},
		Groups:  []reconfigure.NodeGroup{{Name: "g", Prefix: "n", Width: 1, Source: own, Max: 9}},
	}, snapshot.Snapshot{
		Desired:   map[string]reconfigure.Spec{"n1": spec},
		Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "0"}, "n1": {Node: "n1", ID: "1"}},
		Servers:   map[string][]reconfigure.Server{"n1": {{ID: "1", Zone: "b"}}},
		Sources:   map[reconfigure.Source]reconfigure.Resolved{own: {ImageID: "v1", FlavorID: "f", NetworkID: "n"}},
		States: map[string]reconfigure.NodeState{
			"n1": {Flags: reconfigure.NodeIdle | reconfigure.NodeDrain, Reason: "reconfigure: update"},
		},
	}, []reconfigure.Request{{ID: 1, Mode: reconfigure.Update, Nodes: nodeset.Of("n1"), Submitted: time.Now()}})
	if change, _ := p.Of("n1"); change.Action != reconfigure.Reboot {
		t.Errorf("%+v", change)
	}
}

func set[T comparable](all []T) map[T]bool {
	found := map[T]bool{}
	for _, v := range all {
		found[v] = true
	}
	return found
}
