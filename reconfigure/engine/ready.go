package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// greet waits until the instances answer.
func (b *batch) greet(ctx context.Context, nodes nodeset.NodeSet) error {
	var instances []reconfigure.Instance
	for node := range nodes.All() {
		instance, ok := b.instances[node]
		if !ok {
			b.fail(ctx, reconfigure.Failures{node: errors.New("it was made, but Terraform's state does not have it")})
			continue
		}
		instances = append(instances, instance)
	}
	var failed reconfigure.Failures
	b.testify(ctx, b.minded(ctx, nodes.Intersect(b.left()), reconfigure.ClassBoot, func() {}, func() {
		failed = b.Greeter.Await(ctx, instances, b.fresh, b.until(nodes))
	}))
	b.failInstance(ctx, allByDefault(reconfigure.ClassSSH, failed))
	return nil
}

// configure runs the playbooks, when it is this batch's turn with them. By then other batches may have made and removed instances: they are among those that are told
// of each other, or not any more. The nodes that failed are left out, since nobody should be told of them; but not those whose instance was there before and lives
// on: the others must not forget a node that has a job.
func (b *batch) configure(ctx context.Context, nodes nodeset.NodeSet) error {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	late := func() { end(errLate) }
	var (
		done func()
		err  error
	)
	b.testify(ctx, b.minded(ctx, nodes, reconfigure.ClassOther, late, func() { done, err = b.Common.ansible.take(running) }))
	switch {
	case errors.Is(context.Cause(running), errLate):
		if err == nil {
			done()
		}
		return nil
	case err != nil:
		return err
	}
	defer done()
	nodes = nodes.Intersect(b.left())
	b.instances = b.Common.known()
	told := maps.Clone(b.instances)
	maps.DeleteFunc(told, func(node string, instance reconfigure.Instance) bool {
		change, changes := b.plan.Of(node)
		_, over := b.verdicts[node]
		lives := !changes || b.held.Contains(node) || slices.Contains([]reconfigure.Action{reconfigure.Configure, reconfigure.Drain, reconfigure.Undrain}, change.Action)
		return instance.Tainted || over && !lives
	})
	// The playbooks have time limits of their own where a node may hang; this one keeps a run that hangs all the same from holding up every later request.
	const longest = time.Hour
	limited, cancel := context.WithTimeout(running, longest)
	defer cancel()
	extent := b.extent(ctx, nodes)
	var failed reconfigure.Failures
	b.testify(ctx, b.minded(ctx, nodes.Intersect(b.left()), reconfigure.ClassPlaybook, late, func() {
		failed, err = b.Configurer.Configure(limited, b.cluster, told, extent, b.watch(ctx), nil)
	}))
	switch {
	case errors.Is(context.Cause(running), errLate):
		return nil // it is no fault of the playbooks'
	case err != nil:
		return byDefault(reconfigure.ClassPlaybook, err)
	}
	b.failInstance(ctx, allByDefault(reconfigure.ClassPlaybook, failed))
	b.ready = nodes.Intersect(b.left())
	b.keepApart() // before the next run begins
	return nil
}

// extent is how far the playbooks go. slurm.conf is left as it is where Slurm would forget a node and end its job: one whose instance the guard has left alone, or
// that Slurm has given to a job since the plan was made.
func (b *batch) extent(ctx context.Context, changed nodeset.NodeSet) reconfigure.Extent {
	everywhere := reconfigure.Extent{Changed: changed, Everywhere: b.plan.Everywhere, Addresses: true, Apart: b.Common.others(b)}
	if !b.plan.Everywhere {
		return everywhere
	}
	forgotten := b.held.Union(b.given(ctx)).Difference(b.cluster.Nodes())
	if forgotten.Empty() {
		return everywhere
	}
	control := nodeset.Of(b.cluster.Control.Name)
	b.failAll(ctx, control, fmt.Errorf("slurm.conf is left as it is: without %s, on which a job may run, Slurm would end that job", forgotten))
	return reconfigure.Extent{Changed: changed.Difference(control), Addresses: true, Apart: everywhere.Apart}
}

// given is the nodes that Slurm has given to jobs. That it does not answer may be what the run is to mend.
func (b *batch) given(ctx context.Context) nodeset.NodeSet {
	_, states, err := b.asked(ctx)
	if err != nil {
		return nodeset.NodeSet{}
	}
	return nodeset.Collect(maps.Keys(states)).Where(func(node string) bool { return states[node].GivenToJob() })
}

