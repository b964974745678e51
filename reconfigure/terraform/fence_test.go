package terraform

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// -update makes the recordings of Terraform's plans and the fence's answers anew: see record_test.go.
var update = flag.Bool("update", false, "record Terraform's plans and the fence's answers anew")

// recorded is the module with which the plans were recorded: the project's module plus a volume for each node and a
// list of all nodes.
var recorded = module{
	kinds:   kinds,
	perNode: []string{"openstack_compute_instance_v2.node", "openstack_networking_port_v2.node", "terraform_data.disk"},
	shared: []string{
		"openstack_compute_keypair_v2.cluster", "openstack_networking_floatingip_v2.control",
		"openstack_networking_secgroup_rule_v2.inside",
		"openstack_networking_secgroup_rule_v2.ping", "openstack_networking_secgroup_rule_v2.ssh",
		"openstack_networking_secgroup_v2.cluster", "terraform_data.hosts",
	},
}

// ask is one of our plans that is compared with a recording.
type ask struct {
	name    string // of the golden file
	plan    string // the recording's name
	create  []string
	replace []string
	remove  []string
	start   []string
	stop    []string
	shared  bool
	empty   bool // no node remains
}

// asks has each hazard in Terraform's recorded plans, with the plan of ours that leads to it, and some plans that must
// pass.
var asks = []ask{
	{name: "create-while-image-differs", plan: "image-bumped-create", create: []string{"n4"}, shared: true},
	{name: "create-but-shared-not-asked", plan: "image-bumped-create", create: []string{"n4"}},
	{name: "remove-while-image-differs", plan: "image-bumped-remove", remove: []string{"n3"}, shared: true},
	{name: "inventory-alone-rebuilds-all", plan: "image-bumped-hosts-alone", remove: []string{"n3"}, shared: true},
	{name: "stale-map-inventory-alone", plan: "stale-hosts-alone", create: []string{"n1"}, shared: true},
	{name: "stale-map-no-target", plan: "stale-no-target", create: []string{"n1"}, shared: true},
	{name: "destroy-takes-dependents", plan: "destroy-target", remove: []string{"n3"}},
	{name: "target-is-a-typo", plan: "typo", create: []string{"n9"}},
	{name: "rebuild-asked", plan: "one-image", replace: []string{"n1"}},
	{name: "rebuild-not-asked", plan: "one-image", create: []string{"n2"}},
	{name: "rebuild-is-no-create", plan: "one-image", create: []string{"n1"}},
	{name: "resize-not-asked", plan: "one-flavor", create: []string{"n2"}},
	{name: "stop-asked", plan: "one-stops", stop: []string{"n1"}},
	{name: "stop-of-another-one", plan: "one-stops", stop: []string{"n2"}},
	{name: "stop-is-no-start", plan: "one-stops", start: []string{"n1"}},
	{name: "stop-is-no-removal", plan: "one-stops", remove: []string{"n1"}},
	{name: "stop-is-no-create", plan: "one-stops", create: []string{"n1"}},
	{name: "stop-is-no-rebuild", plan: "one-stops-with-another-image", stop: []string{"n1"}},
	{name: "other-network-replaces", plan: "one-network", replace: []string{"n1"}, shared: true},
	{name: "other-network-not-asked", plan: "one-network", remove: []string{"n2"}},
	{name: "tainted-may-be-created-over", plan: "tainted", create: []string{"n2"}, shared: true},
	{name: "tainted-not-asked", plan: "tainted", create: []string{"n4"}, shared: true},
	{name: "tainted-is-removed", plan: "tainted-removed", remove: []string{"n2"}, shared: true},
	{name: "replaced-by-request", plan: "replace-by-request", replace: []string{"n1"}},
	{name: "create-may-not-replace-a-good-one", plan: "replace-by-request", create: []string{"n1"}},
	{name: "everything-goes", plan: "everything", remove: []string{"eiffel-control", "n1", "n2", "n3"}, shared: true,
		empty: true},
	{name: "everything-goes-but-one-not-named", plan: "everything", remove: []string{"eiffel-control", "n1", "n2"},
		shared: true, empty: true},
	{name: "everything-goes-but-shared-not-asked", plan: "everything",
		remove: []string{"eiffel-control", "n1", "n2", "n3"}, empty: true},
	{name: "shared-changes", plan: "other-name", shared: true, create: []string{"n4"}},
	{name: "known-address-is-kept", plan: "no-floating-ip", shared: true},
	{name: "moved", plan: "moved", create: []string{"n1"}, shared: true},
	{name: "imported", plan: "imported", create: []string{"n1"}, shared: true},
	{name: "block-is-gone", plan: "block-gone", remove: []string{"n1"}, shared: true},
	{name: "gone-behind-our-back", plan: "drift", create: []string{"n1"}, shared: true},
	{name: "gone-behind-our-back-not-asked", plan: "drift", create: []string{"n2"}},
}

