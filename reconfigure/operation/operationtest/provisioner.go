package operationtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// ProvisionerSetup is a provisioner of a cluster in which nothing is deployed, and ways for a test to change it from
// outside.
type ProvisionerSetup struct {
	Provisioner operation.Provisioner
	// Spec returns the spec of a node in version 1 or 2, which differ by their image.
	Spec func(node string, version int) reconfigure.Spec
	// Control and Nodes are names; there are at least three nodes.
	Control string
	Nodes   []string
	// Servers returns the cloud's list of instances by node, also of tainted ones.
	Servers func() map[string]reconfigure.Server
	// Forget removes a node from the state, as if Terraform had been killed before it wrote the node to it.
	Forget func(node string)
	// FailCreate lets the next instance of a node end in ERROR.
	FailCreate func(node string)
	// Vanish deletes a node's instance without the provisioner.
	Vanish func(node string)
	// Rebuild rebuilds a node's instance from the image of a version without the provisioner, as if Terraform had
	// been killed before it wrote the change to the state. Nil: this setup does not support it.
	Rebuild func(node string, version int)
	// Stop stops a node's instance without the provisioner, as if Terraform had been killed before it wrote that to the
	// state. It is not called with NoPower.
	Stop func(node string)
	// NoPower is set if instances are not stopped, and NoAdoption if they are not adopted. With NoAdoption, Forget is
	// not called.
	NoPower, NoAdoption bool
	// Stray makes all further previews have a change that no plan names. It is the last call of a test.
	Stray func()
}

// TestProvisioner checks the contract of operation.Provisioner. New makes a new setup for each call. If the rule
// interrupts an apply, late asks for a provisioner that returns seconds after its servers are ACTIVE.
func TestProvisioner(t *testing.T, new func(t *testing.T, late bool) ProvisionerSetup) {
	for name, rule := range map[string]func(provisionerRule){
		"life of a cluster":      provisionerRule.life,
		"a node fails alone":     provisionerRule.failsAlone,
		"refusal":                provisionerRule.refusal,
		"interrupt and adoption": provisionerRule.adoption,
		"an instance is let go":  provisionerRule.forgets,
		"a context that is done": provisionerRule.done,
	} {
		t.Run(name, func(t *testing.T) { rule(provisionerRule{t, new(t, name == "interrupt and adoption")}) })
	}
}

type provisionerRule struct {
	*testing.T
	ProvisionerSetup
}

// life follows a cluster from its first node to its last. The steps are one test since each takes minutes on a real
// cloud.
func (p provisionerRule) life() {
	a, b, c := p.Nodes[0], p.Nodes[1], p.Nodes[2]
	p.wantInstances()

	// Preview changes nothing.
	first := p.plan(nil, reconfigure.Create, 1, p.Control, a, b)
	first.Shared = true
	preview := p.preview(first)
	p.wantDesired(nil)
	p.wantInstances()

	// Apply does what was previewed, and stores the map of the plan.
	p.apply(preview)
	p.wantDesired(first.Desired)
	p.wantInstances(p.Control, a, b)

	// The same plan again has nothing to do.
	before := p.Servers()
	again := p.preview(p.plan(first.Desired, reconfigure.Create, 1, a, b))
	if len(again.Changes) > 0 {
		p.Errorf("an existing instance would be changed: %+v", again.Changes)
	}
	p.apply(again)
	p.wantSame(before, p.Control, a, b)

	// Different actions share a run, and change nothing else. The preview shows a replacement as such.
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

	// A replacement without a difference is also carried out.
	before = p.Servers()
	p.apply(p.preview(p.plan(mixed.Desired, reconfigure.Replace, 2, a)))
	if p.Servers()[a].ID == before[a].ID {
		p.Errorf("%s, which should be replaced, still has its old instance", a)
	}
	p.wantSame(before, p.Control, c)

	if !p.NoPower {
		p.power(mixed)
	}

	// Absent is success: for a node that never existed, was removed before, or vanished.
	p.Vanish(c)
	gone := p.plan(mixed.Desired, reconfigure.Remove, 0, b, c)
	p.apply(p.preview(gone))
	p.wantDesired(gone.Desired)
	p.wantInstances(p.Control, a)

	// The whole cluster is removed.
	everything := p.plan(gone.Desired, reconfigure.Remove, 0, p.Control, a)
	everything.Shared = true
	p.apply(p.preview(everything))
	p.wantDesired(nil)
	p.wantInstances()
}

