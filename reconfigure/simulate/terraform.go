package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// resource is a node in Terraform's state.
type resource struct {
	id, address string // empty: the state has only the port
	spec        reconfigure.Spec
	tainted     bool
}

// BackUp copies Terraform's map of nodes and its states. restore puts the copy in their place: everything that was made
// or removed since then is unknown to Terraform.
func (w *World) BackUp() (restore func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	desired, state := maps.Clone(w.terraform.desired), map[string]*resource{}
	for node, r := range w.terraform.state {
		is := *r
		state[node] = &is
	}
	return func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.terraform.desired, w.terraform.state = desired, state
	}
}

// foreseen is a saved plan of Terraform.
type foreseen struct {
	shard string
	state map[string]*resource // the state of the plan's nodes after the refresh
}

// Provisioner is Terraform in one shard of a World.
type Provisioner struct {
	*World
	shard  string
	worker *Worker
}

// Shard returns Terraform in a shard, for a new worker; an empty name means the default shard.
func (w *World) Shard(name string) *Provisioner { return &Provisioner{w, name, &Worker{}} }

// has reports whether a node belongs to the shard. A node never changes its shard.
func (p *Provisioner) has(node string) bool {
	if spec, told := p.terraform.desired[node]; told {
		return spec.Shard == p.shard
	}
	if r := p.terraform.state[node]; r != nil {
		return r.spec.Shard == p.shard
	}
	return p.cluster.Shard(node) == p.shard
}

// here returns the part of a map of nodes that belongs to the shard.
func (p *Provisioner) here(nodes map[string]reconfigure.Spec) map[string]reconfigure.Spec {
	part := map[string]reconfigure.Spec{}
	for node, spec := range nodes {
		if p.has(node) {
			part[node] = spec
		}
	}
	return part
}

// keep replaces the shard's part of the map of nodes.
func (p *Provisioner) keep(nodes map[string]reconfigure.Spec) {
	for node := range p.here(p.terraform.desired) {
		delete(p.terraform.desired, node)
	}
	for node, spec := range nodes {
		p.terraform.desired[node] = spec.Stored()
	}
}

// State returns the last applied map of nodes, and every instance in the state, also tainted ones.
func (p *Provisioner) State(ctx context.Context) (reconfigure.State, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return reconfigure.State{}, err
	}
	s := reconfigure.State{Desired: p.here(p.terraform.desired), Instances: map[string]reconfigure.Instance{}}
	for node, r := range p.terraform.state {
		if !p.has(node) {
			continue
		}
		i := reconfigure.Instance{Node: node, ID: r.id, Address: r.address, Tainted: r.tainted}
		if r.id != "" {
			i.Made = r.spec
		}
		s.Instances[node] = i
	}
	return s, nil
}

// State returns the state of all shards.
func (w *World) State(ctx context.Context) (reconfigure.State, error) {
	all := reconfigure.State{Desired: map[string]reconfigure.Spec{}, Instances: map[string]reconfigure.Instance{}}
	for _, shard := range w.allShards() {
		part, err := w.Shard(shard).State(ctx)
		if err != nil {
			return reconfigure.State{}, err
		}
		maps.Copy(all.Desired, part.Desired)
		maps.Copy(all.Instances, part.Instances)
	}
	return all, nil
}

func (w *World) allShards() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	all := maps.Clone(w.terraform.desired)
	for node, r := range w.terraform.state {
		all[node] = r.spec
	}
	for node := range w.cluster.Nodes().All() {
		all[node] = w.spec(node)
	}
	return reconfigure.Shards(all)
}

// refresh removes instances that the cloud no longer has from the state, and returns the others with the cloud's
// values.
func (p *Provisioner) refresh(nodes nodeset.NodeSet) map[string]*resource {
	p.advance()
	found := map[string]*resource{}
	for node := range nodes.All() {
		r := p.terraform.state[node]
		if r == nil || r.id == "" {
			continue
		}
		s := p.server(r.id)
		if s == nil {
			delete(p.terraform.state, node)
			continue
		}
		is := *r
		is.spec.ImageID, is.spec.FlavorID, is.spec.Power = s.spec.ImageID, s.spec.FlavorID, s.power
		found[node] = &is
	}
	return found
}

