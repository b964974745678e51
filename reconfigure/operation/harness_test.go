package operation_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// declared returns a cluster with the persistent nodes p1 and p2, and the cloud nodes p3 to p8.
func declared() reconfigure.Cluster {
	source := reconfigure.Source{Image: "v1", Flavor: "small", Network: "cluster"}
	return reconfigure.Cluster{
		Name:     "test",
		Control:  reconfigure.Control{Name: "ctl", Source: source},
		Groups:   []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source, Min: 2, Max: 8}},
		Slurm:    reconfigure.Timing{ResumeTimeout: 10 * time.Minute},
		Settings: reconfigure.Settings{BootTimeout: 2 * time.Minute, Interrupt: true},
	}
}

// lab is a world with an operator.
type lab struct {
	*testing.T
	*simulate.World
	cluster reconfigure.Cluster
	deps    operation.Deps
	ctx     context.Context // the operator's
	end     context.CancelCauseFunc
	running *operation.Operator
	plan    reconfigure.Plan
	round   *round // the last one that was started
	rounds  int64
	classes map[string]reconfigure.Class
}

// test runs in a synctest bubble. The control node and both persistent nodes are there.
func test(t *testing.T, do func(*lab)) {
	t.Helper()
	empty(t, func(l *lab) {
		l.Have("ctl", "p1", "p2")
		do(l)
	})
}

// empty does the same in a world in which nothing is deployed.
func empty(t *testing.T, do func(*lab)) {
	t.Helper()
	emptyOf(t, declared(), do)
}

// emptyOf does the same for a cluster.
func emptyOf(t *testing.T, cluster reconfigure.Cluster, do func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := simulate.NewWorld(cluster)
		l := &lab{T: t, World: w, cluster: cluster, deps: w.Deps()}
		l.ctx, l.end = context.WithCancelCause(t.Context())
		do(l)
		l.end(nil)
		if l.running != nil {
			l.running.Wait()
		}
		l.want("clashes", 0, len(l.Clashes()))
	})
}

// operator makes the operator at its first use, from the lab's cluster and adapters.
func (l *lab) operator() *operation.Operator {
	if l.running == nil {
		l.running = operation.New(l.ctx, l.cluster, l.deps, operation.DefaultTiming())
	}
	return l.running
}

// restart ends the operator, so that the next use makes another one.
func (l *lab) restart() {
	l.running = nil
	l.ctx, l.end = context.WithCancelCause(l.Context())
}

// wants adds changes to the next plan.
func (l *lab) wants(a reconfigure.Action, nodes ...string) {
	for _, node := range nodes {
		c := reconfigure.Change{
			Node: node, Action: a, Reason: "test", Requests: []reconfigure.RequestID{1}, Since: time.Now(),
		}
		if a == reconfigure.Create || a == reconfigure.Replace {
			c.Spec = l.Spec(node)
		}
		l.plan.Changes = append(l.plan.Changes, c)
	}
}

// change returns a node's change in the plan.
func (l *lab) change(node string) *reconfigure.Change {
	i := slices.IndexFunc(l.plan.Changes, func(c reconfigure.Change) bool { return c.Node == node })
	return &l.plan.Changes[i]
}

// asks plans requests as the controller does.
func (l *lab) asks(requests ...reconfigure.Request) {
	l.Helper()
	for i := range requests {
		requests[i].ID, requests[i].Submitted = reconfigure.RequestID(i+1), time.Now()
	}
	l.plan = plan.Compute(l.cluster, l.observe(requests...), requests)
}

func (l *lab) observe(requests ...reconfigure.Request) snapshot.Snapshot {
	l.Helper()
	return observe(l, l.World, requests...)
}

