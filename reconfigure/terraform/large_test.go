package terraform

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// largeShard returns a driver whose local state has n nodes with instances and ports, with many attributes, and their
// map.
func largeShard(tb testing.TB, n int) (*Driver, map[string]reconfigure.Spec) {
	tb.Helper()
	dir, padding := tb.TempDir(), map[string]any{}
	for i := range 40 {
		padding[fmt.Sprintf("attribute_%02d", i)] = []any{map[string]any{"a": "some text", "b": i}}
	}
	with := func(more map[string]any) map[string]any {
		all := map[string]any{}
		for _, some := range []map[string]any{padding, more} {
			for key, value := range some {
				all[key] = value
			}
		}
		return all
	}
	var instances, ports []any
	nodes := map[string]reconfigure.Spec{}
	for i := range n {
		name := fmt.Sprintf("node%04d", i)
		instances = append(instances, map[string]any{"index_key": name, "attributes": with(map[string]any{
			"id": "server-" + name, "image_id": "i", "flavor_id": "f", "metadata": map[string]any{"eiffel_group": "g"},
			"network": []any{map[string]any{"uuid": "net", "fixed_ip_v4": "10.0.0.1", "port": "port-" + name}},
		})})
		ports = append(ports, map[string]any{"index_key": name, "attributes": with(map[string]any{"id": "port-" + name})})
		nodes[name] = reconfigure.Spec{Group: "g", ImageID: "i", FlavorID: "f", NetworkID: "net"}
	}
	text, err := json.MarshalIndent(map[string]any{"version": 4, "serial": 1, "resources": []any{
		map[string]any{"mode": "managed", "type": kinds.Port, "name": "node", "instances": ports},
		map[string]any{"mode": "managed", "type": kinds.Instance, "name": "node", "instances": instances},
	}}, "", "  ")
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "terraform.tfstate"), text, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "terraform", "openstack"))); err != nil {
		tb.Fatal(err)
	}
	return &Driver{cfg: Config{Dir: dir, Module: kinds, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}}, nodes
}

// TestLargeStatesAreReadCheaply counts allocations for each node: `status` reads thousands of them.
func TestLargeStatesAreReadCheaply(t *testing.T) {
	const n, most = 200, 120
	d, nodes := largeShard(t, n)
	var state reconfigure.State
	allocations := testing.AllocsPerRun(3, func() {
		var err error
		if state, err = d.StateOf(t.Context(), nodes, true); err != nil {
			t.Fatal(err)
		}
	})
	want := reconfigure.Instance{
		Node: "node0007", ID: "server-node0007", Address: "10.0.0.1", Made: nodes["node0007"],
	}
	if diff := cmp.Diff(want, state.Instances["node0007"]); diff != "" || len(state.Instances) != n {
		t.Errorf("%d instances\n%s", len(state.Instances), diff)
	}
	if len(state.Ports) != n || state.Ports["node0007"] != "port-node0007" {
		t.Errorf("%d ports, %q", len(state.Ports), state.Ports["node0007"])
	}
	if of := allocations / n; of > most {
		t.Errorf("%.0f allocations for each node, more than %d", of, most)
	} else {
		t.Logf("%.0f allocations for each node", of)
	}
}

func TestTheRootModuleIsParsedOnceUntilItChanges(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`resource "x" "y" { for_each = var.nodes }`)
	read := func() module {
		t.Helper()
		m, err := readModule(dir)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	read()
	if again := testing.AllocsPerRun(5, func() { read() }); again > 50 {
		t.Errorf("%.0f allocations for files that have not changed", again)
	}
	write(`resource "x" "z" { for_each = var.nodes }`) // as long as before
	if m := read(); len(m.perNode) != 1 || m.perNode[0] != "x.z" {
		t.Errorf("after a change: %v", m.perNode)
	}
}

func BenchmarkStateOf(b *testing.B) {
	d, nodes := largeShard(b, 32)
	for b.Loop() {
		if _, err := d.StateOf(b.Context(), nodes, true); err != nil {
			b.Fatal(err)
		}
	}
}
