package enginetest

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
)

// ProvisionerHarness is a provisioner of a cluster in which nothing is deployed, and what a test can do to it from outside.
type ProvisionerHarness struct {
	Provisioner engine.Provisioner
	// Spec is what a node is to be made of, in one of two versions, 1 and 2, that differ by image.
	Spec func(node string, version int) reconfigure.Spec
	// Control and Nodes are names, of three nodes at least.
	Control string
	Nodes   []string
	// Servers is the cloud's own list of instances, those that were not made to the end too: their ids, by node.
	Servers func() map[string]string
	// FailCreate has the next instance of a node end in ERROR.
	FailCreate func(node string)
	// Vanish deletes a node's instance behind the provisioner's back.
	Vanish func(node string)
	// Stray has whatever is previewed from now on do what no plan names. Nothing else is asked of the provisioner afterwards.
	Stray func()
}

// Provisioner holds an implementation to the contract of engine.Provisioner. New makes a harness of its own for each call.
func Provisioner(t *testing.T, new func(*testing.T) ProvisionerHarness) {
	for name, rule := range map[string]func(provisioner){
		"life of a cluster":      provisioner.life,
		"a node fails alone":     provisioner.failsAlone,
		"refusal":                provisioner.refusal,
		"a context that is done": provisioner.done,
	} {
		t.Run(name, func(t *testing.T) { rule(provisioner{t, new(t)}) })
	}
}

type provisioner struct {
	*testing.T
	ProvisionerHarness
}

// life follows a cluster from its first node to its last. The steps stand in one test because each costs minutes of a real cloud's time.
func (p provisioner) life() {
	a, b, c := p.Nodes[0], p.Nodes[1], p.Nodes[2]
	p.wantInstances()

	// Preview changes nothing.
	first := p.plan(nil, reconfigure.Create, 1, p.Control, a, b)
	first.Shared = true
	preview := p.preview(first)
	p.wantDesired(nil)
	p.wantInstances()

	// Apply does what was previewed, and leaves the map as the plan had it.
	p.apply(preview)
	p.wantDesired(first.Desired)
	p.wantInstances(p.Control, a, b)

	// The same wish once more finds nothing to do.
	before := p.Servers()
	again := p.preview(p.plan(first.Desired, reconfigure.Create, 1, a, b))
	if len(again.Changes) > 0 {
		p.Errorf("what is there already is to be changed: %+v", again.Changes)
	}
	p.apply(again)
	p.wantSame(before, p.Control, a, b)

	// Different actions go together, and touch nothing else. What is replaced stands in the preview as such.
	mixed := p.plan(first.Desired, reconfigure.Create, 1, c)
	mixed = p.and(mixed, reconfigure.Replace, 2, a)
	mixed = p.and(mixed, reconfigure.Remove, 0, b)
	preview = p.preview(mixed)
	p.wantEffect(preview, a, reconfigure.EffectRebuild, reconfigure.EffectReplace)
	p.wantEffect(preview, b, reconfigure.EffectDelete)
	p.wantEffect(preview, c, reconfigure.EffectCreate)
	p.wantSame(before, p.Control, a, b)
	p.apply(preview)
	p.wantInstances(p.Control, a, c)
	p.wantSame(before, p.Control)

	// A replacement that nothing but the wish asks for is one all the same.
	before = p.Servers()
	p.apply(p.preview(p.plan(mixed.Desired, reconfigure.Replace, 2, a)))
	if p.Servers()[a] == before[a] {
		p.Errorf("%s, which was to be replaced, has its old instance still", a)
	}
	p.wantSame(before, p.Control, c)

	// Absent is success: for what was never there, was removed before, or vanished.
	p.Vanish(c)
	gone := p.plan(mixed.Desired, reconfigure.Remove, 0, b, c)
	p.apply(p.preview(gone))
	p.wantDesired(gone.Desired)
	p.wantInstances(p.Control, a)

	// The whole cluster goes.
	everything := p.plan(gone.Desired, reconfigure.Remove, 0, p.Control, a)
	everything.Shared = true
	p.apply(p.preview(everything))
	p.wantDesired(nil)
	p.wantInstances()
}

// failsAlone has two of three nodes end in ERROR: they are tainted; one is removed, and one made anew, in the place of what is left of it.
func (p provisioner) failsAlone() {
	a, b, c := p.Nodes[0], p.Nodes[1], p.Nodes[2]
	p.FailCreate(b)
	p.FailCreate(c)
	plan := p.plan(nil, reconfigure.Create, 1, p.Control, a, b, c)
	plan.Shared = true
	failures, err := p.Provisioner.Apply(p.Context(), p.preview(plan), p.watch)
	if err != nil || len(failures) != 2 || failures[b] == nil || failures[c] == nil {
		p.Fatalf("two nodes were to fail: %v, error %v", failures, err)
	}
	p.wantDesired(plan.Desired)
	instances := p.instances()
	for node, want := range map[string]bool{p.Control: false, a: false, b: true, c: true} {
		if i, ok := instances[node]; !ok || i.Tainted != want {
			p.Errorf("%s is to be tainted: %t, but it is %+v", node, want, i)
		}
	}
	before := p.Servers()
	p.apply(p.preview(p.plan(plan.Desired, reconfigure.Create, 1, c)))
	p.wantSame(before, p.Control, a)
	p.apply(p.preview(p.plan(plan.Desired, reconfigure.Remove, 0, b)))
	p.wantInstances(p.Control, a, c)
	p.wantSame(before, p.Control, a)
}

