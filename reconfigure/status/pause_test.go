package status

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// fakeLog is the journal that a Teller reads.
type fakeLog struct {
	holder   string
	paused   bool
	begun    bool
	deferred []reconfigure.Deferral
	mode     reconfigure.Mode
	pending  []reconfigure.Request
}

func (l *fakeLog) Holder(context.Context) string { return l.holder }

func (l *fakeLog) Request(_ context.Context, id reconfigure.RequestID) (reconfigure.Request, bool, error) {
	return reconfigure.Request{ID: id, Mode: l.mode, Touched: l.begun, Deferred: l.deferred}, true, nil
}

func (l *fakeLog) Pending(context.Context) ([]reconfigure.Request, error) { return l.pending, nil }

func (l *fakeLog) Paused(context.Context) (reconfigure.Pause, bool, error) {
	return reconfigure.Pause{Since: utcNoon, By: "alice", Reason: "a disk\nis swapped"}, l.paused, nil
}

func TestWhoFollowsHearsOnceWhatTheRequestWaitsFor(t *testing.T) {
	log := &fakeLog{mode: reconfigure.Update, begun: true, paused: true, holder: "process 1"} // operations still run
	teller := Teller{Log: log, Request: 7, Full: func() string { return "" }}
	now := noon
	look := func() (said []string) {
		t.Helper()
		for range 3 {
			now = now.Add(2 * time.Second)
			events, err := teller.Look(t.Context(), now)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				said = append(said, e.Message)
			}
		}
		return said
	}
	for _, step := range []struct {
		holder   string
		paused   bool
		deferred []reconfigure.Deferral
		want     []string
	}{
		{"process 1", true, nil, nil},
		{"", true, nil, []string{"request 7 waits: paused by alice since 2026-01-31T12:00:00Z: a disk is swapped"}},
		{"", false, nil, []string{"the pause has ended"}},
		{"process 2", false, nil, nil},
		{"process 2", false, []reconfigure.Deferral{{Kind: reconfigure.CannotPlan, Reason: "no\ncloud"}}, []string{
			"request 7 cannot be planned now, and will be retried: no cloud",
		}},
		{"", false, []reconfigure.Deferral{{Node: "a", Kind: reconfigure.SlurmUnreachable, Reason: "no route"}}, []string{
			"request 7 waits for Slurm, and will be retried: no route",
		}},
		{
			"", false, []reconfigure.Deferral{{Node: "a", Kind: reconfigure.WaitsForJobs}},
			[]string{"request 7 waits for jobs on a"},
		},
		{"", false, nil, nil},
	} {
		log.holder, log.paused, log.deferred = step.holder, step.paused, step.deferred
		if d := cmp.Diff(step.want, look()); d != "" {
			t.Errorf("holder %q, paused %t (-want +got):\n%s", step.holder, step.paused, d)
		}
	}
}

func TestWhoFollowsHearsWhichRequestsComeFirst(t *testing.T) {
	pending := []reconfigure.Request{
		{ID: 3, Mode: reconfigure.MakeImage, Nodes: nodeset.Of("a"), Touched: true},
		{ID: 4, Mode: reconfigure.Resume, Nodes: nodeset.Of("b1", "b2"), Touched: true},
		{ID: 5, Mode: reconfigure.Resume, Nodes: nodeset.Of("c")}, // not begun
		{ID: 6, Mode: reconfigure.Update, Nodes: nodeset.Of("d"), Touched: true, Deferred: []reconfigure.Deferral{{Node: "d"}}},
		{ID: 8, Mode: reconfigure.Deploy, Touched: true},
	}
	for _, tc := range []struct {
		mode    reconfigure.Mode
		pending []reconfigure.Request
		want    string
	}{
		{reconfigure.Destroy, pending, "request 7 ends request 4 (resume b[1-2]) and waits for request 3 (image a)"},
		{reconfigure.Deploy, pending, "request 7 waits for request 3 (image a), request 4 (resume b[1-2])"},
		{reconfigure.Destroy, pending[1:], "request 7 ends request 4 (resume b[1-2])"},
		{reconfigure.Destroy, pending[2:], ""},
		{reconfigure.Update, pending, ""},
	} {
		log := &fakeLog{holder: "process 1", mode: tc.mode, pending: tc.pending}
		teller := Teller{Log: log, Request: 7, Full: func() string { return "" }}
		events, err := teller.Look(t.Context(), noon)
		var said string
		for _, e := range events {
			said += e.Message
		}
		if err != nil || said != tc.want {
			t.Errorf("%s: %q (%v), want %q", tc.mode, said, err, tc.want)
		}
		r := Report{Requests: []Request{{Request: reconfigure.Request{ID: 7, Mode: tc.mode}}}}
		for _, p := range tc.pending {
			r.Requests = append(r.Requests, Request{Request: p})
		}
		notes := strings.Join(r.notes(Layout{Now: noon}), "\n")
		if tc.want != "" && !strings.Contains(notes, "R"+tc.want[1:]+".") || tc.want == "" && strings.Contains(notes, "equest 7") {
			t.Errorf("%s: status says %q", tc.mode, notes)
		}
	}
}
