package terraform

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"
)

// The lines are from Terraform 1.5.7, without the unused fields.
const (
	v15    = `{"type":"version","terraform":"1.5.7","ui":"1.1"}`
	create = `{"type":"planned_change","change":{"action":"create","resource":` +
		`{"addr":"a.b[\"n1\"]","module":"","resource":"a.b[\"n1\"]","resource_type":"a","resource_name":"b"}}}`
	remove = `{"type":"planned_change","change":{"action":"delete","reason":"delete_because_each_key","resource":` +
		`{"addr":"a.b[\"n0\"]","module":"","resource":"a.b[\"n0\"]","resource_type":"a","resource_name":"b"}}}`
	replace = `{"type":"planned_change","change":{"action":"replace","reason":"tainted","resource":` +
		`{"addr":"a.c","module":"","resource":"a.c","resource_type":"a","resource_name":"c"}}}`
	read = `{"type":"planned_change","change":{"action":"read","resource":{"addr":"module.m.data.d.e",` +
		`"module":"module.m","resource":"data.d.e","resource_type":"d","resource_name":"e"}}}`
	all     = `{"type":"change_summary","changes":{"add":2,"change":0,"import":0,"remove":2,"operation":"plan"}}`
	one     = `{"type":"change_summary","changes":{"add":1,"change":0,"import":0,"remove":0,"operation":"plan"}}`
	nothing = `{"type":"change_summary","changes":{"add":0,"change":0,"import":0,"remove":0,"operation":"plan"}}`
	updated = `{"type":"change_summary","changes":{"add":0,"change":1,"import":0,"remove":0,"operation":"plan"}}`
	renewed = `{"type":"change_summary","changes":{"add":1,"change":0,"import":0,"remove":1,"operation":"plan"}}`
)

func eventsOf(t *testing.T, lines ...string) []event {
	t.Helper()
	var s stream
	for _, line := range lines {
		if _, err := s.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	return s.events
}

func TestPlanIsReadFromEvents(t *testing.T) {
	refresh, outputs := `{"type":"refresh_start"}`, `{"type":"outputs"}`
	p, ok := planned(eventsOf(t, v15, refresh, create, replace, read, remove, all, outputs))
	if !ok {
		t.Fatal("the events are said not to suffice")
	}
	want := []*tfjson.ResourceChange{
		{
			Address: `a.b["n0"]`, Mode: "managed", Type: "a", Name: "b",
			Change: &tfjson.Change{Actions: tfjson.Actions{"delete"}},
		},
		{
			Address: `a.b["n1"]`, Mode: "managed", Type: "a", Name: "b",
			Change: &tfjson.Change{Actions: tfjson.Actions{"create"}},
		},
		{
			Address: "a.c", Mode: "managed", Type: "a", Name: "c",
			ActionReason: tfjson.ActionReasonReplaceBecauseTainted,
			Change:       &tfjson.Change{Actions: tfjson.Actions{"delete", "create"}},
		},
		{
			Address: "module.m.data.d.e", ModuleAddress: "module.m", Mode: "data", Type: "d", Name: "e",
			Change: &tfjson.Change{Actions: tfjson.Actions{"read"}},
		},
	}
	if diff := cmp.Diff(want, p.ResourceChanges); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"a.c": true}, tainted(p)); diff != "" {
		t.Error(diff)
	}
}

func TestEventsThatDoNotSufficeAreNotUsed(t *testing.T) {
	change := func(rest string) string {
		return `{"type":"planned_change","change":{"resource":{"addr":"a.b","resource":"a.b"},` + rest + `}}`
	}
	for name, lines := range map[string][]string{
		"no version":                  {create, one},
		"a version with actions":      {`{"type":"version","terraform":"1.14.0"}`, create, one},
		"an unknown program":          {`{"type":"version"}`, create, one},
		"no summary":                  {v15, create},
		"more than was told of":       {v15, create, all},
		"less than was told of":       {v15, create, create, one},
		"an event of a later version": {v15, create, one, `{"type":"planned_action"}`},
		"an update":                   {v15, change(`"action":"update"`), updated},
		"a replacement for an attribute's sake": {
			v15, change(`"action":"replace","reason":"cannot_update"`), renewed,
		},
		"a move":                      {v15, change(`"action":"create","previous_resource":{"addr":"a.c"}`), one},
		"an import":                   {v15, change(`"action":"create","importing":{"id":"1"}`), one},
		"an unknown action":           {v15, change(`"action":"forget"`), nothing},
		"a read that is a resource's": {v15, change(`"action":"read"`), nothing},
	} {
		if p, ok := planned(eventsOf(t, lines...)); ok {
			t.Errorf("%s: taken for %+v", name, p.ResourceChanges)
		}
	}
	for _, version := range []string{`"terraform":"1.13.4"`, `"tofu":"1.12.6"`, `"terraform":"1.13.0-beta1"`} {
		if _, ok := planned(eventsOf(t, `{"type":"version",`+version+`}`, create, one)); !ok {
			t.Errorf("%s is said not to be known", version)
		}
	}
}
