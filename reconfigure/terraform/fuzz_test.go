package terraform

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// FuzzFence compares any JSON as Terraform's plan with a plan of ours: everything that passes was requested, no
// effective change is omitted, and a refusal names a change.
func FuzzFence(f *testing.F) {
	for i, a := range asks {
		text, err := os.ReadFile(recordingFile(a.plan))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(acting(f, text), uint(i))
	}
	const head = `{"format_version":"1.2","terraform_version":"1.5.7",`
	for _, rest := range []string{
		`"resource_changes":[null],"deferred_changes":[null],"action_invocations":[null]}`,
		`"resource_changes":[{"address":"terraform_data.disk[\"n1\"]","mode":"managed","change":null}],` +
			`"prior_state":{"format_version":"1.0","values":{"root_module":{"resources":[null],"child_modules":[null]}}}}`,
		`"resource_changes":[{"address":"terraform_data.disk[\"n1\"]","mode":"managed","deposed":"abcd",` +
			`"change":{"actions":["delete","create"],"before":{"x":[1]},"after":{"x":null},"after_unknown":{"x":[{"y":true}]},` +
			`"replace_paths":[["x",0],[],7,null]}}]}`,
		`"resource_changes":[{"address":"module.x[\"n1\"].terraform_data.y[\"n2\"]","mode":"managed",` +
			`"previous_address":"a.b","change":{"actions":["forget"],"importing":{"id":"1"}}}]}`,
	} {
		f.Add([]byte(head+rest), uint(0))
	}
	f.Fuzz(func(t *testing.T, text []byte, which uint) {
		theirs := &tfjson.Plan{}
		if json.Unmarshal(text, theirs) != nil {
			return
		}
		checkFence(t, theirs, asks[which%uint(len(asks))].ours())
	})
}

// acting returns a recorded plan without changes that have no effect and without the values of attributes, so that more
// inputs run in a second.
func acting(f *testing.F, text []byte) []byte {
	f.Helper()
	var p tfjson.Plan
	if err := json.Unmarshal(text, &p); err != nil {
		f.Fatal(err)
	}
	p.ResourceChanges = slices.DeleteFunc(p.ResourceChanges, func(rc *tfjson.ResourceChange) bool {
		return rc.Change.Actions.NoOp()
	})
	for _, rc := range p.ResourceChanges {
		rc.Change.BeforeSensitive, rc.Change.AfterSensitive = nil, nil
		if !rc.Change.Actions.Update() {
			rc.Change.Before, rc.Change.After, rc.Change.AfterUnknown = nil, nil, nil
		}
	}
	if p.PriorState != nil && p.PriorState.Values != nil {
		root := p.PriorState.Values.RootModule
		root.Resources = slices.DeleteFunc(root.Resources, func(r *tfjson.StateResource) bool { return !r.Tainted })
	}
	short, err := json.Marshal(p)
	if err != nil {
		f.Fatal(err)
	}
	return short
}

// checkFence checks the fence's answer by separate, coarser rules: an address belongs to the nodes that it has in
// quotes.
func checkFence(t *testing.T, theirs *tfjson.Plan, ours reconfigure.Plan) []reconfigure.ResourceChange {
	t.Helper()
	changes, err := fence(theirs, ours, recorded)
	if err != nil {
		var refusal *reconfigure.Refusal
		if !errors.As(err, &refusal) || len(refusal.Changes) == 0 || len(changes) > 0 {
			t.Errorf("fence: changes %v, error %v", changes, err)
		}
		return nil
	}
	if len(theirs.DeferredChanges)+len(theirs.ActionInvocations) > 0 {
		t.Error("passed beside something deferred, or an action")
	}
	var does []string
	for _, rc := range theirs.ResourceChanges {
		if rc.Change.Actions.NoOp() || rc.Change.Actions.Read() {
			continue
		}
		does = append(does, rc.Address)
		if rc.Mode != tfjson.ManagedResourceMode || rc.Change.Importing != nil || !asked(theirs, rc, ours) {
			t.Errorf("passed: %q %s, with our %+v", rc.Change.Actions, rc.Address, ours)
		}
	}
	var passed []string
	for _, c := range changes {
		passed = append(passed, c.Address)
		if c.Effect == "" || c.Effect == reconfigure.EffectUnknown {
			t.Errorf("passed without a known effect: %+v", c)
		}
	}
	if diff := cmp.Diff(does, passed); diff != "" {
		t.Errorf("the effective changes are not those that passed:\n%s", diff)
	}
	return changes
}

var quotedName = regexp.MustCompile(`"([^"\\]*)"`)

