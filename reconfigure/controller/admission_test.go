package controller

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// request asks for nodes by their names.
func request(id int, m reconfigure.Mode, nodes ...string) reconfigure.Request {
	return reconfigure.Request{ID: reconfigure.RequestID(id), Mode: m, Nodes: nodeset.Of(nodes...)}
}

// anyReady is for requests that are all ready.
func anyReady(reconfigure.Request) bool { return true }

// under returns the nodes of requests as under way.
func under(requests ...reconfigure.Request) busy {
	var b busy
	for _, r := range requests {
		b.nodes, b.alone = b.nodes.Union(r.Open()), b.alone || whole(r.Mode)
	}
	return b
}

func TestAdmit(t *testing.T) {
	const (
		resume, suspend = reconfigure.Resume, reconfigure.Suspend
		deploy, destroy = reconfigure.Deploy, reconfigure.Destroy
	)
	for name, tc := range map[string]struct {
		waiting []reconfigure.Request
		want    []reconfigure.RequestID
	}{
		"nothing": {nil, nil},
		"all of one mode go together, on the same node too": {
			[]reconfigure.Request{request(1, resume, "a", "b"), request(2, resume, "b"), request(3, resume, "c")},
			[]reconfigure.RequestID{1, 2, 3},
		},
		"modes mix on different nodes": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "b")}, []reconfigure.RequestID{1, 2},
		},
		"two modes on one node do not": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a"), request(3, resume, "b")},
			[]reconfigure.RequestID{1, 3},
		},
		"nobody overtakes on a node": {
			[]reconfigure.Request{
				request(1, resume, "a"), request(2, suspend, "a", "b"), request(3, resume, "b"), request(4, suspend, "b"),
				request(5, resume, "c"),
			},
			[]reconfigure.RequestID{1, 5},
		},
		"a waiting request blocks its nodes for later requests, and these block theirs": {
			[]reconfigure.Request{
				request(1, resume, "a"), request(2, suspend, "a", "b"), request(3, suspend, "b", "c"), request(4, suspend, "c"),
			},
			[]reconfigure.RequestID{1},
		},
		"the whole cluster goes alone": {
			[]reconfigure.Request{request(1, deploy), request(2, resume, "a"), request(3, deploy)}, []reconfigure.RequestID{1},
		},
		"and nobody overtakes it": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, destroy), request(3, resume, "b")},
			[]reconfigure.RequestID{1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(
				append([]reconfigure.RequestID{}, tc.want...), ids(admit(tc.waiting, busy{}, anyReady)),
			); diff != "" {
				t.Errorf("together (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdmitBesideWhatIsUnderWay(t *testing.T) {
	const (
		resume, suspend, update = reconfigure.Resume, reconfigure.Suspend, reconfigure.Update
		deploy, destroy, shrink = reconfigure.Deploy, reconfigure.Destroy, reconfigure.Shrink
	)
	passing := func(b busy) busy {
		b.pass = true
		return b
	}
	deferred := func(r reconfigure.Request, done ...string) reconfigure.Request {
		r.Deferred = []reconfigure.Deferral{{Node: r.Nodes.Names()[0], Kind: reconfigure.WaitsForJobs}}
		for _, node := range done {
			r.Verdicts = append(r.Verdicts, reconfigure.Verdict{Node: node})
		}
		return r
	}
	for name, tc := range map[string]struct {
		pending []reconfigure.Request
		under   busy
		due     bool // deferred requests are
		want    []reconfigure.RequestID
	}{
		"nodes of an operation are blocked for each mode": {
			pending: []reconfigure.Request{request(2, resume, "a"), request(3, suspend, "a"), request(4, resume, "b")},
			under:   under(request(1, resume, "a")), want: []reconfigure.RequestID{4},
		},
		"so are those of a request that waits for them": {
			pending: []reconfigure.Request{request(2, resume, "a", "b"), request(3, resume, "b"), request(4, resume, "c")},
			under:   under(request(1, resume, "a")), want: []reconfigure.RequestID{4},
		},
		"the whole cluster waits, and those behind it": {
			pending: []reconfigure.Request{request(2, resume, "b"), request(3, deploy), request(4, resume, "c")},
			under:   under(request(1, resume, "a")), want: []reconfigure.RequestID{2},
		},
		"nothing begins beside the whole cluster": {
			pending: []reconfigure.Request{request(2, resume, "b")}, under: under(request(1, deploy)),
		},
		"only resumes and suspends pass it, when they may": {
			pending: []reconfigure.Request{
				request(2, deploy), request(3, resume, "b"), request(4, update, "c"), request(5, suspend, "d"),
				request(6, resume, "c"), request(7, resume, "a"), request(8, deploy), request(9, resume, "e"),
			},
			under: passing(under(request(1, resume, "a"))), want: []reconfigure.RequestID{3, 5, 9},
		},
		"nothing passes it when nothing is under way": {
			pending: []reconfigure.Request{request(2, deploy), request(3, resume, "b")}, under: passing(busy{}),
			want: []reconfigure.RequestID{2},
		},
		"it does not begin beside those that pass another one": {
			pending: []reconfigure.Request{request(2, deploy), request(3, resume, "b"), request(4, deploy)},
			under:   passing(under(request(1, resume, "a"))), want: []reconfigure.RequestID{3},
		},
		"nothing passes a destroy": {
			pending: []reconfigure.Request{request(2, destroy), request(3, resume, "b")},
			under:   passing(under(request(1, resume, "a"))),
		},
		"a change of size that must be alone waits, and those behind it": {
			pending: []reconfigure.Request{request(2, resume, "b"), request(3, shrink, "c"), request(4, resume, "d")},
			under:   busy{nodes: nodeset.Of("a"), first: 3}, want: []reconfigure.RequestID{2},
		},
		"others pass it, but not on its nodes": {
			pending: []reconfigure.Request{request(3, shrink, "c"), request(4, resume, "d"), request(5, resume, "c")},
			under:   busy{nodes: nodeset.Of("a"), first: 3, pass: true}, want: []reconfigure.RequestID{4},
		},
		"it begins when nothing is under way, also if it is deferred": {
			pending: []reconfigure.Request{deferred(request(3, shrink, "c")), request(4, resume, "d")},
			under:   busy{first: 3}, want: []reconfigure.RequestID{3},
		},
		"a change of size is planned by itself": {
			pending: []reconfigure.Request{request(2, shrink, "b"), request(3, resume, "c")},
			under:   under(request(1, resume, "a")), want: []reconfigure.RequestID{2},
		},
		"and after those before it": {
			pending: []reconfigure.Request{
				request(2, resume, "b"), request(3, shrink, "c"), request(4, resume, "c"), request(5, resume, "d"),
			},
			want: []reconfigure.RequestID{2, 5},
		},
		"a deferred request keeps its nodes, and holds nobody else back": {
			pending: []reconfigure.Request{
				deferred(request(1, shrink, "a", "b"), "b"), request(2, resume, "a"), request(3, resume, "b"),
			},
			want: []reconfigure.RequestID{3},
		},
		"nor does one that waits for the whole cluster's turn": {
			pending: []reconfigure.Request{deferred(request(1, suspend, "a")), request(2, deploy)},
			want:    []reconfigure.RequestID{2},
		},
		"it is planned when it is due": {
			pending: []reconfigure.Request{deferred(request(1, suspend, "a")), request(2, resume, "b")}, due: true,
			want: []reconfigure.RequestID{1, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ready := func(r reconfigure.Request) bool { return tc.due || !r.IsDeferred() }
			if diff := cmp.Diff(
				append([]reconfigure.RequestID{}, tc.want...), ids(admit(tc.pending, tc.under, ready)),
			); diff != "" {
				t.Errorf("together (-want +got):\n%s", diff)
			}
		})
	}
}

func drawWaiting(t *rapid.T) []reconfigure.Request {
	modes := []reconfigure.Mode{
		reconfigure.Resume, reconfigure.Suspend, reconfigure.Resume, reconfigure.Suspend, reconfigure.Deploy,
		reconfigure.Destroy,
	}
	var waiting []reconfigure.Request
	for i := range rapid.IntRange(1, 12).Draw(t, "requests") {
		r := request(i+1, rapid.SampledFrom(modes).Draw(t, "mode"))
		if !whole(r.Mode) {
			r.Nodes = nodeset.Of(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 3).Draw(t, "nodes")...)
		}
		waiting = append(waiting, r)
	}
	return waiting
}

// meet reports whether two requests have a node in common.
func meet(a, b reconfigure.Request) bool {
	return whole(a.Mode) || whole(b.Mode) || !a.Nodes.Intersect(b.Nodes).Empty()
}

// Plans end in any order, and new ones begin beside those that are under way.
func TestRequestsForANodeAreCarriedOutInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waiting := drawWaiting(t)
		var plans [][]reconfigure.Request
		begun := map[reconfigure.RequestID]bool{}
		for len(waiting) > 0 {
			isUnder := ids(slices.Concat(plans...))
			rest := slices.DeleteFunc(slices.Clone(waiting), func(r reconfigure.Request) bool {
				return slices.Contains(isUnder, r.ID)
			})
			together := admit(rest, under(slices.Concat(plans...)...), anyReady)
			if len(plans) == 0 && (len(together) == 0 || together[0].ID != waiting[0].ID) {
				t.Fatalf("of %v the oldest is not among %v", waiting, together)
			}
			for i, r := range together {
				for _, other := range together[:i] {
					if meet(r, other) && (r.Mode != other.Mode || whole(r.Mode)) {
						t.Errorf("%+v and %+v are planned together", other, r)
					}
				}
				for _, other := range slices.Concat(plans...) {
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
				plans = append(plans, together)
			}
			if len(together) == 0 || rapid.Bool().Draw(t, "one ends") {
				i := rapid.IntRange(0, len(plans)-1).Draw(t, "which")
				waiting = slices.DeleteFunc(slices.Clone(waiting), func(r reconfigure.Request) bool {
					return slices.Contains(ids(plans[i]), r.ID)
				})
				plans = slices.Delete(plans, i, i+1)
			}
		}
	})
}

// A request that is only previewed has no id yet.
func TestARequestIsPreviewedWithThoseThatWait(t *testing.T) {
	waits, previewed := request(2, reconfigure.Resume, "n5"), request(0, reconfigure.Resume, "n6")
	if together := With([]reconfigure.Request{waits}, previewed); len(together) != 2 {
		t.Errorf("previewed together: %+v", together)
	}
}
