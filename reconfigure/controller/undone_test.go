package controller

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestUndone(t *testing.T) {
	const resume, suspend, update, deploy = reconfigure.Resume, reconfigure.Suspend, reconfigure.Update, reconfigure.Deploy
	type by = map[reconfigure.RequestID]reconfigure.RequestID
	touched := request(1, resume, "a")
	touched.Touched = true
	putOff := request(1, resume, "a")
	putOff.Deferred = []reconfigure.Deferral{
		{Request: 1, Kind: reconfigure.CannotPlan, Reason: "the cloud does not answer"},
	}
	anna := request(2, suspend, "a")
	anna.Caller = "anna"
	settled := request(2, suspend, "a", "b")
	settled.Verdicts = []reconfigure.Verdict{{Node: "a"}}
	for name, tc := range map[string]struct {
		waiting []reconfigure.Request
		want    by
	}{
		"nothing":        {nil, nil},
		"a resume alone": {[]reconfigure.Request{request(1, resume, "a")}, nil},
		"a resume, then a suspend": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a")}, by{1: 2},
		},
		"a suspend of more than that": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a", "b")}, by{1: 2},
		},
		"a suspend of a part": {
			[]reconfigure.Request{request(1, resume, "a", "b"), request(2, suspend, "a")}, nil,
		},
		"suspends of a part each": {
			[]reconfigure.Request{request(1, resume, "a", "b"), request(2, suspend, "a"), request(3, suspend, "b")}, nil,
		},
		"a part, and then all": {
			[]reconfigure.Request{request(1, resume, "a", "b"), request(2, suspend, "a"), request(3, suspend, "a", "b")}, nil,
		},
		"several resumes": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, resume, "b"), request(3, suspend, "a", "b")},
			by{1: 3, 2: 3},
		},
		"the same resume twice": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, resume, "a"), request(3, suspend, "a")}, by{1: 3, 2: 3},
		},
		"one that stays in between": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, resume, "a", "b"), request(3, suspend, "a")}, by{1: 3},
		},
		"the first of two suspends": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a"), request(3, suspend, "a")}, by{1: 2},
		},
		"a suspend, then a resume": {[]reconfigure.Request{request(1, suspend, "a"), request(2, resume, "a")}, nil},
		"and another resume": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a"), request(3, resume, "a")}, by{1: 2},
		},
		"an update in between": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, update, "a"), request(3, suspend, "a")}, nil,
		},
		"an update of another node": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, update, "b"), request(3, suspend, "a")}, by{1: 3},
		},
		"the whole cluster in between": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, deploy), request(3, suspend, "a")}, nil,
		},
		"something may have been done":  {[]reconfigure.Request{touched, request(2, suspend, "a")}, nil},
		"it was only put off":           {[]reconfigure.Request{putOff, request(2, suspend, "a")}, by{1: 2}},
		"another caller":                {[]reconfigure.Request{request(1, resume, "a"), anna}, nil},
		"of which that part is done":    {[]reconfigure.Request{request(1, resume, "a"), settled}, nil},
		"requests that name no node":    {[]reconfigure.Request{request(1, resume), request(2, suspend)}, nil},
		"an update is nobody's to undo": {[]reconfigure.Request{request(1, update, "a"), request(2, suspend, "a")}, nil},
		"an enlarge is nobody's to undo": {
			[]reconfigure.Request{request(1, reconfigure.Enlarge, "a"), request(2, suspend, "a")}, nil,
		},
		"a shrink in the way of a resume": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, reconfigure.Shrink, "a")}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Undone(tc.waiting), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("undone (-want +got):\n%s", diff)
			}
		})
	}
}

// drawn returns a queue of requests from several callers.
func drawn(t *rapid.T) []reconfigure.Request {
	modes := []reconfigure.Mode{
		reconfigure.Resume, reconfigure.Suspend, reconfigure.Resume, reconfigure.Suspend, reconfigure.Resume,
		reconfigure.Suspend,
		reconfigure.Update, reconfigure.Deploy,
	}
	var waiting []reconfigure.Request
	for i := range rapid.IntRange(1, 12).Draw(t, "requests") {
		r := request(i+1, rapid.SampledFrom(modes).Draw(t, "mode"))
		if !whole(r.Mode) {
			r.Nodes = nodeset.Of(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 3).Draw(t, "nodes")...)
		}
		r.Caller = rapid.SampledFrom([]string{"slurm", "slurm", "slurm", "anna"}).Draw(t, "caller")
		r.Touched = rapid.IntRange(0, 5).Draw(t, "touched") == 0
		waiting = append(waiting, r)
	}
	return waiting
}

// carriedOut carries out requests one after another. It returns the request that each instance booted for last, and
// what those requests found that neither make nor remove an instance.
func carriedOut(requests []reconfigure.Request) (
	instances map[string]reconfigure.RequestID, found map[reconfigure.RequestID]map[string]bool,
) {
	instances, found = map[string]reconfigure.RequestID{}, map[reconfigure.RequestID]map[string]bool{}
	for _, r := range requests {
		nodes := r.Nodes
		if whole(r.Mode) {
			nodes = nodeset.Of("a", "b", "c", "d")
		}
		for node := range nodes.All() {
			_, there := instances[node]
			switch {
			case r.Mode == reconfigure.Resume:
				instances[node] = r.ID
			case r.Mode == reconfigure.Suspend:
				delete(instances, node)
			default:
				if found[r.ID] == nil {
					found[r.ID] = map[string]bool{}
				}
				found[r.ID][node] = there
			}
		}
	}
	return instances, found
}

func TestTheClusterIsTheSameWithoutWhatIsUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waiting := drawn(t)
		undone := Undone(waiting)
		var rest []reconfigure.Request
		for _, r := range waiting {
			by, ok := undone[r.ID]
			switch {
			case !ok:
				rest = append(rest, r)
			case r.Mode != reconfigure.Resume || r.Touched || by <= r.ID || waiting[by-1].Mode != reconfigure.Suspend ||
				waiting[by-1].Caller != r.Caller:
				t.Errorf("%+v is undone by %+v", r, waiting[by-1])
			}
		}
		want, foundThen := carriedOut(waiting)
		got, found := carriedOut(rest)
		if !maps.Equal(want, got) {
			t.Errorf("of %+v are undone %v: there would be %v, and are %v", waiting, undone, want, got)
		}
		if diff := cmp.Diff(foundThen, found); diff != "" {
			t.Errorf("of %+v are undone %v: others find (-with +without)\n%s", waiting, undone, diff)
		}
	})
}
