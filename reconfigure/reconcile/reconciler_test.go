package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

func TestEachFixBecomesOneRequest(t *testing.T) {
	got := Requests([]Finding{
		{Node: "b", Kind: Leaked, Fix: Suspend}, {Node: "a", Kind: PowersDown, Fix: Suspend}, {Node: "c", Kind: Hollow},
		{Node: "d", Kind: Orphan, Fix: Delete}, {Node: "e", Kind: PowersUp, Fix: Resume},
		{Node: "f", Kind: Missing, Fix: Enlarge}, {Node: "g", Kind: Leaked, Fix: Suspend},
		{Node: "h", Kind: Aged, Fix: Retire}, {Node: "i", Kind: Aged, Fix: Renew},
		{Node: "j", Kind: Drained, Fix: Update},
	})
	want := []reconfigure.Request{
		{Mode: reconfigure.Enlarge, Nodes: nodeset.Of("f"), Reason: "reconcile: missing"},
		{Mode: reconfigure.Update, Nodes: nodeset.Of("i"), Reason: "reconcile: aged",
			Options: reconfigure.Options{Reimage: true}},
		{Mode: reconfigure.Resume, Nodes: nodeset.Of("e"), Reason: "reconcile: powers up"},
		{Mode: reconfigure.Suspend, Nodes: nodeset.Of("a", "b", "g"), Reason: "reconcile: leaked, powers down"},
		{Mode: reconfigure.Update, Nodes: nodeset.Of("j"), Reason: "reconcile: drained"},
	}
	if diff := cmp.Diff(
		want, got, cmp.Comparer(func(a, b nodeset.NodeSet) bool { return a.String() == b.String() }),
	); diff != "" {
		t.Error(diff)
	}
}

func TestWhatHappensMeanwhileIsBusy(t *testing.T) {
	at := func(ids map[string]int64) work {
		w := work{last: map[string]reconfigure.Event{}}
		for node, id := range ids {
			w.last[node] = reconfigure.Event{ID: id}
		}
		return w
	}
	got := at(map[string]int64{"a": 1, "b": 3, "c": 4}).since(at(map[string]int64{"a": 1, "b": 2}))
	if got.String() != nodeset.Of("b", "c").String() {
		t.Errorf("%s", got)
	}
}

func TestAnOrphanIsLeftAloneWhenARequestHasCome(t *testing.T) {
	log, err := journal.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r, before := Reconciler{Journal: log}, Comparison{}
	if before.work, err = r.work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.stillIdle(t.Context(), before, "node03"); err != nil {
		t.Errorf("there is no request for it: %v", err)
	}
	if _, err := log.Submit(t.Context(), reconfigure.Request{
		Mode: reconfigure.Resume, Nodes: nodeset.Of("node03"),
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.stillIdle(t.Context(), before, "node03"); err == nil {
		t.Error("there is a request for it")
	}
	if err := r.stillIdle(t.Context(), before, "node04"); err != nil {
		t.Errorf("the request is for another node: %v", err)
	}
	if _, err := log.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Deploy}); err != nil {
		t.Fatal(err)
	}
	if err := r.stillIdle(t.Context(), before, "node04"); err == nil {
		t.Error("there is a request for the whole cluster")
	}
}

// removals is a cloud that records removals.
type removals []string

func (r *removals) RemoveServer(_ context.Context, id, node string, _ time.Time) error {
	*r = append(*r, "server "+id+" of "+node)
	return nil
}

func (r *removals) RemovePort(_ context.Context, id, node string, before time.Time) error {
	*r = append(*r, "port "+id+" of "+node+" from before "+before.Format(time.TimeOnly))
	return nil
}

func TestALeakedPortIsRemovedAsAnOrphanIs(t *testing.T) {
	log, err := journal.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var removed removals
	r := Reconciler{
		Journal: log, MinAge: minAge,
		Cloud: func(context.Context) (Cloud, error) { return &removed, nil },
	}
	c := Comparison{Seen: snapshot.Snapshot{Time: now}, Findings: []Finding{
		{Node: "n1", Kind: Orphan, Server: "s", Fix: Delete}, {Node: "n2", Kind: LeakedPort, Port: "p", Fix: Delete},
	}}
	if c.work, err = r.work(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fix(t.Context(), c, func(Finding, error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(removals{"server s of n1", "port p of n2 from before 11:45:00"}, removed); diff != "" {
		t.Error(diff)
	}
}
