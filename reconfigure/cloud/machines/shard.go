package machines

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Shard switches the machines of one shard, instead of Terraform. A machine is in service if the map of nodes has it.
// An entry changes to "on" or "off" only after the machine has changed. So if a worker dies, the next one switches
// the machine again.
type Shard struct {
	*Client
	name string
}

// Shard returns the shard with a name.
func (c *Client) Shard(name string) *Shard { return &Shard{c, name} }

// State returns the entries of the shard, each with its machine.
func (s *Shard) State(ctx context.Context) (reconfigure.State, error) {
	desired, err := s.nodes(ctx)
	if err != nil {
		return reconfigure.State{}, err
	}
	return s.StateOf(ctx, desired, true)
}

// StateOf is State, for a map of nodes that was read already.
func (s *Shard) StateOf(ctx context.Context, all map[string]reconfigure.Spec, _ bool) (reconfigure.State, error) {
	state := reconfigure.State{
		Desired: reconfigure.InShard(all, s.name), Instances: map[string]reconfigure.Instance{},
	}
	for node, spec := range state.Desired {
		if spec.HasInstance() {
			state.Instances[node] = reconfigure.Instance{
				Node: node, ID: node, Address: s.address(ctx, node), Made: spec,
			}
		}
	}
	return state, ctx.Err()
}

// Addresses returns the addresses of all nodes of the shard, including those not in service.
func (s *Shard) Addresses(ctx context.Context, _ bool) (map[string]string, error) {
	desired, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for node := range reconfigure.InShard(desired, s.name) {
		if address := s.address(ctx, node); address != "" {
			addresses[node] = address
		}
	}
	return addresses, nil
}

// Owned returns none: machines have no marks.
func (s *Shard) Owned(context.Context) (servers, ports []string, err error) { return nil, nil, nil }

// Preview returns what Apply would do. It runs no command. The changes have no Kind: an operation must not continue
// before Apply has ended, since a running machine may be switched off first.
func (s *Shard) Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error) {
	state, err := s.State(ctx)
	if err != nil {
		return reconfigure.Preview{}, err
	}
	preview := reconfigure.Preview{Plan: p}
	for _, c := range s.changes(p, state.Desired) {
		was := state.Desired[c.Node]
		effect := map[reconfigure.Action]reconfigure.Effect{
			reconfigure.Create: reconfigure.EffectCreate, reconfigure.Replace: reconfigure.EffectReplace,
			reconfigure.Start: reconfigure.EffectStart, reconfigure.Stop: reconfigure.EffectStop,
			reconfigure.Remove: reconfigure.EffectDelete,
		}[c.Action]
		if c.Action == reconfigure.Create && was == c.Spec || c.Action == reconfigure.Remove && !was.HasInstance() {
			continue
		}
		preview.Changes = append(preview.Changes, reconfigure.ResourceChange{
			Address: "machine." + c.Node, Node: c.Node, Effect: effect,
		})
	}
	return preview, nil
}

// changes returns the changes of a plan in this shard.
func (s *Shard) changes(p reconfigure.Plan, desired map[string]reconfigure.Spec) []reconfigure.Change {
	var mine []reconfigure.Change
	for _, c := range p.Changes {
		wanted, stays := p.Desired[c.Node]
		_, there := desired[c.Node]
		if c.Action.Provisions() && (there || stays && wanted.Shard == s.name) {
			mine = append(mine, c)
		}
	}
	return mine
}