// power checks that an instance is stopped and started in place, and nothing else changes; and that a stopped one is
// replaced by a new one.
func (p provisionerRule) power(mixed reconfigure.Plan) {
	a, c := p.Nodes[0], p.Nodes[2]
	before := p.Servers()
	for _, power := range []reconfigure.Power{reconfigure.PowerOff, "", reconfigure.Shelved, ""} {
		switched := p.switched(mixed.Desired, power, c)
		effect := map[bool]reconfigure.Effect{true: reconfigure.EffectStop, false: reconfigure.EffectStart}[power != ""]
		preview := p.preview(switched)
		p.wantEffect(preview, c, effect)
		p.apply(preview)
		p.wantDesired(switched.Desired)
		p.wantSame(before, p.Control, a, c)
		p.wantInstances(p.Control, a, c)
		if status, want := p.Servers()[c].Status, switched.Desired[c].Status(); status != want {
			p.Errorf("%s is %s, want %s", c, status, want)
		}
		if is := p.instances()[c].Made.Power; is != power {
			p.Errorf("the state has %s as %q, want %q", c, is, power)
		}
		if again := p.preview(switched); len(again.Changes) > 0 {
			p.Errorf("the same again: %+v", again.Changes)
		}
	}
	p.unrecorded(mixed, c)
	preview := p.preview(p.plan(mixed.Desired, reconfigure.Replace, 1, c))
	p.wantEffect(preview, c, reconfigure.EffectReplace)
	p.apply(preview)
	if s := p.Servers()[c]; s.ID == before[c].ID || !s.Active() {
		p.Errorf("%s should be replaced: %+v", c, s)
	}
}

// unrecorded stops an instance without the provisioner. A plan that stops the instance then changes nothing in the
// cloud, and the state has the instance as stopped after it.
func (p provisionerRule) unrecorded(mixed reconfigure.Plan, node string) {
	p.Stop(node)
	if is := p.instances()[node].Made.Power; is != "" {
		p.Errorf("the state has %s as %q before the cloud is asked", node, is)
	}
	switched := p.switched(mixed.Desired, reconfigure.PowerOff, node)
	preview := p.preview(switched)
	if len(preview.Changes) > 0 || !preview.Behind {
		p.Errorf("the preview for a stopped instance: %+v", preview)
	}
	p.apply(preview)
	p.wantDesired(switched.Desired)
	if is := p.instances()[node].Made.Power; is != reconfigure.PowerOff {
		p.Errorf("the state has %s as %q, want %q", node, is, reconfigure.PowerOff)
	}
	if again := p.preview(switched); again.Behind || len(again.Changes) > 0 {
		p.Errorf("the same again: %+v", again)
	}
}

// applyAgain applies a plan that removes a server in ERROR, a second time if it fails: a provider may give up when it
// sees that state while the cloud still removes the server.
func (p provisionerRule) applyAgain(plan reconfigure.Plan) {
	failures, err := p.Provisioner.Apply(p.Context(), p.preview(plan), p.watch, nil)
	if err == nil && len(failures) == 0 {
		return
	}
	p.Logf("applied again: failures %v, error %v", failures, err)
	p.apply(p.preview(plan))
}

