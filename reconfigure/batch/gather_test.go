package batch_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// request is a wish for nodes by their names.
func request(id int, m reconfigure.Mode, nodes ...string) reconfigure.Request {
	return reconfigure.Request{ID: reconfigure.RequestID(id), Mode: m, Nodes: nodeset.Of(nodes...)}
}

func ids(requests []reconfigure.Request) []reconfigure.RequestID {
	var all []reconfigure.RequestID
	for _, r := range requests {
		all = append(all, r.ID)
	}
	return all
}

func TestGather(t *testing.T) {
	const resume, suspend, deploy, destroy = reconfigure.Resume, reconfigure.Suspend, reconfigure.Deploy, reconfigure.Destroy
	for name, tc := range map[string]struct {
		waiting []reconfigure.Request
		want    []reconfigure.RequestID
	}{
		"nothing": {nil, nil},
		"all of one mode go together, on the same node too": {
			[]reconfigure.Request{request(1, resume, "a", "b"), request(2, resume, "b"), request(3, resume, "c")}, []reconfigure.RequestID{1, 2, 3},
		},
		"modes mix on different nodes": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "b")}, []reconfigure.RequestID{1, 2},
		},
		"two modes on one node do not": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a"), request(3, resume, "b")}, []reconfigure.RequestID{1, 3},
		},
		"nobody overtakes on a node": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a", "b"), request(3, resume, "b"), request(4, suspend, "b"), request(5, resume, "c")},
			[]reconfigure.RequestID{1, 5},
		},
		"who waits closes his nodes to those behind him, and they theirs": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a", "b"), request(3, suspend, "b", "c"), request(4, suspend, "c")},
			[]reconfigure.RequestID{1},
		},
		"the whole cluster goes alone": {
			[]reconfigure.Request{request(1, deploy), request(2, resume, "a"), request(3, deploy)}, []reconfigure.RequestID{1},
		},
		"and nobody overtakes it": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, destroy), request(3, resume, "b")}, []reconfigure.RequestID{1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ids(batch.Gather(tc.waiting, nil))); diff != "" {
				t.Errorf("batch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGatherBesideThoseUnderWay(t *testing.T) {
	const resume, suspend, deploy, shrink = reconfigure.Resume, reconfigure.Suspend, reconfigure.Deploy, reconfigure.Shrink
	held := func(r reconfigure.Request, settled ...string) reconfigure.Request {
		r.Held = true
		for _, node := range settled {
			r.Settled = append(r.Settled, reconfigure.Verdict{Node: node})
		}
		return r
	}
	for name, tc := range map[string]struct {
		waiting, flying []reconfigure.Request
		want            []reconfigure.RequestID
	}{
		"what is under way does not begin again": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, resume, "b")}, []reconfigure.Request{request(1, resume, "a")}, []reconfigure.RequestID{2},
		},
		"its nodes are closed, whatever is wanted of them": {
			[]reconfigure.Request{request(2, resume, "a"), request(3, suspend, "a"), request(4, resume, "b")}, []reconfigure.Request{request(1, resume, "a")}, []reconfigure.RequestID{4},
		},
		"so are those of who waits for them": {
			[]reconfigure.Request{request(2, resume, "a", "b"), request(3, resume, "b"), request(4, resume, "c")}, []reconfigure.Request{request(1, resume, "a")}, []reconfigure.RequestID{4},
		},
		"nodes that are settled are not": {
			[]reconfigure.Request{request(2, resume, "a"), request(3, resume, "b")}, []reconfigure.Request{held(request(1, suspend, "a", "b"), "b")}, []reconfigure.RequestID{3},
		},
		"the whole cluster waits, and those behind it": {
			[]reconfigure.Request{request(2, resume, "b"), request(3, deploy), request(4, resume, "c")}, []reconfigure.Request{request(1, resume, "a")}, []reconfigure.RequestID{2},
		},
		"a change of size waits, and those behind it": {
			[]reconfigure.Request{request(2, resume, "b"), request(3, shrink, "c"), request(4, resume, "d")}, []reconfigure.Request{request(1, resume, "a")}, []reconfigure.RequestID{2},
		},
		"also one that is held: else others would keep it waiting for ever": {
			[]reconfigure.Request{held(request(2, shrink, "b")), request(3, resume, "c")}, []reconfigure.Request{request(1, resume, "a")}, nil,
		},
		"a change of size under way keeps nobody waiting but for its nodes": {
			[]reconfigure.Request{held(request(1, shrink, "a")), request(2, resume, "a"), request(3, resume, "b")}, []reconfigure.Request{held(request(1, shrink, "a"))},
			[]reconfigure.RequestID{3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ids(batch.Gather(tc.waiting, tc.flying))); diff != "" {
				t.Errorf("batch (-want +got):\n%s", diff)
			}
		})
	}
}

func drawWaiting(t *rapid.T) []reconfigure.Request {
	modes := []reconfigure.Mode{reconfigure.Resume, reconfigure.Suspend, reconfigure.Resume, reconfigure.Suspend, reconfigure.Deploy, reconfigure.Destroy}
	var waiting []reconfigure.Request
	for i := range rapid.IntRange(1, 12).Draw(t, "requests") {
		r := request(i+1, rapid.SampledFrom(modes).Draw(t, "mode"))
		if !whole(r) {
			r.Nodes = nodeset.Of(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 3).Draw(t, "nodes")...)
		}
		waiting = append(waiting, r)
	}
	return waiting
}

func whole(r reconfigure.Request) bool {
	return r.Mode == reconfigure.Deploy || r.Mode == reconfigure.Destroy
}

// meet tells whether two requests have anything to do with one another.
func meet(a, b reconfigure.Request) bool {
	return whole(a) || whole(b) || !a.Nodes.Intersect(b.Nodes).Empty()
}

// Batches end in any order, and new ones begin beside those that are under way.
func TestGatheringAgainAndAgainEndsAllInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waiting := drawWaiting(t)
		var flights [][]reconfigure.Request
		begun := map[reconfigure.RequestID]bool{}
		for len(waiting) > 0 {
			together := batch.Gather(waiting, slices.Concat(flights...))
			if len(flights) == 0 && (len(together) == 0 || together[0].ID != waiting[0].ID) {
				t.Fatalf("of %v the oldest is not among %v", waiting, together)
			}
			for i, r := range together {
				for _, other := range together[:i] {
					if meet(r, other) && (r.Mode != other.Mode || whole(r)) {
						t.Errorf("%+v and %+v are in one batch", other, r)
					}
				}
				for _, other := range slices.Concat(flights...) {
					if meet(r, other) {
						t.Errorf("%+v begins beside %+v", r, other)
					}
				}
				begun[r.ID] = true
			}
			for i, r := range waiting {
				if !slices.Contains(ids(together), r.ID) {
					continue
				}
				for _, earlier := range waiting[:i] {
					if meet(earlier, r) && !begun[earlier.ID] {
						t.Errorf("%+v overtakes %+v", r, earlier)
					}
				}
			}
			if len(together) > 0 {
				flights = append(flights, together)
			}
			if len(together) == 0 || rapid.Bool().Draw(t, "one lands") {
				i := rapid.IntRange(0, len(flights)-1).Draw(t, "which")
				waiting = slices.DeleteFunc(slices.Clone(waiting), func(r reconfigure.Request) bool { return slices.Contains(ids(flights[i]), r.ID) })
				flights = slices.Delete(flights, i, i+1)
			}
		}
	})
}