// Apply switches the machines of a preview at the same time. An interrupt has no effect: each command has its time
// limit.
func (s *Shard) Apply(
	ctx context.Context, p reconfigure.Preview, watch func(node, message string), _ <-chan struct{},
) (reconfigure.Failures, error) {
	all, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	was := reconfigure.InShard(all, s.name)
	changes := s.changes(p.Plan, was)
	e := entries{shard: s, nodes: map[string]reconfigure.Spec{}}
	maps.Copy(e.nodes, reconfigure.InShard(p.Plan.Desired, s.name))
	for _, c := range changes {
		if spec, there := was[c.Node]; there {
			e.nodes[c.Node] = spec
		} else {
			delete(e.nodes, c.Node)
		}
	}
	if !maps.Equal(e.nodes, was) {
		if err := e.keep(ctx); err != nil {
			return nil, err
		}
	}
	failures := reconfigure.Failures{}
	var lock sync.Mutex
	var wait sync.WaitGroup
	for _, c := range changes {
		wait.Go(func() {
			wanted, stays := p.Plan.Desired[c.Node]
			watch(c.Node, string(c.Action)+" machine "+c.Node)
			err := s.carryOut(ctx, &e, c, was[c.Node])
			if err == nil && stays {
				err = e.put(ctx, c.Node, wanted)
			} else if err == nil {
				err = e.remove(ctx, c.Node)
			}
			if err != nil {
				lock.Lock()
				defer lock.Unlock()
				failures[c.Node] = err
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return failures, nil
}

// carryOut switches one machine.
func (s *Shard) carryOut(ctx context.Context, e *entries, c reconfigure.Change, was reconfigure.Spec) error {
	flavor := c.Spec.FlavorID
	if c.Action == reconfigure.Remove {
		if !was.HasInstance() {
			return nil
		}
		flavor = was.FlavorID
	}
	m, err := s.machine(ctx, c.Node, flavor)
	if err != nil {
		return err
	}
	switch c.Action {
	case reconfigure.Create, reconfigure.Replace:
		return s.takeIn(ctx, e, c, m)
	case reconfigure.Start:
		return s.on(ctx, m)
	case reconfigure.Stop, reconfigure.Remove:
		return s.off(ctx, m)
	}
	return fmt.Errorf("a machine does not support the change %q", c.Action)
}

// takeIn takes a machine into service. If Slurm waits for the machine, it waits for a boot after its call: then
// takeIn first switches off a running machine.
func (s *Shard) takeIn(ctx context.Context, e *entries, c reconfigure.Change, m machine) error {
	if m.address == "" {
		return reconfigure.Classify(reconfigure.ClassMissing,
			fmt.Errorf("%s has no address: add it to addresses in %s, or its name to DNS", m.node, File))
	}
	if !m.flavor.switched() {
		return nil
	}
	status, err := s.status(ctx, m)
	if err != nil {
		return err
	}
	boots := status != statusOff && (c.Action == reconfigure.Replace || !c.Deadline.IsZero())
	if boots && c.Action == reconfigure.Create { // for a machine in service the operation has asked Slurm
		if err := s.unused(ctx, m.node); err != nil {
			return err
		}
	}
	begun := c.Spec
	begun.Power = reconfigure.PowerOff
	if err := e.put(ctx, m.node, begun); err != nil {
		return err
	}
	if boots {
		if err := s.off(ctx, m); err != nil {
			return err
		}
	}
	return s.on(ctx, m)
}

// unused returns an error if a job runs on a node that is not in service, or if Slurm does not answer: the map of
// nodes may have been lost while the cluster was in use.
func (s *Shard) unused(ctx context.Context, node string) error {
	all, err := s.nodes(ctx)
	if err != nil {
		return err
	}
	refused := func(err error) error { return reconfigure.Classify(reconfigure.ClassRefused, err) }
	name := s.access.Means.Control
	control := reconfigure.Instance{Node: name, ID: name, Address: s.address(ctx, name)}
	if !all[name].HasInstance() || s.access.Means.States == nil {
		return nil
	}
	states, err := s.access.Means.States(ctx, control, nodeset.Of(node))
	if err != nil {
		return refused(fmt.Errorf("not switched off: the machine runs, and Slurm does not answer: %w", err))
	}
	if state := states[node]; state.Running() || state.Usable() {
		return refused(errors.New("not switched off: the machine runs, and Slurm uses it"))
	}
	return nil
}

// entries is the shard's part of the map of nodes during an Apply.
type entries struct {
	shard *Shard
	lock  sync.Mutex
	nodes map[string]reconfigure.Spec
}

func (e *entries) put(ctx context.Context, node string, spec reconfigure.Spec) error {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.nodes[node] == spec {
		return nil
	}
	e.nodes[node] = spec
	return e.keep(ctx)
}

func (e *entries) remove(ctx context.Context, node string) error {
	e.lock.Lock()
	defer e.lock.Unlock()
	delete(e.nodes, node)
	return e.keep(ctx)
}

// keep writes the entries. The caller has the lock or is the only user.
func (e *entries) keep(ctx context.Context) error {
	if e.shard.access.Means.KeepNodes == nil {
		return errors.New("the map of nodes cannot be written here")
	}
	return e.shard.access.Means.KeepNodes(ctx, e.shard.name, e.nodes)
}

// Adopt adopts nothing: the map of nodes is the whole state.
func (s *Shard) Adopt(
	_ context.Context, _ reconfigure.Plan, servers map[string]reconfigure.Server,
) (adopted nodeset.NodeSet, failures reconfigure.Failures, err error) {
	failures = reconfigure.Failures{}
	for node := range servers {
		failures[node] = errors.New("a machine is not adopted")
	}
	return adopted, failures, nil
}

// ForgetInstances returns an error: no machine is set aside.
func (s *Shard) ForgetInstances(context.Context, map[string]reconfigure.Spec, nodeset.NodeSet) error {
	return errors.New("a machine is not forgotten")
}

// Discard does nothing.
func (s *Shard) Discard(reconfigure.Preview) error { return nil }
