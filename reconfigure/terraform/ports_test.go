package terraform

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// keeping is the project's module, in a shard.
func keeping(shard string) module {
	return module{
		kinds:   kinds,
		perNode: []string{instanceBlock, portBlock, "terraform_data.disk"}, kept: []string{portBlock},
		shared: []string{"openstack_networking_secgroup_v2.cluster"}, shard: shard,
	}
}

// theirs returns a plan of Terraform with one change, in a state that has the instances of some nodes.
func theirs(address string, actions tfjson.Actions, tainted bool, instances ...string) *tfjson.Plan {
	p := &tfjson.Plan{
		ResourceChanges: []*tfjson.ResourceChange{{
			Address: address, Mode: tfjson.ManagedResourceMode, Change: &tfjson.Change{Actions: actions},
		}},
		PriorState: &tfjson.State{Values: &tfjson.StateValues{RootModule: &tfjson.StateModule{}}},
	}
	root := p.PriorState.Values.RootModule
	add := func(r tfjson.StateResource) {
		r.Mode = tfjson.ManagedResourceMode
		root.Resources = append(root.Resources, &r)
	}
	add(tfjson.StateResource{Address: address, Tainted: tainted})
	for _, node := range instances {
		add(tfjson.StateResource{Address: instance(instanceBlock, node)})
	}
	return p
}

var (
	creates   = tfjson.Actions{tfjson.ActionCreate}
	updates   = tfjson.Actions{tfjson.ActionUpdate}
	deletes   = tfjson.Actions{tfjson.ActionDelete}
	replaces  = tfjson.Actions{tfjson.ActionDelete, tfjson.ActionCreate}
	withImage = reconfigure.Spec{Group: "g", ImageID: "i", FlavorID: "f", NetworkID: "n"}
	withPort  = reconfigure.Spec{Group: "g", NetworkID: "n"}
)

func TestFenceOverKeptPorts(t *testing.T) {
	port, disk, server := instance(portBlock, "n1"), instance("terraform_data.disk", "n1"),
		instance(instanceBlock, "n1")
	gone := reconfigure.Spec{}
	const create, replace, remove = reconfigure.Create, reconfigure.Replace, reconfigure.Remove
	for name, tc := range map[string]struct {
		action  reconfigure.Action // of n1; empty: none
		entry   reconfigure.Spec   // of n1 afterwards
		shared  bool
		theirs  *tfjson.Plan
		allowed bool
	}{
		"a deploy makes a port":                  {"", withPort, true, theirs(port, creates, false), true},
		"a deploy makes a tainted port anew":     {"", withPort, true, theirs(port, replaces, true), true},
		"a deploy changes no port":               {"", withPort, true, theirs(port, updates, false), false},
		"a deploy replaces no port":              {"", withPort, true, theirs(port, replaces, false), false},
		"a deploy deletes no port":               {"", withPort, true, theirs(port, deletes, false), false},
		"a deploy deletes no unnamed port":       {"", gone, true, theirs(port, deletes, false), false},
		"a deploy makes no port of an instance":  {"", withImage, true, theirs(port, creates, false), false},
		"a deploy makes nothing else for a port": {"", withPort, true, theirs(disk, creates, false), false},
		"a deploy makes no instance for a port":  {"", withPort, true, theirs(server, creates, false), false},
		"nothing but a deploy makes a port":      {"", withPort, false, theirs(port, creates, false), false},
		"a suspend keeps the port":               {remove, withPort, false, theirs(port, deletes, false, "n1"), false},
		"a suspend replaces no port":             {remove, withPort, false, theirs(port, replaces, false, "n1"), false},
		"a suspend removes the instance":         {remove, withPort, false, theirs(server, deletes, false, "n1"), true},
		"a suspend removes the node's disk":      {remove, withPort, false, theirs(disk, deletes, false, "n1"), true},
		"a suspend makes a port that is lost":    {remove, withPort, false, theirs(port, creates, false), true},
		"a shrink removes the port":              {remove, gone, false, theirs(port, deletes, false), true},
		"a resume makes a port that is lost":     {create, withImage, false, theirs(port, creates, false), true},
		"a resume moves an unused port":          {create, withImage, false, theirs(port, replaces, false), true},
		"a resume changes an unused port":        {create, withImage, false, theirs(port, updates, false), true},
		"a resume moves no port in use": {create, withImage, false, theirs(port, replaces, false, "n1"),
			false},
		"a resume changes no port in use": {create, withImage, false, theirs(port, updates, false, "n1"), false},
		"a resume removes no port":        {create, withImage, false, theirs(port, deletes, false), false},
		"a resume replaces no instance": {create, withImage, false, theirs(server, replaces, false, "n1"),
			false},
		"a reimage may change the port": {replace, withImage, false, theirs(port, updates, false, "n1"), true},
		"a reimage removes no port": {replace, withImage, false, theirs(port, deletes, false, "n1"),
			false},
	} {
		t.Run(name, func(t *testing.T) {
			ours := reconfigure.Plan{Shared: tc.shared, Desired: map[string]reconfigure.Spec{"n2": withImage}}
			if tc.entry != gone {
				ours.Desired["n1"] = tc.entry
			}
			if tc.action != "" {
				ours.Changes = []reconfigure.Change{{Node: "n1", Action: tc.action, Spec: tc.entry}}
			}
			_, err := fence(tc.theirs, ours, keeping(""))
			var refusal *reconfigure.Refusal
			if (err == nil) != tc.allowed || err != nil && !errors.As(err, &refusal) {
				t.Errorf("allowed: %t, error %v", tc.allowed, err)
			}
		})
	}
}