// refusal finds something in the preview that nobody asked for.
func (p provisioner) refusal() {
	first := p.plan(nil, reconfigure.Create, 1, p.Control, p.Nodes[0])
	first.Shared = true
	p.apply(p.preview(first))
	before := p.Servers()
	p.Stray()
	_, err := p.Provisioner.Preview(p.Context(), p.plan(first.Desired, reconfigure.Create, 1, p.Nodes[1]))
	var refusal *reconfigure.Refusal
	if !errors.As(err, &refusal) || len(refusal.Changes) == 0 {
		p.Fatalf("no refusal, but %v", err)
	}
	for _, c := range refusal.Changes {
		if c.Node == p.Nodes[1] {
			p.Errorf("what was asked for is refused: %+v", c)
		}
	}
	p.wantDesired(first.Desired)
	p.wantSame(before, p.Control, p.Nodes[0])
}

// done asks in vain. A preview that was made in time is not carried out either.
func (p provisioner) done() {
	ctx, cancel := context.WithCancel(p.Context())
	cancel()
	plan := p.plan(nil, reconfigure.Create, 1, p.Control)
	plan.Shared = true
	if _, err := p.Provisioner.Instances(ctx); !errors.Is(err, context.Canceled) {
		p.Errorf("instances: error %v", err)
	}
	if _, err := p.Provisioner.Preview(ctx, plan); !errors.Is(err, context.Canceled) {
		p.Errorf("preview: error %v", err)
	}
	failures, err := p.Provisioner.Apply(ctx, p.preview(plan), p.watch)
	if !errors.Is(err, context.Canceled) || failures != nil {
		p.Errorf("apply: %v, error %v", failures, err)
	}
	p.wantInstances()
}

// plan has nodes changed in one way, in a map that was so before.
func (p provisioner) plan(before map[string]reconfigure.Spec, a reconfigure.Action, version int, nodes ...string) reconfigure.Plan {
	plan := reconfigure.Plan{Desired: maps.Clone(before)}
	if before == nil {
		plan.Desired = map[string]reconfigure.Spec{}
	}
	return p.and(plan, a, version, nodes...)
}

// and adds to a plan.
func (p provisioner) and(plan reconfigure.Plan, a reconfigure.Action, version int, nodes ...string) reconfigure.Plan {
	for _, node := range nodes {
		change := reconfigure.Change{Node: node, Action: a, Reason: "test", Requests: []reconfigure.RequestID{1}}
		if a == reconfigure.Remove {
			delete(plan.Desired, node)
		} else {
			change.Spec = p.Spec(node, version)
			plan.Desired[node] = change.Spec
		}
		plan.Changes = append(plan.Changes, change)
	}
	return plan
}

func (p provisioner) watch(string, string) {}

func (p provisioner) preview(plan reconfigure.Plan) reconfigure.Preview {
	p.Helper()
	preview, err := p.Provisioner.Preview(p.Context(), plan)
	if err != nil {
		p.Fatal(err)
	}
	if diff := cmp.Diff(plan, preview.Plan); diff != "" {
		p.Errorf("the preview is of another plan:\n%s", diff)
	}
	return preview
}

func (p provisioner) apply(preview reconfigure.Preview) {
	p.Helper()
	failures, err := p.Provisioner.Apply(p.Context(), preview, p.watch)
	if err != nil || len(failures) > 0 {
		p.Fatalf("failures %v, error %v", failures, err)
	}
}

func (p provisioner) instances() map[string]reconfigure.Instance {
	p.Helper()
	all, err := p.Provisioner.Instances(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return all
}

func (p provisioner) wantDesired(want map[string]reconfigure.Spec) {
	p.Helper()
	got, err := p.Provisioner.Desired(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	if want == nil {
		want = map[string]reconfigure.Spec{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.Errorf("the map of nodes (-want +got):\n%s", diff)
	}
}

// wantInstances checks that there are instances of just these nodes, made to the end, as the cloud has them.
func (p provisioner) wantInstances(nodes ...string) {
	p.Helper()
	servers, instances := p.Servers(), p.instances()
	addresses := map[string]string{}
	if len(servers) != len(nodes) || len(instances) != len(nodes) {
		p.Errorf("there are to be instances of %v; the provisioner has %+v, the cloud %v", nodes, instances, servers)
	}
	for _, node := range nodes {
		i := instances[node]
		if i.Node != node || i.ID == "" || i.ID != servers[node] || i.Address == "" || i.Tainted {
			p.Errorf("%s is %+v, and in the cloud %q", node, i, servers[node])
		}
		if other, taken := addresses[i.Address]; taken {
			p.Errorf("%s and %s have the same address %s", node, other, i.Address)
		}
		addresses[i.Address] = node
	}
}

// wantSame checks that nodes have the instances that they had.
func (p provisioner) wantSame(before map[string]string, nodes ...string) {
	p.Helper()
	now := p.Servers()
	for _, node := range nodes {
		if before[node] == "" || now[node] != before[node] {
			p.Errorf("%s had instance %q, and has %q", node, before[node], now[node])
		}
	}
}

// wantEffect checks that a preview foretells one of the effects for a node, whatever else it does with what belongs to the node.
func (p provisioner) wantEffect(preview reconfigure.Preview, node string, effects ...reconfigure.Effect) {
	p.Helper()
	for _, c := range preview.Changes {
		for _, e := range effects {
			if c.Node == node && c.Effect == e {
				return
			}
		}
	}
	p.Errorf("%s is to see any of %v, but the preview holds %+v", node, effects, preview.Changes)
}