func (a ask) ours() reconfigure.Plan {
	p := reconfigure.Plan{Shared: a.shared, Desired: map[string]reconfigure.Spec{}}
	if !a.empty {
		for _, node := range []string{control, "n1", "n2", "n3", "n4"} {
			p.Desired[node] = reconfigure.Spec{}
		}
	}
	for action, nodes := range map[reconfigure.Action][]string{reconfigure.Create: a.create,
		reconfigure.Replace: a.replace, reconfigure.Remove: a.remove, reconfigure.Start: a.start,
		reconfigure.Stop: a.stop} {
		for _, node := range nodes {
			p.Changes = append(p.Changes, reconfigure.Change{Node: node, Action: action})
			if action == reconfigure.Remove {
				delete(p.Desired, node)
			}
		}
	}
	return p
}

func TestFenceOverRecordedPlans(t *testing.T) {
	if *update {
		record(t)
	}
	for _, a := range asks {
		t.Run(a.name, func(t *testing.T) {
			changes, err := fence(recording(t, a.plan), a.ours(), recorded)
			var said strings.Builder
			for _, c := range changes {
				fmt.Fprintf(&said, "%s: %s %s (%s)\n", c.Node, c.Effect, c.Address, c.Detail)
			}
			var refusal *reconfigure.Refusal
			if errors.As(err, &refusal) {
				fmt.Fprintln(&said, refusal)
			}
			golden(t, filepath.Join("testdata", "fence", a.name+".golden"), said.String())
		})
	}
}

