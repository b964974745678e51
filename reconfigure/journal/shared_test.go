package journal

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func spec(group string) reconfigure.Spec {
	return reconfigure.Spec{Group: group, ImageID: "image", FlavorID: "flavor", NetworkID: "network"}
}

func nodesAreKept(t *testing.T, j *Journal) {
	want := func(want map[string]reconfigure.Spec, there bool) {
		t.Helper()
		got, ok, err := j.Nodes(t.Context())
		if d := cmp.Diff(want, got); d != "" || ok != there || err != nil {
			t.Errorf("%v, %v (-want +got):\n%s", ok, err, d)
		}
	}
	want(nil, false)
	one, two := map[string]reconfigure.Spec{"n1": spec("a")}, map[string]reconfigure.Spec{"n1": spec("b"), "n2": spec("a")}
	noError(t, j.AdoptNodes(t.Context(), one))
	want(one, true)
	noError(t, j.KeepNodes(t.Context(), "", two))
	want(two, true)
	noError(t, j.AdoptNodes(t.Context(), one)) // what is kept is newer
	want(two, true)
	shard := spec("b")
	shard.Shard = "b-1"
	noError(t, j.KeepNodes(t.Context(), "b-1", map[string]reconfigure.Spec{"n3": shard}))
	want(map[string]reconfigure.Spec{"n1": spec("b"), "n2": spec("a"), "n3": shard}, true)
	for name, wrong := range map[string]map[string]reconfigure.Spec{"of another shard": {"n4": shard}, "there already": {"n3": spec("b")}} {
		if err := j.KeepNodes(t.Context(), "", wrong); err == nil {
			t.Errorf("a node that is %s is kept", name)
		}
	}
	noError(t, j.KeepNodes(t.Context(), "", one))
	want(map[string]reconfigure.Spec{"n1": spec("a"), "n3": shard}, true)
	noError(t, j.KeepNodes(t.Context(), "b-1", nil))
	want(one, true)
	noError(t, j.KeepNodes(t.Context(), "", nil)) // no nodes are something else than an unknown map
	noError(t, j.AdoptNodes(t.Context(), one))
	want(map[string]reconfigure.Spec{}, true)
}

// shardsAreKeptSideBySide has many shards change their own parts of the map at once.
func shardsAreKeptSideBySide(t *testing.T, j *Journal) {
	const shards, times = 8, 5
	want := map[string]reconfigure.Spec{}
	var wait sync.WaitGroup
	for i := range shards {
		part := spec("a")
		part.Shard = fmt.Sprintf("a-%d", i)
		node := fmt.Sprintf("n%d", i)
		want[node] = part
		wait.Go(func() {
			for range times {
				for _, nodes := range []map[string]reconfigure.Spec{nil, {node: part}} {
					if err := j.KeepNodes(t.Context(), part.Shard, nodes); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	got, _, err := j.Nodes(t.Context())
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func hostKeysAreKept(t *testing.T, j *Journal) {
	want := func(want map[string][]string) {
		t.Helper()
		got, err := j.HostKeys(t.Context())
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
	}
	want(map[string][]string{})
	noError(t, j.KeepHostKeys(t.Context(), map[string][]string{"192.0.2.1": {"a", "b"}, "192.0.2.2": {"c"}}))
	noError(t, j.KeepHostKeys(t.Context(), map[string][]string{"192.0.2.1": {"d"}, "192.0.2.3": nil}))
	// What was forgotten is not to come back from somebody's file.
	noError(t, j.AdoptHostKeys(t.Context(), map[string][]string{"192.0.2.1": {"old"}, "192.0.2.3": {"old"}, "192.0.2.4": {"new"}}))
	want(map[string][]string{"192.0.2.1": {"d"}, "192.0.2.2": {"c"}, "192.0.2.3": {}, "192.0.2.4": {"new"}})

	if err := j.KeepHostKeys(t.Context(), map[string][]string{"": {"z"}, "192.0.2.5": {"y"}}); err == nil {
		t.Error("keys of no address were kept")
	}
	if got, err := j.HostKeys(t.Context()); len(got) != 4 || err != nil {
		t.Errorf("half of a write is there: %v, %v", got, err)
	}
}

func newestDeclaration(t *testing.T, j *Journal) {
	at := func(host, sum string, hour int) reconfigure.Declaration {
		return reconfigure.Declaration{Host: host, Sum: sum, Changed: time.Date(2026, 1, 1, hour, 0, 0, 1, time.UTC)}
	}
	for _, step := range []struct{ said, newest reconfigure.Declaration }{
		{at("a", "one", 1), at("a", "one", 1)},
		{at("b", "one", 2), at("a", "one", 1)}, // a copy
		{at("b", "two", 3), at("b", "two", 3)},
		{at("a", "one", 1), at("b", "two", 3)}, // out of date
		{at("a", "three", 3), at("b", "two", 3)},
		{at("a", "one", 4), at("a", "one", 4)}, // taken back
		{at("a", "two", 3), at("a", "two", 3)}, // from a backup
	} {
		got, err := j.Declare(t.Context(), step.said)
		if d := cmp.Diff(step.newest, got); d != "" || err != nil {
			t.Errorf("after %v: %v (-want +got):\n%s", step.said, err, d)
		}
	}
}

// BenchmarkKeepNodes and its neighbour are the cost of a batch's intent, and of an instance that has answered, in a large cluster.
func BenchmarkKeepNodes(b *testing.B) {
	both(b, func(b *testing.B, place places) {
		j, nodes := open(b, place(b)), map[string]reconfigure.Spec{}
		for i := range 4000 {
			nodes[fmt.Sprint("node", i)] = spec("standard")
		}
		for b.Loop() {
			noError(b, j.KeepNodes(b.Context(), "", nodes))
		}
	})
}

func BenchmarkKeepHostKeys(b *testing.B) {
	both(b, func(b *testing.B, place places) {
		j, many := open(b, place(b)), map[string][]string{}
		for i := range 4000 {
			many[fmt.Sprint("192.0.2.", i)] = []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIpIBPyqOgkM2XD5O5rIfkRy/kyCQjwPK9r2xHg0yCkC"}
		}
		noError(b, j.KeepHostKeys(b.Context(), many))
		for b.Loop() {
			noError(b, j.KeepHostKeys(b.Context(), map[string][]string{"192.0.2.1": {"ssh-ed25519 AAAA"}}))
		}
	})
}