// verify waits until the cloud and Slurm say what the plan wanted. slurmd registers as soon as it has started, so it does not wait for long, and for a node with a
// deadline no longer than that. What counts at the end is the last look that saw anything: that the time ran out in the middle of one says nothing of the nodes.
func (b *batch) verify(ctx context.Context, _ nodeset.NodeSet) error {
	const registers = 2 * time.Minute
	end := time.Now().Add(min(registers, b.cluster.Slurm.ResumeTimeout))
	var missing reconfigure.Failures
	problem := errors.New("nobody could look in time")
	for {
		due := end
		if first, limited := b.due(b.left(), time.Now()); limited && first.Before(end) {
			due = first
		}
		looking, cancel := context.WithDeadline(ctx, due)
		seen, err := b.missing(looking)
		switch {
		case err == nil && len(seen) == 0:
			cancel()
			return nil
		case err == nil:
			missing = seen
		case looking.Err() == nil:
			problem = err
		}
		select {
		case <-looking.Done():
		case <-time.After(b.Poll):
		}
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx) // nobody waited to the end
		}
		b.lapse(ctx)
		over := !time.Now().Before(end)
		late := b.expired(b.left(), time.Now())
		if over {
			late = b.left()
		}
		switch {
		case missing != nil:
			b.failStarted(ctx, missing.Of(late))
		case over:
			return problem
		default:
			b.failAll(ctx, late, problem)
		}
		if over {
			return nil
		}
	}
}

// missing says what the nodes that are left still lack.
func (b *batch) missing(ctx context.Context) (reconfigure.Failures, error) {
	active, err := b.Cloud.Active(ctx)
	if err != nil {
		return nil, err
	}
	missing := reconfigure.Failures{}
	for node := range b.left(reconfigure.Create, reconfigure.Replace, reconfigure.Reboot, reconfigure.Configure, reconfigure.Remove).All() {
		if err := b.lacks(node, active); err != nil {
			missing[node] = err
		}
	}
	control := nodeset.Of(b.cluster.Control.Name)
	started := b.left(reconfigure.Create, reconfigure.Replace, reconfigure.Reboot, reconfigure.Configure)
	if started.Empty() {
		return missing, nil
	}
	states, err := b.states(ctx, b.instances)
	if err != nil {
		return nil, err
	}
	persistent := b.cluster.Persistent()
	for node := range started.Difference(control).All() {
		switch s := states[node]; {
		case missing[node] != nil:
		case b.plan.Everywhere && s.Cloud() && persistent.Contains(node):
			missing[node] = errors.New("slurmctld goes by an earlier slurm.conf: it is a cloud node there still")
		case !b.settled(node, s):
			missing[node] = reconfigure.Classify(reconfigure.ClassUnregistered, fmt.Errorf("slurmd did not register in time: Slurm has it as %s", describe(s)))
		}
	}
	return missing, nil
}

// settled tells whether Slurm has a node as it should be. One that only had to be configured may have been given up since: Slurm goes on while we work. While a
// node is drained Slurm calls it idle for as long as it does not miss it; so what was restarted must have another boot than before. One that the administrator
// wants DOWN after a reboot (scontrol(1), nextstate) is there all the same.
func (b *batch) settled(node string, s reconfigure.NodeState) bool {
	change, _ := b.plan.Of(node)
	switch change.Action {
	case reconfigure.Configure:
		return s.Ready() || s.PoweringDown() || s.PoweredDown()
	case reconfigure.Replace, reconfigure.Reboot:
		booted := !s.Boot.Equal(b.was[node].Boot)
		return booted && (s.Ready() || s.Down() && !s.HasAny(reconfigure.NodeNotResponding|reconfigure.NodePoweringUp))
	default:
		return s.Ready()
	}
}

func (b *batch) lacks(node string, active map[string]bool) error {
	change, _ := b.plan.Of(node)
	instance, there := b.instances[node]
	switch {
	case change.Action == reconfigure.Remove && there:
		return errors.New("its instance is still in Terraform's state")
	case change.Action != reconfigure.Remove && !active[instance.ID]:
		return errors.New("the cloud does not have its instance as running")
	}
	return nil
}

func describe(s reconfigure.NodeState) string {
	return cmp.Or(s.String(), "unknown")
}