// failsAlone lets two of three nodes end in ERROR: they are tainted. One is removed, and one is replaced.
func (p provisionerRule) failsAlone() {
	a, b, c := p.Nodes[0], p.Nodes[1], p.Nodes[2]
	p.FailCreate(b)
	p.FailCreate(c)
	plan := p.plan(nil, reconfigure.Create, 1, p.Control, a, b, c)
	plan.Shared = true
	failures, err := p.Provisioner.Apply(p.Context(), p.preview(plan), p.watch, nil)
	if err != nil || len(failures) != 2 || failures[b] == nil || failures[c] == nil {
		p.Fatalf("two nodes should fail: %v, error %v", failures, err)
	}
	p.wantDesired(plan.Desired)
	instances := p.instances()
	for node, want := range map[string]bool{p.Control: false, a: false, b: true, c: true} {
		if i, ok := instances[node]; !ok || i.Tainted != want {
			p.Errorf("%s should be tainted: %t, but it is %+v", node, want, i)
		}
	}
	before := p.Servers()
	p.applyAgain(p.plan(plan.Desired, reconfigure.Create, 1, c))
	p.wantSame(before, p.Control, a)
	p.applyAgain(p.plan(plan.Desired, reconfigure.Remove, 0, b))
	p.wantInstances(p.Control, a, c)
	p.wantSame(before, p.Control, a)
}

