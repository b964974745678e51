package batch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// declared is a cluster with one persistent node, p1, and cloud nodes p2 to p9.
func declared() reconfigure.Cluster {
	source := reconfigure.Source{Image: "v1", Flavor: "small", Network: "cluster"}
	return reconfigure.Cluster{
		Name:    "test",
		Control: reconfigure.Control{Name: "ctl", Source: source},
		Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source, Min: 1, Max: 9}},
		Slurm:   reconfigure.Timing{ResumeTimeout: time.Minute},
	}
}

// pipeline is the product's, over a simulated world.
func pipeline(w *enginetest.World) batch.Pipeline {
	return batch.Pipeline{Open: func(context.Context) (reconfigure.Cluster, batch.Engine, error) {
		return declared(), engine.New(declared(), w.Deps()), nil
	}}
}

// said is an outcome in few words: its code, and each node's status.
type said struct {
	Request reconfigure.RequestID
	Code    reconfigure.Code
	Nodes   map[string]reconfigure.Status
}

func carry(t *testing.T, p batch.Pipeline, requests ...reconfigure.Request) []said {
	t.Helper()
	for i := range requests {
		requests[i].Submitted = time.Now()
	}
	var all []said
	outcomes, err := p.Carry(t.Context(), 1, requests, func() {})
	if err != nil {
		t.Error(err)
	}
	for _, o := range outcomes {
		s := said{o.Request, o.Code, map[string]reconfigure.Status{}}
		for _, v := range o.Verdicts {
			s.Nodes[v.Node] = v.Status
		}
		if len(s.Nodes) != len(o.Verdicts) || o.Error != "" {
			t.Errorf("outcome %+v", o)
		}
		all = append(all, s)
	}
	return all
}

func TestEachRequestOfABatchGetsItsOwnOutcome(t *testing.T) {
	w := enginetest.NewWorld(declared())
	w.Have("ctl", "p1", "p2", "p3")
	w.PowersUp("p4", "p5", "p6")
	w.PowersDown("p2")
	w.Order(enginetest.NoValidHost, "p5")
	w.Order(enginetest.NoSSH, "p6")
	got := carry(t, pipeline(w),
		request(1, reconfigure.Resume, "p4"), request(2, reconfigure.Resume, "p4", "p5"), request(3, reconfigure.Resume, "p5", "p6"),
		request(4, reconfigure.Suspend, "p2", "p9"), request(5, reconfigure.Resume, "p3"), request(6, reconfigure.Suspend, "p1"), request(7, reconfigure.Resume, "p3", "stranger1"),
	)
	type nodes = map[string]reconfigure.Status
	want := []said{
		{1, reconfigure.CodeDone, nodes{"p4": reconfigure.StatusDone}},
		{2, reconfigure.CodePartial, nodes{"p4": reconfigure.StatusDone, "p5": reconfigure.StatusFailed}},
		{3, reconfigure.CodeFailed, nodes{"p5": reconfigure.StatusFailed, "p6": reconfigure.StatusFailed}},
		{4, reconfigure.CodeDone, nodes{"p2": reconfigure.StatusDone, "p9": reconfigure.StatusUnchanged}},
		{5, reconfigure.CodeDone, nodes{"p3": reconfigure.StatusUnchanged}},
		{6, reconfigure.CodeFailed, nodes{"p1": reconfigure.StatusRejected}},
		{7, reconfigure.CodePartial, nodes{"p3": reconfigure.StatusUnchanged, "stranger1": reconfigure.StatusRejected}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func TestRequestForTheWholeClusterHearsOfEveryNodeThatChanged(t *testing.T) {
	w := enginetest.NewWorld(declared())
	got := carry(t, pipeline(w), request(1, reconfigure.Deploy))
	want := []said{{1, reconfigure.CodeDone, map[string]reconfigure.Status{"ctl": reconfigure.StatusDone, "p1": reconfigure.StatusDone}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func TestRefusalHasACodeOfItsOwn(t *testing.T) {
	w := enginetest.NewWorld(declared())
	w.Have("ctl", "p1", "p2")
	w.Order(enginetest.OtherImage, "p1")
	got := carry(t, pipeline(w), request(1, reconfigure.Resume, "p4"), request(2, reconfigure.Resume, "p2", "p5"), request(3, reconfigure.Resume, "p2"))
	var codes []reconfigure.Code
	for _, s := range got {
		codes = append(codes, s.Code)
	}
	if diff := cmp.Diff([]reconfigure.Code{reconfigure.CodeRefused, reconfigure.CodePartial, reconfigure.CodeDone}, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

// stub is an engine that fails, or finds nothing and does nothing.
type stub struct{ observing, carrying error }

func (s stub) Observe(context.Context, func(map[string]reconfigure.NodeState) []reconfigure.Source) (reconfigure.Observation, error) {
	return reconfigure.Observation{}, s.observing
}

func (s stub) Carry(context.Context, int64, reconfigure.Observation, reconfigure.Plan, func()) (map[string]reconfigure.Verdict, error) {
	return nil, s.carrying
}

// The resume has been tried for long enough, and the deploy is not tried again at all.
func TestWhatKeepsTheBatchFromBeingPlannedIsToldToAll(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		opening error
		engine  stub
	}{
		"the declaration cannot be read": {broken, stub{}},
		"nobody can look":                {nil, stub{observing: broken}},
	} {
		t.Run(name, func(t *testing.T) {
			p := batch.Pipeline{Open: func(context.Context) (reconfigure.Cluster, batch.Engine, error) {
				return declared(), tc.engine, tc.opening
			}}
			got, err := p.Carry(t.Context(), 1, []reconfigure.Request{request(1, reconfigure.Resume, "p4"), request(2, reconfigure.Deploy)}, func() {})
			want := []reconfigure.Outcome{{Request: 1, Code: reconfigure.CodeFailed, Error: "broken"}, {Request: 2, Code: reconfigure.CodeFailed, Error: "broken"}}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("error %v, outcomes (-want +got):\n%s", err, diff)
			}
		})
	}
}

// What was on its way when the journal failed is not known, and nobody may be told that it has ended.
func TestNoRequestEndsWithAnErrorOfTheJournal(t *testing.T) {
	broken := errors.New("broken")
	p := batch.Pipeline{Open: func(context.Context) (reconfigure.Cluster, batch.Engine, error) {
		return declared(), stub{carrying: broken}, nil
	}}
	held := request(3, reconfigure.Update, "p1")
	held.Held = true
	got, err := p.Carry(t.Context(), 1, []reconfigure.Request{request(1, reconfigure.Resume, "p4"), request(2, reconfigure.Deploy), held}, func() {})
	if len(got) > 0 || !errors.Is(err, broken) {
		t.Errorf("error %v, outcomes %+v", err, got)
	}
}

func TestAnEditOfTheDeclarationCountsFromTheNextBatchOn(t *testing.T) {
	w := enginetest.NewWorld(declared())
	w.Have("ctl", "p1")
	grown := declared()
	p := batch.Pipeline{Open: func(context.Context) (reconfigure.Cluster, batch.Engine, error) {
		return grown, engine.New(grown, w.Deps()), nil
	}}
	grown.Groups[0].Max = 3
	if got := carry(t, p, request(1, reconfigure.Resume, "p4")); got[0].Nodes["p4"] != reconfigure.StatusRejected {
		t.Errorf("outcome %+v", got)
	}
	grown = declared()
	if got := carry(t, p, request(2, reconfigure.Suspend, "p4")); got[0].Nodes["p4"] != reconfigure.StatusUnchanged {
		t.Errorf("outcome %+v", got)
	}
}