func recording(t *testing.T, name string) *tfjson.Plan {
	t.Helper()
	text, err := os.ReadFile(recordingFile(name))
	if err != nil {
		t.Fatal(err)
	}
	var p tfjson.Plan
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

func recordingFile(name string) string { return filepath.Join("testdata", "plans", name+".json") }

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// Plans that a later Terraform may make, and that cannot be recorded.
func TestFenceRefusesWhatItDoesNotKnow(t *testing.T) {
	ours := reconfigure.Plan{Shared: true, Changes: []reconfigure.Change{{Node: "n1", Action: reconfigure.Replace}},
		Desired: map[string]reconfigure.Spec{"n1": {}, control: {}}}
	of := func(address string, actions ...tfjson.Action) *tfjson.ResourceChange {
		return &tfjson.ResourceChange{Address: address, Mode: tfjson.ManagedResourceMode,
			Change: &tfjson.Change{Actions: actions}}
	}
	data := of(`data.openstack_images_image_v2.x`, tfjson.ActionUpdate)
	data.Mode = tfjson.DataResourceMode
	for name, theirs := range map[string]*tfjson.Plan{
		"forget": {ResourceChanges: []*tfjson.ResourceChange{of(`terraform_data.disk["n1"]`,
			tfjson.ActionForget)}},
		"create and forget": {ResourceChanges: []*tfjson.ResourceChange{of(`terraform_data.disk["n1"]`,
			tfjson.ActionCreate, tfjson.ActionForget)}},
		"future action": {ResourceChanges: []*tfjson.ResourceChange{of(`terraform_data.disk["n1"]`, "transmute")}},
		"no action":     {ResourceChanges: []*tfjson.ResourceChange{of(`terraform_data.disk["n1"]`)}},
		"no change":     {ResourceChanges: []*tfjson.ResourceChange{{Address: `terraform_data.disk["n1"]`}}},
		"data source":   {ResourceChanges: []*tfjson.ResourceChange{data}},
		"deferred": {DeferredChanges: []*tfjson.DeferredResourceChange{{Reason: "absent_prereq",
			ResourceChange: of(`terraform_data.disk["n1"]`, tfjson.ActionCreate)}}},
		"action": {ActionInvocations: []*tfjson.ActionInvocation{{Address: "action.x.y"}}},
		"number as key": {ResourceChanges: []*tfjson.ResourceChange{of(`terraform_data.disk[0]`,
			tfjson.ActionCreate)}},
		"no key": {ResourceChanges: []*tfjson.ResourceChange{of(`terraform_data.disk`,
			tfjson.ActionCreate)}},
		"no address": {ResourceChanges: []*tfjson.ResourceChange{of(`]`, tfjson.ActionCreate)}},
		"unknown block": {ResourceChanges: []*tfjson.ResourceChange{of(`terraform_data.stranger`,
			tfjson.ActionDelete)}},
	} {
		t.Run(name, func(t *testing.T) {
			var refusal *reconfigure.Refusal
			if changes, err := fence(theirs, ours, recorded); !errors.As(err, &refusal) || len(refusal.Changes) != 1 {
				t.Errorf("fence: %v, %v", changes, err)
			}
		})
	}
}

// A deposed object has the address of its successor.
func TestATaintedDeposedObjectLetsNoGoodOneBeReplaced(t *testing.T) {
	address := instance(instanceBlock, "n1")
	object := func(deposed string) *tfjson.StateResource {
		return &tfjson.StateResource{Address: address, Mode: tfjson.ManagedResourceMode, DeposedKey: deposed,
			Tainted: deposed != ""}
	}
	theirs := &tfjson.Plan{
		ResourceChanges: []*tfjson.ResourceChange{{Address: address, Mode: tfjson.ManagedResourceMode,
			Change: &tfjson.Change{Actions: tfjson.Actions{tfjson.ActionDelete, tfjson.ActionCreate}}}},
		PriorState: &tfjson.State{Values: &tfjson.StateValues{RootModule: &tfjson.StateModule{
			Resources: []*tfjson.StateResource{object(""), object("ab12cd34")}}}},
	}
	var refusal *reconfigure.Refusal
	if changes, err := fence(theirs, ask{create: []string{"n1"}}.ours(), recorded); !errors.As(err, &refusal) {
		t.Errorf("fence: %v, %v", changes, err)
	}
}

func TestFenceAttributesAModulesResourcesToItsNode(t *testing.T) {
	m := module{kinds: kinds, perNode: []string{"module.extra"}, shared: []string{"module.common"}}
	ours := ask{create: []string{"n1"}, shared: true}.ours()
	for address, allowed := range map[string]bool{
		`module.extra["n1"].terraform_data.x`:           true,
		`module.extra["n1"].terraform_data.x["n2"]`:     true, // even if these keys look like nodes
		`module.extra["n2"].terraform_data.x`:           false,
		`module.common.terraform_data.x`:                true,
		`module.common.terraform_data.x["n2"]`:          false, // handed var.nodes
		`module.common.module.y["n2"].terraform_data.x`: false,
		`module.common.terraform_data.x["other"]`:       true,
	} {
		theirs := &tfjson.Plan{ResourceChanges: []*tfjson.ResourceChange{{
			Address: address, Mode: tfjson.ManagedResourceMode,
			Change: &tfjson.Change{Actions: tfjson.Actions{tfjson.ActionCreate}},
		}}}
		if _, err := fence(theirs, ours, m); (err == nil) != allowed {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// For any plan of Terraform: everything that passes was requested, and no effective change is omitted.
func TestFenceAcceptsOnlyNamedChanges(t *testing.T) {
	nodes := []string{control, "n1", "n2", "n3"}
	actions := []tfjson.Actions{
		{tfjson.ActionNoop}, {tfjson.ActionRead}, {tfjson.ActionCreate}, {tfjson.ActionUpdate}, {tfjson.ActionDelete},
		{tfjson.ActionDelete, tfjson.ActionCreate}, {tfjson.ActionCreate, tfjson.ActionDelete}, {tfjson.ActionForget},
		{"new"}, {},
	}
	rapid.Check(t, func(t *rapid.T) {
		ours := reconfigure.Plan{Shared: rapid.Bool().Draw(t, "shared"), Desired: map[string]reconfigure.Spec{}}
		for _, node := range nodes {
			if action := rapid.SampledFrom([]reconfigure.Action{"", reconfigure.Create, reconfigure.Replace,
				reconfigure.Remove, reconfigure.Reboot, reconfigure.Configure}).Draw(t, node); action != "" {
				ours.Changes = append(ours.Changes, reconfigure.Change{Node: node, Action: action})
			}
			if rapid.Bool().Draw(t, node+" is desired") {
				ours.Desired[node] = reconfigure.Spec{}
			}
		}
		theirs := &tfjson.Plan{}
		acting := map[string]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			address := rapid.SampledFrom(recorded.shared).Draw(t, "block")
			if node := rapid.SampledFrom(append(nodes, "")).Draw(t, "owner"); node != "" {
				address = instance(rapid.SampledFrom(recorded.perNode).Draw(t, "block"), node)
			}
			rc := &tfjson.ResourceChange{
				Address: address, Mode: tfjson.ManagedResourceMode,
				DeposedKey: rapid.SampledFrom([]string{"", "", "abcd"}).Draw(t, "deposed"),
				Change:     &tfjson.Change{Actions: rapid.SampledFrom(actions).Draw(t, "actions")},
			}
			theirs.ResourceChanges = append(theirs.ResourceChanges, rc)
			acting[address] = acting[address] || !rc.Change.Actions.NoOp() && !rc.Change.Actions.Read()
		}
		let, err := fence(theirs, ours, recorded)
		var refusal *reconfigure.Refusal
		if errors.As(err, &refusal) {
			let = nil
			for _, c := range refusal.Changes {
				delete(acting, c.Address)
			}
			if len(refusal.Changes) == 0 {
				t.Fatal("a refusal of nothing")
			}
			return
		}
		for _, c := range let {
			delete(acting, c.Address)
			asked, named := ours.Of(c.Node)
			if c.Node != "" && (!named ||
				!slices.Contains([]reconfigure.Action{reconfigure.Create, reconfigure.Replace, reconfigure.Remove},
					asked.Action)) {
				t.Errorf("accepted, though the plan does not name it: %+v", c)
			}
			if c.Node == "" && !ours.Shared || c.Effect == reconfigure.EffectUnknown {
				t.Errorf("let through: %+v", c)
			}
		}
		for address, acts := range acting {
			if acts {
				t.Errorf("%s acts, but the fence neither let it through nor refused it", address)
			}
		}
	})
}
