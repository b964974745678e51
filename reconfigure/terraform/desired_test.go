package terraform

import (
	"context"
	"errors"
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

// expectFile demands what an administrator's Terraform would be told.
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
	one.expectFile(t, nodeA) // to look changes nothing
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
	moved := NodeMap{one.Dir, keeper(t, t.TempDir())} // a journal that was used once
	noError(t, moved.Keeper.KeepNodes(t.Context(), "", nodeB))
	for name, m := range map[string]NodeMap{"of another journal": moved, "without a comment": other} {
		other.put(t, `{"nodes": {}}`)
		_, _, err := m.Read(t.Context())
		if stranger := (*strangerError)(nil); !errors.As(err, &stranger) || !strings.Contains(err.Error(), m.path()) ||
			!strings.Contains(err.Error(), m.Keeper.Name()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	noError(t, moved.Keeper.KeepNodes(t.Context(), "", nodeA)) // one that is up to date
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

// TestAnUnknownMapIsNotPlannedFrom has a second control host with a journal of its own, by mistake, and no file.
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