// Preview returns what Apply would do.
func (p *Provisioner) Preview(ctx context.Context, plan reconfigure.Plan) (reconfigure.Preview, error) {
	end, err := p.work(ctx)
	if err != nil {
		return reconfigure.Preview{}, err
	}
	defer end()
	defer p.happened(AfterPreview)
	p.spend(ctx, Planning)
	p.lock.Lock()
	defer p.lock.Unlock()
	switch {
	case ctx.Err() != nil:
		return reconfigure.Preview{}, ctx.Err()
	case p.ordered(StateLocked):
		return reconfigure.Preview{}, stateLocked()
	case !plan.Provisions():
		return reconfigure.Preview{Plan: plan}, nil
	}
	seen := &foreseen{p.shard, p.refresh(plan.Nodes())}
	unreadable := reconfigure.Failures{}
	for node := range plan.Provisioned().Difference(plan.Nodes(reconfigure.Create, reconfigure.Remove)).Intersect(
		p.orders.faults[Unreadable]).All() {
		unreadable[node] = failure{Unreadable}
	}
	if len(unreadable) > 0 {
		return reconfigure.Preview{}, &reconfigure.Unplannable{Failures: unreadable}
	}
	before := maps.Clone(p.terraform.state)
	maps.Copy(p.terraform.state, seen.state)
	changes, unasked := p.foresee(plan)
	p.terraform.state = before
	power := plan.Nodes(reconfigure.Start, reconfigure.Stop)
	for _, c := range unasked {
		unreadable[c.Node] = &reconfigure.Refusal{Changes: []reconfigure.ResourceChange{c}}
	}
	if others := unreadable.Nodes().Difference(power); len(unasked) > 0 && others.Empty() {
		return reconfigure.Preview{}, &reconfigure.Unplannable{Failures: unreadable}
	}
	if len(unasked) > 0 {
		return reconfigure.Preview{}, &reconfigure.Refusal{Changes: unasked}
	}
	preview := reconfigure.Preview{Plan: plan, File: fmt.Sprint("preview-", p.number()), Changes: changes}
	for node, r := range seen.state {
		preview.Behind = preview.Behind || *r != *before[node]
	}
	p.terraform.previews[preview.File] = seen
	return preview, nil
}

// foresee returns Terraform's changes, divided into requested and unrequested ones.
func (p *Provisioner) foresee(plan reconfigure.Plan) (changes, unasked []reconfigure.ResourceChange) {
	if plan.Shared && p.shard == "" && p.terraform.shared != (len(plan.Desired) > 0) {
		effect := reconfigure.EffectDelete
		if !p.terraform.shared {
			effect = reconfigure.EffectCreate
		}
		changes = append(changes, reconfigure.ResourceChange{Address: "shared", Effect: effect})
	}
	for _, c := range plan.Changes {
		change, fair := p.change(c)
		switch {
		case change.Effect == "":
		case fair:
			changes = append(changes, change)
		default:
			unasked = append(unasked, change)
		}
	}
	for node := range p.orders.faults[OtherImage].Difference(plan.Nodes()).All() {
		if p.has(node) && p.terraform.state[node] != nil {
			unasked = append(unasked, instanceChange(node, reconfigure.EffectRebuild))
		}
	}
	return changes, unasked
}

func instanceChange(node string, e reconfigure.Effect) reconfigure.ResourceChange {
	return reconfigure.ResourceChange{Address: "instance." + node, Node: node, Effect: e, Kind: reconfigure.KindInstance}
}

// change returns the change that Terraform plans for a requested change, with no effect if there is nothing to do, and
// whether it was requested.
func (p *Provisioner) change(c reconfigure.Change) (change reconfigure.ResourceChange, fair bool) {
	r, spec := p.terraform.state[c.Node], c.Spec.Stored()
	make := c.Action == reconfigure.Create || c.Action == reconfigure.Replace
	powers := c.Action == reconfigure.Start || c.Action == reconfigure.Stop
	switch {
	case c.Action == reconfigure.Remove && r != nil && r.id == "":
		port := reconfigure.ResourceChange{Address: "port." + c.Node, Node: c.Node, Effect: reconfigure.EffectDelete}
		port.Kind = reconfigure.KindPort
		return port, true
	case c.Action == reconfigure.Remove && r != nil:
		return instanceChange(c.Node, reconfigure.EffectDelete), true
	case !make && !powers:
		return change, true
	case r == nil || r.id == "":
		return instanceChange(c.Node, reconfigure.EffectCreate), c.Action != reconfigure.Stop
	case powers && (r.tainted || r.spec.Running() != spec.Running() || p.struck(OtherTags, c.Node)):
		return instanceChange(c.Node, reconfigure.EffectUpdate), false
	case powers && r.spec.Power != spec.Power && spec.Power == "":
		return instanceChange(c.Node, reconfigure.EffectStart), c.Action == reconfigure.Start
	case powers && r.spec.Power != spec.Power:
		return instanceChange(c.Node, reconfigure.EffectStop), c.Action == reconfigure.Stop
	case powers:
		return change, true
	case r.tainted:
		return instanceChange(c.Node, reconfigure.EffectReplace), true
	case r.spec != spec && !r.spec.Stopped():
		return instanceChange(c.Node, reconfigure.EffectRebuild), c.Action == reconfigure.Replace
	case c.Action == reconfigure.Replace:
		return instanceChange(c.Node, reconfigure.EffectReplace), true
	}
	return change, true
}

