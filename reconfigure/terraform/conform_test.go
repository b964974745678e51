package terraform

import (
	"testing"

	tfjson "github.com/hashicorp/terraform-json"
)

func TestAStateConformsToTheSchema(t *testing.T) {
	attributes := func(names ...string) map[string]*tfjson.SchemaAttribute {
		all := map[string]*tfjson.SchemaAttribute{}
		for _, name := range names {
			all[name] = &tfjson.SchemaAttribute{}
		}
		return all
	}
	kinds := map[string]*tfjson.Schema{"server": {Block: &tfjson.SchemaBlock{
		Attributes: attributes("id", "metadata"),
		NestedBlocks: map[string]*tfjson.SchemaBlockType{
			"network":  {Block: &tfjson.SchemaBlock{Attributes: attributes("port")}},
			"timeouts": {Block: &tfjson.SchemaBlock{Attributes: attributes("create")}},
		},
	}}}
	state, err := parseState([]byte(`{"version": 4, "serial": 7, "lineage": "x", "resources": [
{"mode": "managed", "type": "server", "name": "node", "instances": [{"index_key": "n1", "private": "p", "attributes":
  {"id": "1", "old": true, "metadata": {"old": "1"}, "timeouts": null, "network": [{"port": "p", "old": 1.50}]}}]},
{"mode": "managed", "type": "other", "name": "node", "instances": [{"attributes": {"old": 1}}]},
{"mode": "data", "type": "server", "name": "read", "instances": [{"attributes": {"old": 1}}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := state.conform(kinds); err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{
		`{"id":"1","metadata":{"old":"1"},"network":[{"port":"p"}],"timeouts":null}`, `{"old": 1}`, `{"old": 1}`,
	} {
		if got := string(state.resources[n].instances[0]["attributes"]); got != want {
			t.Errorf("attributes of resource %d: %s, not %s", n, got, want)
		}
	}
	if key := state.resources[0].instances[0]; key.text("index_key") != "n1" || key.text("private") != "p" {
		t.Errorf("the instance became %s", key)
	}
}