// The shared resources are in the default workspace. In another one they can only be by mistake.
func TestFenceOverSharedResourcesInAShard(t *testing.T) {
	const group = "openstack_networking_secgroup_v2.cluster[0]"
	some, none := map[string]reconfigure.Spec{"n1": withImage}, map[string]reconfigure.Spec{}
	for name, tc := range map[string]struct {
		shard   string
		desired map[string]reconfigure.Spec
		actions tfjson.Actions
		allowed bool
	}{
		"made in the default workspace":        {"", some, creates, true},
		"removed with the cluster":             {"", none, deletes, true},
		"made in another one":                  {"g-0", some, creates, false},
		"changed in another one":               {"g-0", some, updates, false},
		"removed in another one":               {"g-0", some, deletes, false},
		"removed with all of another one":      {"g-0", none, deletes, true},
		"made with the last of another one":    {"g-0", none, creates, false},
		"replaced with all of another one":     {"g-0", none, replaces, false},
		"replaced while the default one lives": {"", some, replaces, true},
	} {
		t.Run(name, func(t *testing.T) {
			ours := reconfigure.Plan{Shared: true, Desired: tc.desired}
			_, err := fence(theirs(group, tc.actions, false), ours, keeping(tc.shard))
			if (err == nil) != tc.allowed {
				t.Errorf("allowed: %t, error %v", tc.allowed, err)
			}
		})
	}
}

// The cloud refuses a kept port of a plan that makes it together with the instances: without a second try, which could
// take the room of an instance's port, the caller gets to know which instances were not begun.
func TestARefusedKeptPortIsNotRepeatedBeforeTheInstances(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	all := c.deployed("node01")
	all["node02"] = reconfigure.Spec{Group: "standard", NetworkID: c.network}
	p := planOf(reconfigure.Create, all, control, "node01")
	p.Shared, p.KeptPorts = true, true
	_, err := c.cloud.Faults().Add(labcloud.Fault{
		Kind: labcloud.QuotaExceeded, Server: "node02", Call: "POST ports", Count: 100,
	})
	c.must(err)
	preview, err := d.Preview(t.Context(), p)
	c.must(err)
	var noted []string
	failures, err := d.Apply(t.Context(), preview, func(node, message string) {
		if strings.Contains(message, "in advance") {
			noted = append(noted, node)
		}
	}, nil)
	c.must(err)
	if reconfigure.ClassOf(failures["node02"]) != reconfigure.ClassQuota || !slices.Equal(noted, []string{"node02"}) {
		t.Errorf("failures %v, notes about %v", failures, noted)
	}
	for _, node := range []string{control, "node01"} {
		if !errors.Is(failures[node], reconfigure.ErrUntried) {
			t.Errorf("%s: %v", node, failures[node])
		}
	}
	if hits := c.cloud.Faults().List()[0].Hits; hits != 1 {
		t.Errorf("the port was asked for %d times", hits)
	}
	p.Shared, p.KeptPorts = false, false
	if failures := c.carryOut(d, p); len(failures) > 0 || len(c.servers()) != 2 {
		t.Errorf("without the port: %v, servers %v", failures, c.servers())
	}
}

func TestAKeptPortIsNotAPartOfAnInstance(t *testing.T) {
	of := func(block, node string) *tfjson.StateResource {
		return &tfjson.StateResource{
			Address: instance(block, node), Mode: tfjson.ManagedResourceMode,
			AttributeValues: map[string]any{"all_fixed_ips": []any{"fd00::1", "192.0.2.7"}},
		}
	}
	state := []*tfjson.StateResource{
		of(portBlock, "n1"), of(portBlock, "n2"), of(portBlock, "n3"), of(portBlock, "n4"),
		of("terraform_data.disk", "n4"),
	}
	desired := map[string]reconfigure.Spec{"n1": withPort, "n2": withImage, "n4": withPort, "n5": withPort}
	want := map[string]reconfigure.Instance{}
	for _, node := range []string{"n2", "n3", "n4"} { // only partly created, not wanted, and only partly removed
		want[node] = reconfigure.Instance{Node: node, Tainted: true, Made: reconfigure.Spec{Shard: "g-0"}}
	}
	m := keeping("g-0")
	if diff := cmp.Diff(want, instances(state, m, desired, "g-0")); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if got := missingPorts(state, desired, m).String(); got != "n5" {
		t.Errorf("ports of %s are missing, want n5", got)
	}
}

func TestTheFileSeparatesInstancesAndPorts(t *testing.T) {
	all := map[string]reconfigure.Spec{"n1": withImage, "n2": withPort}
	f := newFile(all)
	want := file{
		Nodes: map[string]reconfigure.Spec{"n1": withImage}, KeptPorts: map[string]reconfigure.Spec{"n2": withPort},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(all, f.all()); diff != "" {
		t.Error(diff)
	}
}
