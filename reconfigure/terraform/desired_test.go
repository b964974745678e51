package terraform

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

var (
	nodeA = map[string]reconfigure.Spec{"a": {Group: "g", ImageID: "i", FlavorID: "f", NetworkID: "n"}}
	nodeB = map[string]reconfigure.Spec{"b": {Group: "g", ImageID: "i", FlavorID: "f", NetworkID: "n"}}
)

// hosts is the root modules of two control hosts with one journal.
func hosts(t *testing.T) (one, other NodeMap) {
	t.Helper()
	kept := keeper(t, t.TempDir())
	return NodeMap{Dir: t.TempDir(), Keeper: kept}, NodeMap{Dir: t.TempDir(), Keeper: kept}
}

func (m NodeMap) expect(t *testing.T, want map[string]reconfigure.Spec, wantKnown bool) {
	t.Helper()
	got, known, err := m.Read(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || known != wantKnown || err != nil {
		t.Errorf("%v, %v (-want +got):\n%s", known, err, diff)
	}
}

// expectFile checks the file that an administrator's Terraform would read.
func (m NodeMap) expectFile(t *testing.T, want map[string]reconfigure.Spec) {
	t.Helper()
	got, there, err := m.read()
	if diff := cmp.Diff(want, got.Nodes); diff != "" || !there || err != nil {
		t.Errorf("%v, %v (-want +got):\n%s", there, err, diff)
	}
}

func (m NodeMap) put(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(m.path(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// putOlder writes the file in the form of older versions, which had the nodes of all shards in it.
func (m NodeMap) putOlder(t *testing.T, all map[string]reconfigure.Spec, comment string, known shared) {
	t.Helper()
	noError(t, os.RemoveAll(filepath.Join(m.Dir, shardFolder)))
	older := newFile(all)
	older.Comment, older.Shared = comment, known
	noError(t, writeFile(m.path(), older))
}

// expectShards checks the files of the shards.
func (m NodeMap) expectShards(t *testing.T, want map[string]map[string]reconfigure.Spec) {
	t.Helper()
	got := map[string]map[string]reconfigure.Spec{}
	others, err := m.shardsWithFile()
	noError(t, err)
	for _, shard := range append(others, reconfigure.DefaultShard) {
		f, there, err := m.readFile(shard)
		if err != nil || !there {
			t.Errorf("the file of shard %q: %v, %v", shard, there, err)
		}
		got[shard] = f.all()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the files of the shards (-want +got):\n%s", diff)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOneMapForAllControlHosts(t *testing.T) {
	one, other := hosts(t)
	one.expect(t, map[string]reconfigure.Spec{}, false)
	for _, nodes := range []map[string]reconfigure.Spec{nodeA, nodeB, {}} {
		noError(t, one.keep(t.Context(), "", nodes, shared{}))
		one.expectFile(t, nodes)
		other.expect(t, nodes, true)
		noError(t, other.Adopt(t.Context()))
		other.expectFile(t, nodes)
		one, other = other, one
	}
	noError(t, one.keep(t.Context(), "", nil, shared{}))
	other.expect(t, map[string]reconfigure.Spec{}, true)
}

func TestAnUpToDateFileIsNotWritten(t *testing.T) {
	one, _ := hosts(t)
	noError(t, one.keep(t.Context(), "", nodeA, shared{}))
	before, err := os.Stat(one.path())
	noError(t, err)
	one.expect(t, nodeA, true)
	noError(t, one.Adopt(t.Context()))
	after, err := os.Stat(one.path())
	noError(t, err)
	if !os.SameFile(before, after) {
		t.Error("the file was written again")
	}
}

var (
	inShard = map[string]map[string]reconfigure.Spec{
		"":    {"ctl": {Group: "control", ImageID: "i", FlavorID: "f", NetworkID: "n"}},
		"g-0": {"a": {Group: "g", ImageID: "i", FlavorID: "f", NetworkID: "n", Shard: "g-0"}},
		"g-1": {"b": {Group: "g", NetworkID: "n", Shard: "g-1"}},
	}
	secured = shared{"group"}
)

// ofAllShards returns the whole map of nodes.
func ofAllShards(parts map[string]map[string]reconfigure.Spec) map[string]reconfigure.Spec {
	all := map[string]reconfigure.Spec{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

func TestEachShardHasAFile(t *testing.T) {
	one, other := hosts(t)
	want := maps.Clone(inShard)
	for shard, nodes := range want {
		noError(t, one.keep(t.Context(), shard, nodes, secured))
	}
	one.expectShards(t, want)
	one.expect(t, ofAllShards(want), true)
	before, err := os.Stat(one.pathOf("g-0"))
	noError(t, err)

	noError(t, other.Adopt(t.Context()))
	other.expectShards(t, want)
	want["g-1"] = map[string]reconfigure.Spec{} // it stays, so that a plan by hand is empty
	noError(t, other.keep(t.Context(), "g-1", nil, shared{"another"}))
	other.expectShards(t, want)
	noError(t, one.Adopt(t.Context()))
	one.expectShards(t, want)
	one.Keeper = nil
	one.expect(t, ofAllShards(want), true)
	after, err := os.Stat(one.pathOf("g-0"))
	noError(t, err)
	if !os.SameFile(before, after) {
		t.Error("the file of another shard was written again")
	}
	for host, want := range map[NodeMap]shared{one: secured, other: {"another"}} {
		if f, _, err := host.readFile(""); f.Shared != want || err != nil {
			t.Errorf("shared values %v, %v, want %v", f.Shared, err, want)
		}
	}
}

// TestAFileOfAllShardsIsDivided kills a process that divides the file, at each possible moment.
func TestAFileOfAllShardsIsDivided(t *testing.T) {
	all := ofAllShards(inShard)
	for name, comment := range map[string]func(NodeMap) string{
		"of the journal":      NodeMap.comment,
		"without one":         func(NodeMap) string { return "" },
		"of a former journal": func(NodeMap) string { return "Made by reconfigure from elsewhere" },
	} {
		for _, written := range [][]string{{}, {"g-1"}, {"g-1", "g-0"}, {"g-1", "g-0", ""}} {
			m, _ := hosts(t)
			m.putOlder(t, all, comment(m), secured)
			for _, shard := range written {
				f := newFile(inShard[shard])
				f.Comment = m.comment()
				if shard == "" {
					f.Shared = secured
				}
				noError(t, writeFile(m.pathOf(shard), f))
			}
			if name == "of the journal" {
				noError(t, m.Keeper.AdoptNodes(t.Context(), all))
			}
			m.expect(t, all, true)
			noError(t, m.Adopt(t.Context()))
			m.expect(t, all, true)
			m.expectShards(t, inShard)
			if f, _, err := m.readFile(""); f.Shared != secured || err != nil {
				t.Errorf("%s, after %q: shared values %v, %v", name, written, f.Shared, err)
			}
			if kept, known, err := m.Keeper.Nodes(t.Context()); !maps.Equal(kept, all) || !known || err != nil {
				t.Errorf("%s, after %q: the stored map is %v, %v, %v", name, written, kept, known, err)
			}
		}
	}
}

// TestTheOlderFileIsTheLastToBeDivided uses a file that cannot be written: the nodes of its shard stay in the older
// file.
func TestTheOlderFileIsTheLastToBeDivided(t *testing.T) {
	for name, change := range map[string]func(NodeMap) error{
		"adopt": func(m NodeMap) error { return m.Adopt(t.Context()) },
		"keep":  func(m NodeMap) error { return m.keep(t.Context(), "g-1", inShard["g-1"], secured) },
	} {
		m, _ := hosts(t)
		all := ofAllShards(inShard)
		m.putOlder(t, all, m.comment(), secured)
		noError(t, m.Keeper.AdoptNodes(t.Context(), all))
		noError(t, os.MkdirAll(m.pathOf("g-0"), 0o755)) // a folder cannot be replaced by a file
		if err := change(m); err == nil || !strings.Contains(err.Error(), m.pathOf("g-0")) {
			t.Errorf("%s: %v", name, err)
		}
		if f, _, err := m.readFile(""); !maps.Equal(f.all(), all) || err != nil {
			t.Errorf("%s: the older file has %v, %v", name, f.all(), err)
		}
		noError(t, os.Remove(m.pathOf("g-0")))
		noError(t, change(m))
		m.expectShards(t, inShard)
	}
}

// TestALostFileIsNoRemoval uses a journal without a map, and a shard whose file was not restored from a backup.
func TestALostFileIsNoRemoval(t *testing.T) {
	m, _ := hosts(t)
	for shard, nodes := range inShard {
		noError(t, writeFile(m.pathOf(shard), newFile(nodes)))
	}
	state := filepath.Join(m.Dir, stateFolder, "g-0", "terraform.tfstate")
	noError(t, os.MkdirAll(filepath.Dir(state), 0o755))
	noError(t, os.WriteFile(state, []byte(`{"version": 4, "resources": [{"mode": "managed", "type": "t", "name": "node",
		"instances": [{"index_key": "a", "attributes": {}}]}]}`), 0o600))
	m.expect(t, ofAllShards(inShard), true)
	noError(t, os.Remove(m.pathOf("g-0")))
	var unknown *unknownError
	if err := m.Adopt(t.Context()); !errors.As(err, &unknown) || unknown.nodes != 1 ||
		!strings.Contains(err.Error(), m.pathOf("g-0")) {
		t.Errorf("%v", err)
	}
	if _, known, err := m.Keeper.Nodes(t.Context()); known || err != nil {
		t.Errorf("a map is stored: %v, %v", known, err)
	}
	noError(t, os.WriteFile(state, []byte(`{"version": 4, "resources": []}`), 0o600)) // all nodes were removed
	without := maps.Clone(inShard)
	delete(without, "g-0")
	m.expect(t, ofAllShards(without), true)
}

// deadHost is a Keeper whose process is killed as soon as the map is kept.
type deadHost struct{ Keeper }

var errKilledHere = errors.New("killed")

func (d deadHost) KeepNodes(ctx context.Context, shard string, nodes map[string]reconfigure.Spec) error {
	return errors.Join(d.Keeper.KeepNodes(ctx, shard, nodes), errKilledHere)
}

func TestTheStoredMapCountsIfTheFileIsOlder(t *testing.T) {
	one, other := hosts(t)
	noError(t, one.keep(t.Context(), "", nodeA, shared{}))
	dying := NodeMap{one.Dir, deadHost{one.Keeper}}
	if err := dying.keep(t.Context(), "", nodeB, shared{}); !errors.Is(err, errKilledHere) {
		t.Fatal(err)
	}
	one.expectFile(t, nodeA)
	other.expect(t, nodeB, true)
	one.expect(t, nodeB, true)
	one.expectFile(t, nodeA) // a read changes nothing
	noError(t, one.Adopt(t.Context()))
	one.expectFile(t, nodeB)
}

func TestAMapFromBeforeThereWasAKeeperIsAdopted(t *testing.T) {
	one, other := hosts(t)
	noError(t, one.Adopt(t.Context())) // there is nothing
	one.put(t, `{"nodes": {"a": {"group": "g", "image_id": "i", "flavor_id": "f", "network_id": "n"}}}`)
	one.expect(t, nodeA, true)
	other.expect(t, map[string]reconfigure.Spec{}, false)
	noError(t, one.Adopt(t.Context()))
	other.expect(t, nodeA, true)
	noError(t, other.keep(t.Context(), "", nodeB, shared{}))
	one.put(t, `{"nodes": {"a": {"group": "g", "image_id": "i", "flavor_id": "f", "network_id": "n"}}}`)
	noError(t, one.Adopt(t.Context())) // too late
	other.expect(t, nodeB, true)
}

func TestWithoutAKeeperTheFileIsRead(t *testing.T) {
	one, _ := hosts(t)
	noError(t, one.keep(t.Context(), "", nodeA, shared{}))
	one.Keeper = nil
	one.expect(t, nodeA, true)
}

func TestAFileFromAnotherJournalIsAnError(t *testing.T) {
	one, other := hosts(t)
	noError(t, one.keep(t.Context(), "", nodeA, shared{}))
	moved := NodeMap{one.Dir, keeper(t, t.TempDir())} // a journal with an old map
	noError(t, moved.Keeper.KeepNodes(t.Context(), "", nodeB))
	for name, m := range map[string]NodeMap{"of another journal": moved, "without a comment": other} {
		other.put(t, `{"nodes": {}}`)
		_, _, err := m.Read(t.Context())
		if stranger := (*strangerError)(nil); !errors.As(err, &stranger) || !strings.Contains(err.Error(), m.path()) ||
			!strings.Contains(err.Error(), m.Keeper.Name()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	noError(t, moved.Keeper.KeepNodes(t.Context(), "", nodeA)) // a map that is up to date
	moved.expect(t, nodeA, true)
	noError(t, os.Remove(other.path()))
	other.expect(t, nodeA, true)
}

func TestAForeignMapOfNodesIsNotOverwritten(t *testing.T) {
	for name, text := range map[string]string{
		"another variable":  `{"nodes": {}, "cluster_file": "x"}`,
		"another attribute": `{"nodes": {"n1": {"user_data": "x"}}}`, "no map": `{}`, "null": `{"nodes": null}`,
		"truncated": `{"nodes": {`,
	} {
		m, _ := hosts(t)
		noError(t, m.Keeper.KeepNodes(t.Context(), "", nodeA))
		m.put(t, text)
		if got, _, err := m.Read(t.Context()); err == nil || !strings.Contains(err.Error(), m.path()) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if err := m.Adopt(t.Context()); err == nil || !strings.Contains(err.Error(), m.path()) {
			t.Errorf("%s is adopted: %v", name, err)
		}
	}
}

// TestAnUnknownMapIsNotPlannedFrom uses a second control host that has, by mistake, a separate journal and no file.
func TestAnUnknownMapIsNotPlannedFrom(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	c.deploy(d, c.deployed("node01"))
	c.wantClean(d)
	text, err := os.ReadFile(d.nodes().path())
	c.must(err)
	c.must(os.Remove(d.nodes().path()))
	c.cfg.Keeper = keeper(t, filepath.Join(c.dir, "second"))
	second := c.open()
	var unknown *unknownError
	if _, err := second.Instances(t.Context()); !errors.As(err, &unknown) || unknown.nodes != 2 ||
		!strings.Contains(err.Error(), d.nodes().path()) {
		t.Errorf("%v", err)
	}
	d.nodes().put(t, string(text))
	if seen, err := second.Instances(t.Context()); len(seen) != 2 || err != nil {
		t.Errorf("with the file: %v, %v", seen, err)
	}
}
