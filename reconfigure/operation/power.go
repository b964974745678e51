package operation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batcher"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// stop lets Terraform stop or shelve the instance. An instance that cannot be stopped is removed, since it is not
// needed.
func (o *operation) stop() error {
	o.enter(reconfigure.PhaseApply)
	longest := o.operator.timing.Stop
	hangs := fmt.Errorf("instance %s is not %s after %s", o.instance.ID, stopped(o.change.Spec.Power), longest)
	ctx, cancel := context.WithTimeoutCause(o.term.ctx, longest, hangs)
	err := o.provision(ctx)
	cancel()
	if err == nil {
		o.settle()
		return nil
	}
	if reconfigure.ClassOf(err) == reconfigure.ClassRefused && !o.differs(err) || o.term.ctx.Err() != nil {
		return err
	}
	o.note("it is removed instead: " + said(err))
	if problem := o.discard(o.term.ctx); problem != nil {
		o.progress.touch(false) // it is left to the next suspend
		return fmt.Errorf("%w; it could not be stopped: %s", problem, said(err))
	}
	left := o.remark
	o.remark = "it could not be stopped, and was removed: " + said(err)
	if left != "" {
		o.remark += "; " + left
	}
	return nil
}

// stopped returns the state of an instance after the change of its power state.
func stopped(p reconfigure.Power) string {
	if p == reconfigure.Shelved {
		return "shelved"
	}
	return "stopped"
}

// start lets Terraform start the instance. An instance that already runs, and was not started for this request, is
// rebooted. An instance that differs in more than its power state is made anew.
func (o *operation) start() error {
	o.enter(reconfigure.PhaseApply)
	runs := o.runs()
	switch err := o.provision(o.term.ctx); {
	case o.differs(err):
		o.note("it is made anew: " + said(err))
		if err := o.discard(o.term.ctx); err != nil {
			return err
		}
		return o.bringUp()
	case err != nil:
		return err
	case runs && o.change.At != "":
		return o.goOn()
	case runs:
		return o.restart()
	}
	return o.boot(o.newDisk())
}

// differs reports whether the fence has refused to start or to stop the instance, since more of it would change.
func (o *operation) differs(err error) bool {
	refusal := (*reconfigure.Refusal)(nil)
	return errors.As(err, &refusal) && !slices.ContainsFunc(refusal.Changes, func(c reconfigure.ResourceChange) bool {
		return c.Node != o.change.Node
	})
}

// runs reports whether the cloud has the instance as running. It is false if the cloud does not answer.
func (o *operation) runs() bool {
	servers, err := o.operator.serversOfNode(o.term.ctx, o.change.Node)
	return err == nil && slices.ContainsFunc(servers, func(s reconfigure.Server) bool {
		return s.ID == o.instance.ID && s.Active()
	})
}

// startSlurmd starts slurmd on an instance that was started and that the playbooks would not change. It reports whether
// it did; otherwise the playbooks must run. An instance that does not pass its health checks is an error.
func (o *operation) startSlurmd() (started bool, err error) {
	if o.change.Action != reconfigure.Start || o.round.barrier != nil {
		return false, nil
	}
	o.progress.admit() // from now on runs for other nodes tell it their addresses
	if !o.unchanged() {
		return false, nil
	}
	err = o.deps().Starter.StartSlurmd(o.term.ctx, o.instance.Instance)
	switch {
	case reconfigure.ClassOf(err) == reconfigure.ClassUnhealthy:
		o.enter(reconfigure.PhaseConfigure) // it has booted
		return false, err
	case err != nil:
		o.note("the playbooks run, since slurmd could not be started: " + said(err))
		return false, nil
	}
	o.note("it is configured already, so no playbook runs")
	o.attempt.started = true
	return true, nil
}

// inventory is the inventory of a run of the playbooks.
type inventory struct {
	instances map[string]reconfigure.Instance
}

// summing is a query for the checksum of a node's inputs.
type summing struct {
	node     string
	instance reconfigure.Instance
	told     *inventory // nil: the inventory that a run of the playbooks would get now
	// keep is stored as the node's checksum if it is still current; empty: nothing is stored.
	keep string
}

// errChanged is the error for a checksum that differs from the one to be stored.
var errChanged = errors.New("what it is configured from was changed meanwhile")