// refusal checks that a preview with an unrequested change is refused.
func (p provisionerRule) refusal() {
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

// forgets removes an instance from the state, twice. The cloud keeps it, and nothing else changes.
func (p provisionerRule) forgets() {
	a, b := p.Nodes[0], p.Nodes[1]
	first := p.plan(nil, reconfigure.Create, 1, p.Control, a, b)
	first.Shared = true
	p.apply(p.preview(first))
	before, left := p.Servers(), maps.Clone(first.Desired)
	delete(left, a)
	for range 2 {
		if err := p.Provisioner.ForgetInstances(p.Context(), left, nodeset.Of(a)); err != nil {
			p.Fatal(err)
		}
	}
	p.wantSame(before, p.Control, a, b)
	p.wantDesired(left)
	if is := p.instances(); is[a].ID != "" || is[b].ID == "" || is[p.Control].ID == "" {
		p.Errorf("after %s was forgotten, the state has %+v", a, is)
	}
}

// adoption interrupts Terraform when the servers are ACTIVE. They are tainted in the state, and are adopted. A server
// that the state lacks is also adopted. One that differs from the plan is not changed.
func (p provisionerRule) adoption() {
	a, b, c := p.Nodes[0], p.Nodes[1], p.Nodes[2]
	if p.NoAdoption {
		p.notAdopted(a)
		return
	}
	first := p.plan(nil, reconfigure.Create, 1, p.Control, c)
	first.Shared = true
	p.interrupted(p.preview(first), p.Control, c) // with the shared resources, which are complete
	made := map[string]reconfigure.Server{p.Control: p.Servers()[p.Control], c: p.Servers()[c]}
	if adopted, failures, err := p.Provisioner.Adopt(p.Context(), first, made); err != nil || adopted.Len() != 2 {
		p.Fatalf("adopted %s, failures %v, error %v", adopted, failures, err)
	}
	again := p.plan(first.Desired, reconfigure.Create, 1, p.Control, c)
	again.Shared = true
	if rest := p.preview(again); len(rest.Changes) > 0 {
		p.Errorf("after the adoption there is left: %+v", rest.Changes)
	}
	p.Forget(c)
	plan := p.plan(first.Desired, reconfigure.Create, 1, a, b)
	p.interrupted(p.preview(plan), a, b)

	plan = p.and(plan, reconfigure.Create, 1, c)
	other := p.Spec(b, 2)
	plan.Desired[b] = other
	servers := map[string]reconfigure.Server{}
	for _, node := range p.Nodes {
		servers[node] = p.Servers()[node]
	}
	adopted, failures, err := p.Provisioner.Adopt(p.Context(), plan, servers)
	if err != nil || !adopted.Equal(nodeset.Of(a, c)) || len(failures) != 1 || failures[b] == nil {
		p.Fatalf("adopted %s, failures %v, error %v", adopted, failures, err)
	}
	for node, tainted := range map[string]bool{a: false, b: true, c: false} {
		if i := p.instances()[node]; i.ID != servers[node].ID || i.Tainted != tainted || i.Address == "" && !tainted {
			p.Errorf("%s is %+v, and in the cloud %+v", node, i, servers[node])
		}
	}
	plan.Desired[b] = p.Spec(b, 1)
	delete(servers, c)
	adopted, failures, err = p.Provisioner.Adopt(p.Context(), plan, servers) // one of them is adopted already
	if err != nil || !adopted.Equal(nodeset.Of(a, b)) || len(failures) > 0 {
		p.Fatalf("adopted %s, failures %v, error %v", adopted, failures, err)
	}
	if rest := p.preview(p.plan(plan.Desired, reconfigure.Create, 1, a, b, c)); len(rest.Changes) > 0 {
		p.Errorf("an adopted instance would be changed: %+v", rest.Changes)
	}
	p.wantInstances(p.Control, a, b, c)
	if p.Rebuild != nil {
		p.rebuilt(plan, a)
	}
}

// rebuilt adopts an instance that is finished in the state, with another image. The state then has the new image.
func (p provisionerRule) rebuilt(plan reconfigure.Plan, node string) {
	p.Helper()
	p.Rebuild(node, 2)
	if i := p.instances()[node]; i.Made.ImageID != p.Spec(node, 1).ImageID {
		p.Errorf("the state has %+v before the cloud is asked", i)
	}
	plan.Desired[node] = p.Spec(node, 2)
	servers := map[string]reconfigure.Server{node: p.Servers()[node]}
	adopted, failures, err := p.Provisioner.Adopt(p.Context(), plan, servers)
	if err != nil || !adopted.Contains(node) || len(failures) > 0 {
		p.Fatalf("adopted %s, failures %v, error %v", adopted, failures, err)
	}
	if i := p.instances()[node]; i.Made.ImageID != p.Spec(node, 2).ImageID || i.ID != servers[node].ID || i.Tainted {
		p.Errorf("the state has %+v, and the cloud %+v", i, servers[node])
	}
}

// notAdopted checks that an instance that is missing in the state stays unknown to it.
func (p provisionerRule) notAdopted(node string) {
	plan := p.plan(nil, reconfigure.Create, 1, node)
	adopted, failures, err := p.Provisioner.Adopt(p.Context(), plan, map[string]reconfigure.Server{
		node: {ID: "1", Node: node, Status: reconfigure.ServerActive},
	})
	if err != nil || adopted.Len() > 0 || failures[node] == nil {
		p.Errorf("adopted %s, failures %v, error %v", adopted, failures, err)
	}
	p.wantInstances()
}

// interrupted applies a preview, and interrupts it when the servers of nodes are ACTIVE, before Terraform sees that.
func (p provisionerRule) interrupted(preview reconfigure.Preview, nodes ...string) {
	p.Helper()
	interrupt, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		failures, err := p.Provisioner.Apply(p.Context(), preview, p.watch, interrupt)
		for _, node := range nodes {
			if err != nil || !errors.Is(failures[node], reconfigure.ErrInterrupted) {
				p.Errorf("%s should be interrupted: %v, error %v", node, failures, err)
			}
		}
	}()
	active := func(node string) bool { return p.Servers()[node].Active() }
	for all := false; !all; {
		select {
		case <-ended:
			p.Fatal("Terraform was not interrupted")
		case <-time.After(10 * time.Millisecond):
			all = !slices.ContainsFunc(nodes, func(node string) bool { return !active(node) })
		}
	}
	close(interrupt)
	<-ended
	for _, node := range nodes {
		if i := p.instances()[node]; !i.Tainted || i.ID != p.Servers()[node].ID {
			p.Errorf("%s should be tainted: %+v", node, i)
		}
	}
}

// done checks that all calls fail after the context has ended. A preview made before is not carried out.
func (p provisionerRule) done() {
	ctx, cancel := context.WithCancel(p.Context())
	cancel()
	plan := p.plan(nil, reconfigure.Create, 1, p.Control)
	plan.Shared = true
	if _, err := p.Provisioner.State(ctx); !errors.Is(err, context.Canceled) {
		p.Errorf("instances: error %v", err)
	}
	if _, err := p.Provisioner.Preview(ctx, plan); !errors.Is(err, context.Canceled) {
		p.Errorf("preview: error %v", err)
	}
	failures, err := p.Provisioner.Apply(ctx, p.preview(plan), p.watch, nil)
	if !errors.Is(err, context.Canceled) || failures != nil {
		p.Errorf("apply: %v, error %v", failures, err)
	}
	p.wantInstances()
}