// switches reports whether a change sets only the power state of an instance. A null attribute equals a missing one.
func switches(rc *tfjson.ResourceChange, on bool) bool {
	before, _ := rc.Change.Before.(map[string]any)
	after, _ := rc.Change.After.(map[string]any)
	before, after = maps.Clone(before), maps.Clone(after)
	to := after["power_state"]
	for _, values := range []map[string]any{before, after} {
		maps.DeleteFunc(values, func(name string, value any) bool { return value == nil || name == "power_state" })
	}
	return rc.Change.Actions.Update() && cmp.Equal(before, after, cmpopts.EquateEmpty()) && (to == "active") == on
}

// asked reports whether any action of our plan may lead to a change.
func asked(theirs *tfjson.Plan, rc *tfjson.ResourceChange, ours reconfigure.Plan) bool {
	actions := rc.Change.Actions
	if ours.Shared && len(ours.Desired) == 0 && actions.Delete() {
		return true // the whole cluster is removed
	}
	named := func(block string) bool { return strings.Contains(rc.Address, block) }
	if ours.Shared && !slices.ContainsFunc(recorded.perNode, named) {
		return true
	}
	for _, name := range quotedName.FindAllStringSubmatch(rc.Address, -1) {
		change, _ := ours.Of(name[1])
		switch {
		case change.Action == reconfigure.Replace,
			change.Action == reconfigure.Remove && actions.Delete(),
			change.Action == reconfigure.Create && actions.Create(),
			change.Action == reconfigure.Start && (actions.Create() || switches(rc, true)),
			change.Action == reconfigure.Stop && switches(rc, false),
			change.Action == reconfigure.Create && actions.Replace() && tainted(theirs)[rc.Address]:
			return true
		}
	}
	return false
}

// FuzzEvents parses any text as Terraform's output with -json, in one piece and in two. A plan from events must pass
// the fence as one from a file does. If a run ended in an error, only nodes of the run have failed, each with a
// message, and none that was completed.
func FuzzEvents(f *testing.F) {
	lines := func(all ...string) []byte { return []byte(strings.Join(all, "\n") + "\n") }
	f.Add(lines(v15, create, remove, replace, read, all), uint(0), 10)
	f.Add(lines(v15, strings.NewReplacer("a.b", "terraform_data.disk", "n1", "n4").Replace(create), one), uint(1), 0)
	f.Add(lines(v15, strings.NewReplacer("a.b", "terraform_data.disk", "n1", "n2").Replace(create), one), uint(1), 0)
	f.Add(lines(`{"type":"planned_change"}`, "null", "[]", `panic: x`), uint(0), 3)
	f.Add(lines(`{"type":"version","tofu":"1.12.0"}`, nothing), uint(0), 3)
	f.Add(lines(`{"type":"apply_start","hook":{"resource":{"addr":"i.a"},"action":"create"}}`,
		`{"type":"apply_complete","hook":{"resource":{"addr":"i.a"},"action":"create","elapsed_seconds":7}}`,
		`{"type":"apply_errored","hook":{"resource":{"addr":"i.b"},"action":"delete"}}`,
		`{"type":"diagnostic","diagnostic":{"severity":"error","summary":"no valid host","address":"i.a","detail":"x"}}`,
		`{"type":"diagnostic","diagnostic":{"severity":"error","summary":"execution halted"}}`), uint(0), 200)
	changes := []reconfigure.ResourceChange{
		{Address: "i.a", Node: "a", Effect: reconfigure.EffectCreate},
		{Address: "i.b", Node: "b", Effect: reconfigure.EffectDelete},
		{Address: "i.c", Node: "c", Effect: reconfigure.EffectReplace},
		{Address: "i.d", Node: "d", Effect: reconfigure.EffectRebuild},
		{Address: "p.a", Node: "a", Effect: reconfigure.EffectCreate},
		{Address: "group", Effect: reconfigure.EffectCreate},
	}
	f.Fuzz(func(t *testing.T, text []byte, which uint, cut int) {
		whole, parts := stream{class: classes}, stream{class: classes}
		cut = min(max(cut, 0), len(text))
		for _, part := range []struct {
			to   *stream
			text []byte
		}{{&whole, text}, {&parts, text[:cut]}, {&parts, text[cut:]}} {
			if n, err := part.to.Write(bytes.Clone(part.text)); n != len(part.text) || err != nil {
				t.Fatal(n, err)
			}
		}
		if !reflect.DeepEqual(whole.events, parts.events) {
			t.Errorf("in one piece: %+v\nin two: %+v", whole.events, parts.events)
		}
		for _, e := range whole.events {
			_ = progress(e)
		}
		if err := whole.explain(t.Context(), errKilled); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("a run that failed is explained by %q", err)
		}
		if theirs, ok := planned(whole.events); ok {
			count := 0
			for _, e := range whole.events {
				if e.Type == plannedChange {
					count++
				}
			}
			if len(theirs.ResourceChanges) != count {
				t.Errorf("%d of %d changes are in the plan", len(theirs.ResourceChanges), count)
			}
			checkFence(t, theirs, asks[which%uint(len(asks))].ours())
		}
		for name, judge := range map[string]func([]reconfigure.ResourceChange, []event) (reconfigure.Failures, bool){
			"failed": classes.verdicts, "interrupted": classes.cutOff,
		} {
			failures, all := judge(changes, whole.events)
			checkFailures(t, name, changes, whole.events, failures, all)
		}
	})
}

