package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// book is a journal at successive reads: each read of the requests takes the next entry, and the last one stays.
type book struct {
	pending   [][]reconfigure.Request
	moves     []map[string]reconfigure.Event
	reads     int
	submitted []reconfigure.Request
}

func at[T any](all []T, i int) (one T) {
	if len(all) > 0 {
		one = all[min(i, len(all)-1)]
	}
	return one
}

func (b *book) Pending(context.Context) ([]reconfigure.Request, error) {
	b.reads++
	return at(b.pending, b.reads-1), nil
}

func (b *book) LastMoves(context.Context) (map[string]reconfigure.Event, error) {
	return at(b.moves, b.reads-1), nil
}

func (b *book) Submit(_ context.Context, r reconfigure.Request) (reconfigure.Request, error) {
	b.submitted = append(b.submitted, r)
	return r, nil
}

// controller is Slurm in its current state. It records the nodes that it powers down.
type controller struct {
	states  map[string]reconfigure.NodeState
	silent  error
	powered nodeset.NodeSet
}

func (c *controller) States(context.Context, nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
	return c.states, c.silent
}

func (c *controller) PowerDown(_ context.Context, nodes nodeset.NodeSet) error {
	c.powered = c.powered.Union(nodes)
	return nil
}

func (c *controller) PowerDownASAP(_ context.Context, nodes nodeset.NodeSet, _ string) error {
	c.powered = c.powered.Union(nodes)
	return nil
}

func requestFor(nodes ...string) []reconfigure.Request {
	return []reconfigure.Request{{ID: 7, Mode: reconfigure.Resume, Nodes: nodeset.Of(nodes...)}}
}

// POWER_DOWN_FORCE ends the jobs of a node. So Slurm is asked again just before, since slurmd may have registered after
// the comparison, and a job may have started.
func TestANodeIsHandedBackOnlyIfNothingHasChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		words  string
		reason string
		busy   bool
		silent error
		came   []reconfigure.Request
		want   string // the nodes that are powered down
	}{
		"it is still DOWN":           {words: "DOWN", want: "n2"},
		"it is still forgotten":      {words: "IDLE POWERED_DOWN NOT_RESPONDING", want: "n2"},
		"Slurm gives it to a job":    {words: "ALLOCATED POWERED_DOWN NOT_RESPONDING", busy: true},
		"a job runs on it":           {words: "ALLOCATED", busy: true},
		"slurmd has registered":      {words: "IDLE"},
		"it is DOWN with a job":      {words: "DOWN", busy: true},
		"an administrator took over": {words: "DOWN", reason: "bad DIMM"},
		"Slurm powers it up":         {words: "POWERING_UP"},
		"Slurm does not answer":      {words: "DOWN", silent: errors.New("no answer")},
		"a request has come":         {words: "DOWN", came: requestFor("n2")},
	} {
		t.Run(name, func(t *testing.T) {
			now := healthy()
			now.slurm("n2", tc.words+" CLOUD")
			state := now.States["n2"]
			state.Reason, state.Busy = "reconfigure: it did not boot", tc.busy
			if tc.reason != "" {
				state.Reason = tc.reason
			}
			slurm := &controller{states: map[string]reconfigure.NodeState{"n2": state}, silent: tc.silent}
			r := Reconciler{
				Cluster: example(), Journal: &book{pending: [][]reconfigure.Request{tc.came}},
				Scheduler: func(reconfigure.Instance) Scheduler { return slurm },
			}
			c := Comparison{Seen: now.Snapshot, Findings: []Finding{{Node: "n2", Kind: SetDown, Fix: HandBack}}}
			failed, err := r.Fix(t.Context(), c, func(Finding, error) error { return nil })
			if slurm.powered.String() != tc.want || (err == nil) != (tc.want != "") || failed.Empty() != (tc.want != "") {
				t.Errorf("%q is powered down, %q failed: %v", slurm.powered, failed, err)
			}
		})
	}
}