// plan returns a plan with one action for nodes, based on the previous map.
func (p provisionerRule) plan(
	before map[string]reconfigure.Spec, a reconfigure.Action, version int, nodes ...string,
) reconfigure.Plan {
	plan := reconfigure.Plan{Desired: maps.Clone(before)}
	if before == nil {
		plan.Desired = map[string]reconfigure.Spec{}
	}
	return p.and(plan, a, version, nodes...)
}

// and adds changes to a plan.
func (p provisionerRule) and(
	plan reconfigure.Plan, a reconfigure.Action, version int, nodes ...string,
) reconfigure.Plan {
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

// switched returns a plan that starts or stops a node.
func (p provisionerRule) switched(
	before map[string]reconfigure.Spec, to reconfigure.Power, node string,
) reconfigure.Plan {
	plan := reconfigure.Plan{Desired: maps.Clone(before)}
	spec := before[node]
	spec.Power = to
	plan.Desired[node] = spec
	action := reconfigure.Start
	if to != "" {
		action = reconfigure.Stop
	}
	plan.Changes = []reconfigure.Change{{
		Node: node, Action: action, Spec: spec, Reason: "test", Requests: []reconfigure.RequestID{1},
	}}
	return plan
}

func (p provisionerRule) watch(string, string) {}

func (p provisionerRule) preview(plan reconfigure.Plan) reconfigure.Preview {
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

func (p provisionerRule) apply(preview reconfigure.Preview) {
	p.Helper()
	failures, err := p.Provisioner.Apply(p.Context(), preview, p.watch, nil)
	if err != nil || len(failures) > 0 {
		p.Fatalf("failures %v, error %v", failures, err)
	}
}

func (p provisionerRule) instances() map[string]reconfigure.Instance {
	p.Helper()
	state, err := p.Provisioner.State(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return state.Instances
}

func (p provisionerRule) wantDesired(want map[string]reconfigure.Spec) {
	p.Helper()
	state, err := p.Provisioner.State(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	got := state.Desired
	if want == nil {
		want = map[string]reconfigure.Spec{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.Errorf("the map of nodes (-want +got):\n%s", diff)
	}
}

// wantInstances checks that exactly these nodes have instances, none of them tainted, as the cloud has them.
func (p provisionerRule) wantInstances(nodes ...string) {
	p.Helper()
	servers, instances := p.Servers(), p.instances()
	addresses := map[string]string{}
	if len(servers) != len(nodes) || len(instances) != len(nodes) {
		p.Errorf("there should be instances of %v; the provisioner has %+v, the cloud %v", nodes, instances, servers)
	}
	for _, node := range nodes {
		i := instances[node]
		if i.Node != node || i.ID == "" || i.ID != servers[node].ID || i.Address == "" || i.Tainted {
			p.Errorf("%s is %+v, and in the cloud %+v", node, i, servers[node])
		}
		if other, taken := addresses[i.Address]; taken {
			p.Errorf("%s and %s have the same address %s", node, other, i.Address)
		}
		addresses[i.Address] = node
	}
}

// wantSame checks that nodes still have their instances.
func (p provisionerRule) wantSame(before map[string]reconfigure.Server, nodes ...string) {
	p.Helper()
	now := p.Servers()
	for _, node := range nodes {
		if before[node].ID == "" || now[node].ID != before[node].ID {
			p.Errorf("%s had instance %q, and has %q", node, before[node].ID, now[node].ID)
		}
	}
}

// wantEffect checks that a preview has one of the effects for a node, among others.
func (p provisionerRule) wantEffect(preview reconfigure.Preview, node string, effects ...reconfigure.Effect) {
	p.Helper()
	for _, c := range preview.Changes {
		for _, e := range effects {
			if c.Node == node && c.Effect == e {
				return
			}
		}
	}
	p.Errorf("%s should have any of %v, but the preview has %+v", node, effects, preview.Changes)
}