// observe takes a snapshot of a world for requests.
func observe(t interface {
	Context() context.Context
	Fatal(args ...any)
}, w *simulate.World, requests ...reconfigure.Request,
) snapshot.Snapshot {
	seen, err := snapshot.Observer{
		Cluster: w.Cluster(),
		State: func(ctx context.Context, _ nodeset.NodeSet) (reconfigure.State, error) {
			return w.State(ctx)
		},
		States: func(
			ctx context.Context, _ reconfigure.Instance, nodes nodeset.NodeSet,
		) (map[string]reconfigure.NodeState, error) {
			return w.States(ctx, nodes)
		},
		Servers: func(ctx context.Context) (map[string][]reconfigure.Server, error) {
			return w.Servers(ctx, nodeset.NodeSet{})
		},
		Server: w.Server, Resolve: w.Resolve, Health: w.Health,
	}.Observe(t.Context(), snapshot.Scope{Sources: func(states map[string]reconfigure.NodeState) []reconfigure.Source {
		return plan.Sources(w.Cluster(), states, requests)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// round is a plan under way.
type round struct {
	*lab
	began    time.Time
	expected int
	came     chan reconfigure.Verdict
	verdicts map[string]reconfigure.Verdict
	after    map[string]time.Duration // by node: when its verdict came
}

// start takes a snapshot, completes the plan and starts it.
func (l *lab) start() *round {
	l.Helper()
	seen := l.observe()
	if l.plan.Desired == nil {
		l.plan.Desired = desired(seen.Desired, l.plan.Changes)
	}
	told := map[string]bool{} // nodes that get a verdict
	for _, c := range l.plan.Changes {
		told[c.Node] = true
	}
	for _, r := range l.plan.Rejected {
		told[r.Node] = told[r.Node] || r.Awaited
	}
	maps.DeleteFunc(told, func(_ string, told bool) bool { return !told })
	r := &round{
		lab: l, began: time.Now(), expected: len(told), came: make(chan reconfigure.Verdict, 10000),
		verdicts: map[string]reconfigure.Verdict{}, after: map[string]time.Duration{},
	}
	l.round = r
	l.rounds++
	l.operator().Start(operation.Round{
		Number: 6 + l.rounds, Cluster: l.cluster, Seen: seen, Plan: l.plan,
	}, func(v reconfigure.Verdict) {
		r.came <- v
	})
	return r
}

// wait gathers all verdicts, or those that come before the operator ends.
func (r *round) wait() map[string]reconfigure.Verdict {
	r.Helper()
	for len(r.verdicts) < r.expected {
		select {
		case v := <-r.came:
			if _, again := r.verdicts[v.Node]; again {
				r.Errorf("a second verdict on %s: %+v", v.Node, v)
			}
			r.verdicts[v.Node], r.after[v.Node] = v, time.Since(r.began)
		case <-r.ctx.Done():
			synctest.Wait()
			return r.verdicts
		case <-time.After(24 * time.Hour):
			r.Fatalf("a day later there are verdicts on %v alone; calls:\n%s", slices.Collect(maps.Keys(r.verdicts)),
				strings.Join(r.Calls(), "\n"))
		}
	}
	return r.verdicts
}

// desired returns the map of nodes after the changes.
func desired(before map[string]reconfigure.Spec, changes []reconfigure.Change) map[string]reconfigure.Spec {
	after := maps.Clone(before)
	if after == nil {
		after = map[string]reconfigure.Spec{}
	}
	for _, c := range changes {
		switch c.Action {
		case reconfigure.Create, reconfigure.Replace:
			after[c.Node] = c.Spec
		case reconfigure.Remove:
			delete(after, c.Node)
		}
	}
	return after
}

// carry carries out the plan, and returns each verdict as "status phase: reason".
func (l *lab) carry() map[string]string {
	l.Helper()
	return l.said(l.start().wait())
}

func (l *lab) said(verdicts map[string]reconfigure.Verdict) map[string]string {
	l.Helper()
	said := map[string]string{}
	l.classes = map[string]reconfigure.Class{}
	for node, v := range verdicts {
		if v.Class != "" {
			l.classes[node] = v.Class
		}
		if change, ok := l.plan.Of(node); ok && v.Action != change.Action {
			l.Errorf("the verdict on %s is %+v", node, v)
		}
		said[node] = strings.TrimSuffix(fmt.Sprintf("%s %s: %s", v.Status, v.Phase, v.Reason), " : ")
	}
	return said
}

func (l *lab) want(what string, want, got any) {
	l.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (l *lab) wantVerdicts(want map[string]string) {
	l.Helper()
	l.want("verdicts", want, l.carry())
}

func (l *lab) wantDone(nodes ...string) {
	l.Helper()
	want := map[string]string{}
	for _, node := range nodes {
		want[node] = "done"
	}
	l.wantVerdicts(want)
}

// wantOrder checks that calls with these beginnings were made in this order, with others in between or not.
func (l *lab) wantOrder(prefixes ...string) {
	l.Helper()
	rest := l.Calls()
	for _, prefix := range prefixes {
		i := slices.IndexFunc(rest, func(call string) bool { return strings.HasPrefix(call, prefix) })
		if i < 0 {
			l.Errorf("%q was not done, or not in this order, among\n%s", prefix, strings.Join(l.Calls(), "\n"))
			return
		}
		rest = rest[i+1:]
	}
}

// wantNever checks that no call begins with a text.
func (l *lab) wantNever(prefixes ...string) {
	l.Helper()
	for _, prefix := range prefixes {
		if slices.ContainsFunc(l.Calls(), func(call string) bool { return strings.HasPrefix(call, prefix) }) {
			l.Errorf("%q was done:\n%s", prefix, strings.Join(l.Calls(), "\n"))
		}
	}
}

// wantFailedEvent checks that the failure of a node was recorded.
func (l *lab) wantFailedEvent(node, reason string) {
	l.Helper()
	var got []string
	for _, e := range l.Events() {
		if e.Node == node && e.Level == reconfigure.Failed {
			got = append(got, e.Message)
		}
		if e.Plan != 7 {
			l.Errorf("event of another plan: %+v", e)
		}
	}
	l.want("the journal says of "+node, []string{reason}, got)
}

func (l *lab) wantNote(text string) {
	l.Helper()
	for _, e := range l.Events() {
		if e.Level == reconfigure.Note && strings.Contains(e.Message, text) {
			return
		}
	}
	l.Errorf("the journal has no note %q", text)
}

const (
	back    = "IDLE+CLOUD+POWERED_DOWN"
	waiting = "ALLOCATED+CLOUD+POWERING_UP"
)