// A request that came after the comparison may have made the instance.
func TestNothingIsRemovedOfANodeThatARequestHasComeFor(t *testing.T) {
	var removed removals
	r := Reconciler{
		Journal: &book{pending: [][]reconfigure.Request{requestFor("n1", "n2")}},
		Cloud:   func(context.Context) (Cloud, error) { return &removed, nil },
	}
	c := Comparison{Seen: snapshot.Snapshot{Time: now}, Findings: []Finding{
		{Node: "n1", Kind: Orphan, Server: "s", Fix: Delete}, {Node: "n2", Kind: LeakedPort, Port: "p", Fix: Delete},
		{Node: "n3", Kind: Orphan, Server: "t", Fix: Delete},
	}}
	failed, err := r.Fix(t.Context(), c, func(Finding, error) error { return nil })
	if diff := cmp.Diff(removals{"server t of n3"}, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if err == nil || failed.String() != "n[1-2]" {
		t.Errorf("failed: %s, %v", failed, err)
	}
}

// While a request works on a node, the sources disagree about it.
func TestANodeIsNotJudgedIfARequestWorkedOnItDuringTheComparison(t *testing.T) {
	none, some := []reconfigure.Request{}, requestFor("n2")
	event := func(id int64) map[string]reconfigure.Event { return map[string]reconfigure.Event{"n2": {ID: id}} }
	for name, tc := range map[string]struct {
		book book
		want int // findings
	}{
		"none did":                       {book{}, 1},
		"one ended before":               {book{moves: []map[string]reconfigure.Event{event(3)}}, 1},
		"it ended meanwhile":             {book{pending: [][]reconfigure.Request{some, none}}, 0},
		"it came meanwhile":              {book{pending: [][]reconfigure.Request{none, some}}, 0},
		"it came and ended meanwhile":    {book{moves: []map[string]reconfigure.Event{event(3), event(4)}}, 0},
		"a deploy ended meanwhile":       {book{pending: [][]reconfigure.Request{{{Mode: reconfigure.Deploy}}, none}}, 0},
		"it worked on another node only": {book{pending: [][]reconfigure.Request{requestFor("n3"), none}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy()
			seen.has("n2", "standard") // which Slurm has powered down
			r := Reconciler{
				Cluster: example(), Journal: &tc.book, MinAge: minAge, Commands: commands(),
				Observe: func(context.Context) (snapshot.Snapshot, error) { return seen.Snapshot, nil },
			}
			c, err := r.Compare(t.Context())
			if err != nil || len(c.Findings) != tc.want {
				t.Errorf("%+v, %v", c.Findings, err)
			}
		})
	}
}

// Slurm powers down a cloud node whose instance is too old. A node that was drained, or for which a request came
// meanwhile, is left alone.
func TestANodeIsRetiredOnlyIfNothingHasChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		words  string
		silent error
		came   []reconfigure.Request
		want   string
	}{
		"Slurm uses it":             {words: "IDLE", want: "n2"},
		"somebody has drained it":   {words: "IDLE DRAIN"},
		"it is DOWN":                {words: "DOWN"},
		"a request has come":        {words: "IDLE", came: requestFor("n2")},
		"one for another node":      {words: "IDLE", came: requestFor("n3"), want: "n2"},
		"one for the whole cluster": {words: "IDLE", came: []reconfigure.Request{{ID: 7, Mode: reconfigure.Deploy}}},
		"Slurm does not answer":     {words: "IDLE", silent: errors.New("no answer")},
	} {
		t.Run(name, func(t *testing.T) {
			now := healthy()
			now.slurm("n2", tc.words+" CLOUD")
			slurm := &controller{states: now.States, silent: tc.silent}
			r := Reconciler{
				Cluster: example(), Journal: &book{pending: [][]reconfigure.Request{tc.came}},
				Scheduler: func(reconfigure.Instance) Scheduler { return slurm },
			}
			c := Comparison{Seen: now.Snapshot, Findings: []Finding{{Node: "n2", Kind: Aged, Fix: Retire}}}
			failed, err := r.Fix(t.Context(), c, func(Finding, error) error { return nil })
			if slurm.powered.String() != tc.want || (err == nil) != (tc.want != "") || failed.Empty() != (tc.want != "") {
				t.Errorf("%q is powered down, %q failed: %v", slurm.powered, failed, err)
			}
		})
	}
}

// The instance that could not be removed has the node's name.
func TestNoRequestIsMadeForANodeWhoseFixFailed(t *testing.T) {
	for name, failure := range map[string]error{"removed": nil, "not removed": errors.New("the cloud refuses")} {
		t.Run(name, func(t *testing.T) {
			seen := healthy()
			for _, node := range []string{"n2", "n3"} {
				seen.has(node, "standard") // which Slurm has powered down
			}
			seen.serve("n2", "stray", time.Hour)
			log := &book{}
			r := Reconciler{
				Cluster: example(), Journal: log, MinAge: minAge, Commands: commands(),
				Observe: func(context.Context) (snapshot.Snapshot, error) { return seen.Snapshot, nil },
				Cloud:   func(context.Context) (Cloud, error) { return refusing{failure}, nil },
			}
			last := Look{Time: now.Add(-5 * time.Minute), Findings: seen.compare(example())}
			err := r.Unattended(
				t.Context(), last, time.Hour, func(Look) error { return nil }, func(Finding, error) error { return nil },
			)
			want := "n[2-3]"
			if failure != nil {
				want = "n3"
			}
			if len(log.submitted) != 1 || log.submitted[0].Nodes.String() != want || !errors.Is(err, failure) {
				t.Errorf("requests %+v: %v", log.submitted, err)
			}
		})
	}
}

// refusing is a cloud that fails.
type refusing struct{ failure error }

func (r refusing) RemoveServer(context.Context, string, string, time.Time) error { return r.failure }
func (r refusing) RemovePort(context.Context, string, string, time.Time) error   { return r.failure }

// An unattended fix is recorded before it starts, so that the next comparison does not repeat it.
func TestNothingIsFixedUnattendedIfTheLookCannotBeKept(t *testing.T) {
	for name, full := range map[string]error{"it is kept": nil, "the disk is full": errors.New("no space left on device")} {
		t.Run(name, func(t *testing.T) {
			seen := healthy()
			seen.has("n2", "standard")
			seen.serve("n3", "stray", time.Hour)
			seen.slurm("n4", "DOWN CLOUD")
			seen.reason("n4", "reconfigure: it did not boot")
			var removed removals
			log, slurm := &book{}, &controller{states: seen.States}
			r := Reconciler{
				Cluster: example(), Journal: log, MinAge: minAge, Commands: commands(),
				Observe:   func(context.Context) (snapshot.Snapshot, error) { return seen.Snapshot, nil },
				Cloud:     func(context.Context) (Cloud, error) { return &removed, nil },
				Scheduler: func(reconfigure.Instance) Scheduler { return slurm },
			}
			last := Look{Time: now.Add(-5 * time.Minute), Findings: seen.compare(example())}
			err := r.Unattended(
				t.Context(), last, time.Hour, func(Look) error { return full }, func(Finding, error) error { return nil },
			)
			want := 0
			if full == nil {
				want = 1
			}
			if !errors.Is(err, full) || len(removed) != want || len(log.submitted) != want || slurm.powered.Len() != want {
				t.Errorf("removed %v, requests %v, powered down %q: %v", removed, log.submitted, slurm.powered, err)
			}
		})
	}
}