// sumAll computes the checksums of all waiting nodes, with one call for each inventory, since a call reads all files of
// the playbooks.
func (o *Operator) sumAll(r *batcher.Run[summing, string]) {
	cluster, deps := o.using()
	together := map[*inventory][]*batcher.Call[summing, string]{}
	for _, c := range r.Calls {
		together[c.In.told] = append(together[c.In.told], c)
	}
	for from, calls := range together {
		if from == nil {
			from = &inventory{o.inventory(o.ctx, nil, false)}
			for _, c := range calls {
				from.instances[c.In.node] = c.In.instance
			}
		}
		names := make([]string, len(calls))
		for i, c := range calls {
			names[i] = c.In.node
		}
		sums, err := deps.Configurer.Sums(cluster, from.instances, nodeset.Of(names...))
		kept := map[string]string{}
		for _, c := range calls {
			if c.In.keep != "" && c.In.keep == sums[c.In.node] && !c.Finished() {
				kept[c.In.node] = c.In.keep
			}
		}
		if err == nil && len(kept) > 0 {
			err = deps.Sums.KeepSums(o.ctx, kept)
		}
		for _, c := range calls {
			if err == nil && c.In.keep != "" && kept[c.In.node] == "" {
				c.Finish("", errChanged)
			}
			c.Finish(sums[c.In.node], err)
		}
	}
}

// unchanged reports whether the playbooks would not change the instance: its disk is as they left it, and all of their
// inputs are the same as then.
func (o *operation) unchanged() bool {
	node := o.change.Node
	was, err := o.deps().Sums.Sum(o.term.ctx, node)
	if err != nil || was == "" {
		o.note("the playbooks run, since it is unknown what it was configured from")
		return false
	}
	now, err := o.operator.sums.Do(o.term.ctx, summing{node: node, instance: o.instance.Instance})
	if err == nil && now != was {
		err = errors.New("what it is configured from has changed")
	}
	if err != nil {
		o.note("the playbooks run: " + err.Error())
	}
	return err == nil
}

// forgetSums computes the sums of those nodes of a run whose instances are stopped when they are idle, and forgets the
// kept ones: until the playbooks have run, the content of the nodes is unknown. It returns the sums to keep afterwards.
func (o *Operator) forgetSums(
	ctx context.Context, cluster reconfigure.Cluster, told map[string]reconfigure.Instance, of map[string]*configureCall,
) map[string]string {
	_, deps := o.using()
	nodes := nodeset.Collect(maps.Keys(of)).Where(func(node string) bool {
		g, ok := cluster.GroupOf(node)
		return ok && g.WhenIdle.Power() != ""
	})
	if nodes.Empty() {
		return nil
	}
	none := map[string]string{}
	for node := range nodes.All() {
		none[node] = ""
	}
	sums, err := deps.Configurer.Sums(cluster, told, nodes)
	err = errors.Join(err, deps.Sums.KeepSums(ctx, none))
	if err == nil {
		return sums
	}
	for node := range nodes.All() {
		of[node].In.note("the playbooks will run at its next start: " + err.Error())
	}
	return nil
}

// forgetGiven forgets the sums of all nodes that are stopped when they are idle, before a run that may change the files
// that the control node gives to them. With a single control host, the sums include these files; several control hosts
// do not know each other's.
func (o *Operator) forgetGiven(ctx context.Context, cluster reconfigure.Cluster, extent reconfigure.Extent) error {
	if cluster.Settings.Journal == "" || !extent.Everywhere && !extent.Changed.Contains(cluster.Control.Name) {
		return nil
	}
	none := map[string]string{}
	for _, g := range cluster.Groups {
		if g.WhenIdle.Power() == "" {
			continue
		}
		for node := range g.Nodes().All() {
			none[node] = ""
		}
	}
	if len(none) == 0 {
		return nil
	}
	_, deps := o.using()
	if err := deps.Sums.KeepSums(ctx, none); err != nil {
		return fmt.Errorf("the playbooks do not run, since the checksums of the stopped nodes cannot be forgotten: %w", err)
	}
	return nil
}

// keepSum keeps the sum of the node, which the playbooks have configured. If the sum differs from the earlier one, an
// input has changed meanwhile, and it is unknown whether the playbooks have read the change.
func (o *operation) keepSum(out outcome) {
	if out.sum == "" {
		return
	}
	if _, err := o.operator.sums.Do(o.term.ctx, summing{node: o.change.Node, told: out.told, keep: out.sum}); err != nil {
		o.note("the playbooks will run at its next start: " + err.Error())
	}
}
