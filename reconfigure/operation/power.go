package operation

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// stop lets Terraform stop or shelve the instance. One that cannot be stopped is removed, since it is not needed.
func (o *operation) stop() error {
	o.enter(reconfigure.PhaseApply)
	err := o.provision()
	if err == nil {
		o.settle()
		return nil
	}
	if reconfigure.ClassOf(err) == reconfigure.ClassRefused && !o.differs(err) || o.ctx.Err() != nil {
		return err
	}
	o.note("it is removed instead: " + said(err))
	if err := o.discard(o.ctx); err != nil {
		o.touched.Store(false) // it is left to the next suspend
		return err
	}
	o.remark = "it could not be stopped, and was removed: " + said(err)
	return nil
}

// start lets Terraform start the instance. One that runs already was not booted for this request, and is booted again.
// One that differs in more than its power state is made anew.
func (o *operation) start() error {
	o.enter(reconfigure.PhaseApply)
	runs := o.runs()
	switch err := o.provision(); {
	case o.differs(err):
		o.note("it is made anew: " + said(err))
		if err := o.discard(o.ctx); err != nil {
			return err
		}
		return o.bringUp()
	case err != nil:
		return err
	case runs:
		return o.restart()
	}
	return o.boot(o.fresh())
}

// differs reports whether the fence has refused to start or to stop the instance, since more of it would change.
func (o *operation) differs(err error) bool {
	refusal := (*reconfigure.Refusal)(nil)
	return errors.As(err, &refusal) && !slices.ContainsFunc(refusal.Changes, func(c reconfigure.ResourceChange) bool {
		return c.Node != o.change.Node
	})
}

// runs reports whether the cloud has the instance as running. It is false where the cloud does not answer.
func (o *operation) runs() bool {
	servers, err := o.serversOfNode(o.ctx, o.change.Node)
	return err == nil && slices.ContainsFunc(servers, func(s reconfigure.Server) bool {
		return s.ID == o.instance.ID && s.Active()
	})
}

// startSlurmd starts slurmd on an instance that was started and that the playbooks would not change. It reports whether
// it did; else the playbooks are to run.
func (o *operation) startSlurmd() bool {
	if o.change.Action != reconfigure.Start || o.round.gate != nil {
		return false
	}
	o.ready.Store(true) // from now on runs for other nodes tell it their addresses
	if !o.unchanged() {
		return false
	}
	_, deps := o.using()
	if err := deps.Starter.StartSlurmd(o.ctx, o.instance); err != nil {
		o.note("the playbooks run, since slurmd could not be started: " + said(err))
		return false
	}
	o.note("it is configured already, so no playbook runs")
	o.started = true
	return true
}

// unchanged reports whether the playbooks would write to the instance what it has: its disk is as they left it, and all
// that they depend on is as it was then.
func (o *operation) unchanged() bool {
	cluster, deps := o.using()
	node := o.change.Node
	was, err := deps.Sums.Sum(o.ctx, node)
	if err != nil || was == "" {
		o.note("the playbooks run, since it is unknown what it was configured from")
		return false
	}
	told := o.inventory(o.ctx, []*operation{o}, false)
	now, err := deps.Configurer.Sums(cluster, told, nodeset.Of(node))
	if err == nil && now[node] != was {
		err = errors.New("what it is configured from has changed")
	}
	if err != nil {
		o.note("the playbooks run: " + err.Error())
	}
	return err == nil
}

// forgetSums computes the sums of those nodes of a run whose instances are stopped when they are idle, and forgets the
// kept ones: until the playbooks have run, it is unknown what is on the nodes.
func (o *Operator) forgetSums(
	ctx context.Context, cluster reconfigure.Cluster, told map[string]reconfigure.Instance, of map[string]*configureCall,
) {
	_, deps := o.using()
	nodes := nodeset.Collect(maps.Keys(of)).Where(func(node string) bool {
		g, ok := cluster.GroupOf(node)
		return ok && g.WhenIdle.Power() != ""
	})
	if nodes.Empty() {
		return
	}
	none := map[string]string{}
	for node := range nodes.All() {
		none[node] = ""
	}
	sums, err := deps.Configurer.Sums(cluster, told, nodes)
	err = errors.Join(err, deps.Sums.KeepSums(ctx, none))
	for node := range nodes.All() {
		op := of[node].In.op
		if op.told, op.sum = told, sums[node]; err != nil {
			op.sum = ""
			op.noteOf(reconfigure.PhaseConfigure, "the playbooks will run at its next start: "+err.Error())
		}
	}
}

// keepSum keeps the sum of the node, which the playbooks have configured. Where it is another than before, something
// was changed meanwhile, and it is unknown whether the playbooks have read it.
func (o *operation) keepSum() {
	if o.sum == "" {
		return
	}
	cluster, deps := o.using()
	node := o.change.Node
	sums, err := deps.Configurer.Sums(cluster, o.told, nodeset.Of(node))
	if err == nil && sums[node] != o.sum {
		err = errors.New("what it is configured from was changed meanwhile")
	}
	if err == nil {
		err = deps.Sums.KeepSums(o.ctx, map[string]string{node: o.sum})
	}
	if err != nil {
		o.note("the playbooks will run at its next start: " + err.Error())
	}
}
