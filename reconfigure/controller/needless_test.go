package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestSuspended(t *testing.T) {
	const resume, suspend, update, deploy = reconfigure.Resume, reconfigure.Suspend, reconfigure.Update, reconfigure.Deploy
	type found = map[reconfigure.RequestID]string // the nodes, and those that were resumed again
	anna := request(2, suspend, "a")
	anna.Caller = "anna"
	for name, tc := range map[string]struct {
		pending []reconfigure.Request
		want    found
	}{
		"a resume alone":           {[]reconfigure.Request{request(1, resume, "a")}, found{}},
		"a suspend alone":          {[]reconfigure.Request{request(1, suspend, "a")}, found{}},
		"a suspend before":         {[]reconfigure.Request{request(1, suspend, "a"), request(2, resume, "a")}, found{}},
		"a suspend of a part":      {[]reconfigure.Request{request(1, resume, "a", "b"), request(2, suspend, "a")}, found{1: "a; "}},
		"a suspend of other nodes": {[]reconfigure.Request{request(1, resume, "a"), request(2, suspend, "b")}, found{}},
		"another caller":           {[]reconfigure.Request{request(1, resume, "a"), anna}, found{}},
		"two suspends": {
			[]reconfigure.Request{request(1, resume, "a", "b"), request(2, suspend, "a"), request(3, suspend, "b")},
			found{1: "a,b; "},
		},
		"resumed again": {
			[]reconfigure.Request{request(1, resume, "a", "b"), request(2, suspend, "a", "b"), request(3, resume, "b")},
			found{1: "a,b; b"},
		},
		"resumed twice before": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, resume, "a"), request(3, suspend, "a")},
			found{1: "a; ", 2: "a; "},
		},
		"and suspended again": {
			[]reconfigure.Request{
				request(1, resume, "a"), request(2, suspend, "a"), request(3, resume, "a"), request(4, suspend, "a"),
			},
			found{1: "a; a", 3: "a; "},
		},
		"an update in between": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, update, "a"), request(3, suspend, "a")}, found{},
		},
		"the whole cluster in between": {
			[]reconfigure.Request{request(1, resume, "a"), request(2, deploy), request(3, suspend, "a")}, found{},
		},
	} {
		got := found{}
		for id, s := range suspended(tc.pending) {
			got[id] = s.Nodes.String() + "; " + s.Again.String()
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	r := request(1, resume, "a")
	r.Touched = true
	ready := func(reconfigure.Request) bool { return true }
	next := Next([]reconfigure.Request{r, request(2, suspend, "a")}, busy{}, ready)
	if len(next.Together) != 1 || !next.Together[0].Suspended.Nodes.Equal(nodeset.Of("a")) {
		t.Errorf("selected %+v", next.Together)
	}
}