// checkFailures compares the failures of a run with the changes that its events report as complete.
func checkFailures(t *testing.T, run string, changes []reconfigure.ResourceChange, events []event,
	failures reconfigure.Failures, all bool,
) {
	t.Helper()
	undone := map[string]bool{}
	for _, c := range changes {
		done := map[string]bool{}
		for _, e := range events {
			if e.Type == applyComplete && e.Hook.Resource.Address == c.Address {
				done[e.Hook.Action] = true
			}
		}
		needed := map[reconfigure.Effect][]string{
			reconfigure.EffectCreate: {"create"}, reconfigure.EffectDelete: {"delete"},
			reconfigure.EffectReplace: {"create", "delete"}, reconfigure.EffectRebuild: {"update"},
		}[c.Effect]
		if slices.ContainsFunc(needed, func(action string) bool { return !done[action] }) {
			undone[c.Node] = true
		}
	}
	if all && run == "interrupted" && undone[""] {
		t.Errorf("%s: a shared resource is not done, and it is not said", run)
	}
	delete(undone, "")
	for node, err := range failures {
		if !undone[node] {
			t.Errorf("%s: %s is done, and failed: %v", run, node, err)
		}
		if err == nil || strings.TrimSpace(err.Error()) == "" {
			t.Errorf("%s: %s failed without a message", run, node)
		}
	}
	for node := range undone {
		if failures[node] == nil {
			t.Errorf("%s: %s is not done, and did not fail", run, node)
		}
	}
}

// FuzzState parses any text as Terraform's state, writes it, and parses it again: the resources, the addresses and the
// unknown fields must be the same.
func FuzzState(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "state.json"))
	if err != nil {
		f.Fatal(err)
	}
	var short bytes.Buffer
	if err := json.Compact(&short, text); err != nil {
		f.Fatal(err)
	}
	f.Add(short.Bytes())
	for _, seed := range []string{
		"", "null", "[]", `{"version":3}`, `{"version":4,"serial":-1}`, `{"version":4,"resources":[null]}`,
		`{"version":4,"serial":18446744073709551615,"resources":[{"mode":"managed","type":"openstack_networking_port_v2",` +
			`"name":"node","instances":[null,{"index_key":1,"attributes":null},{"index_key":"n1","deposed":"x"},` +
			`{"index_key":"n1","attributes":{"all_fixed_ips":["10.0.0.1","::1","x",""],"n":1e400}}]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseState(text)
		if err != nil {
			return
		}
		if len(s.top) == 0 {
			return // an empty state is never written
		}
		written, err := s.render()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := parseState(written)
		if err != nil {
			t.Fatalf("%s cannot be read: %v", written, err)
		}
		if s.serial != again.serial {
			t.Errorf("serial %d becomes %d", s.serial, again.serial)
		}
		if was, is := unknownFields(t, s.top), unknownFields(t, again.top); !reflect.DeepEqual(was, is) {
			t.Errorf("the fields %v become %v", was, is)
		}
		listed, there, err := parseList(text, kinds)
		twice, still, err2 := parseList(written, kinds)
		if there != still || (err == nil) != (err2 == nil) || !reflect.DeepEqual(listed, twice) {
			t.Errorf("resources, error %v, then %v:\n%s", err, err2, cmp.Diff(listed, twice))
		}
		found, err := portAddresses(s, kinds)
		twiceFound, err2 := portAddresses(again, kinds)
		if (err == nil) != (err2 == nil) || !reflect.DeepEqual(found, twiceFound) {
			t.Errorf("addresses %v, error %v, then %v, error %v", found, err, twiceFound, err2)
		}
		for node, address := range found {
			if ip, err := netip.ParseAddr(address); err != nil || !ip.Is4() || node == "" {
				t.Errorf("%q has the address %q", node, address)
			}
		}
	})
}

// unknownFields decodes the fields of a state that its reader does not know.
func unknownFields(t *testing.T, top fields) map[string]any {
	t.Helper()
	found := map[string]any{}
	for name, raw := range top {
		if name == "resources" || name == "serial" {
			continue
		}
		var value any
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber() // some do not fit into a float64
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		found[name] = value
	}
	return found
}