// ForgetInstances removes instances from the state, which keeps their ports.
func (p *Provisioner) ForgetInstances(
	ctx context.Context, desired map[string]reconfigure.Spec, nodes nodeset.NodeSet,
) error {
	end, err := p.work(ctx)
	if err != nil {
		return err
	}
	defer end()
	p.lock.Lock()
	defer p.lock.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case p.ordered(StateLocked):
		return stateLocked()
	}
	for node := range nodes.All() {
		if r := p.terraform.state[node]; r != nil {
			p.terraform.state[node] = &resource{spec: r.spec}
		}
	}
	p.keep(desired)
	p.log(p.called("forget"), nodes)
	return nil
}

// Discard forgets a preview.
func (p *Provisioner) Discard(preview reconfigure.Preview) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	delete(p.terraform.previews, preview.File)
	return nil
}

// Adopt adds servers to the state as the finished instances of their nodes, if Terraform would not change them.
func (p *Provisioner) Adopt(ctx context.Context, plan reconfigure.Plan, servers map[string]reconfigure.Server) (
	adopted nodeset.NodeSet, failures reconfigure.Failures, err error,
) {
	end, err := p.work(ctx)
	if err != nil {
		return adopted, nil, err
	}
	defer end()
	defer p.happened(AfterAdopt)
	p.spend(ctx, Planning)
	p.lock.Lock()
	defer p.lock.Unlock()
	switch {
	case ctx.Err() != nil:
		return adopted, nil, ctx.Err()
	case p.ordered(StateLocked):
		return adopted, nil, stateLocked()
	}
	p.advance()
	p.keep(plan.Desired)
	failures = reconfigure.Failures{}
	var names []string
	for node := range servers {
		if problem := p.adopt(node, servers[node].ID); problem != nil {
			failures[node] = problem
			continue
		}
		names = append(names, node)
	}
	if adopted = nodeset.Of(names...); !adopted.Empty() {
		p.log(p.called("adopt"), adopted)
	}
	return adopted, failures, nil
}

func (p *Provisioner) adopt(node, id string) error {
	s, spec, r := p.server(id), p.terraform.desired[node], p.terraform.state[node]
	switch {
	case spec == reconfigure.Spec{}:
		return errors.New("it cannot be adopted: it is not in the map of nodes")
	case s == nil || s.node != node || p.status(s) != spec.Status():
		return fmt.Errorf("it cannot be adopted: server %s is not %s", id, spec.Status())
	case r != nil && r.id != "" && r.id != id:
		return fmt.Errorf("it cannot be adopted: the state has server %s", r.id)
	case s.spec.Running() != spec.Running() || p.struck(NotProven, node):
		return errors.New("it cannot be adopted: Terraform would change instance." + node)
	}
	p.terraform.state[node] = &resource{id: id, address: s.address, spec: spec}
	return nil
}

// tool returns the tool for Terraform with this state, which has a lock.
func (p *Provisioner) tool() Tool {
	if p.shard == "" {
		return Terraform
	}
	return Terraform + " of " + Tool(p.shard)
}

// called returns the words of a call, with the shard unless it is the default one.
func (p *Provisioner) called(what string) string {
	if p.shard == "" {
		return what
	}
	return what + " in " + p.shard
}

// inWords describes Terraform's changes in one line, grouped by effect.
func inWords(changes []reconfigure.ResourceChange) string {
	of := map[reconfigure.Effect][]string{}
	var parts []string
	for _, c := range changes {
		if c.Node == "" {
			parts = append(parts, string(c.Effect)+" "+c.Address)
			continue
		}
		of[c.Effect] = append(of[c.Effect], c.Node)
	}
	for _, effect := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, string(effect)+" "+nodeset.Of(of[effect]...).String())
	}
	if len(parts) == 0 {
		return "what the refresh has found"
	}
	return strings.Join(parts, ", ")
}
