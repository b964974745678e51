package operation

import (
	"context"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/provision"
)

// ask makes Terraform carry out an order for the node.
func (o *operation) ask(ctx context.Context, order provision.Order) (provision.Result, error) {
	if err := o.round.turn(ctx, o); err != nil {
		return provision.Result{}, err
	}
	o.progress.wait(true)
	defer o.round.provisioned(o)
	return o.operator.provisioner.In(o.shard()).Do(ctx, order, o.hear)
}

// hear handles the events of an order. They may come after the operation has continued.
func (o *operation) hear(event provision.Event) {
	switch e := event.(type) {
	case provision.Begun:
		o.progress.begin(e.Changes)
	case provision.Appeared:
		o.progress.appeared(e.Server)
	case provision.Noted:
		o.noteOf(reconfigure.PhaseApply, e.Message)
	case provision.LeftAlone:
		o.round.leave(o.change.Node)
	}
}

// shard returns the shard of the node's resources.
func (o *operation) shard() string {
	if spec, ok := o.round.Plan.Desired[o.change.Node]; ok {
		return spec.Shard
	}
	return o.round.Seen.Shard(o.change.Node)
}

// target returns the node with a change and the entry that the plan has for it.
func (o *operation) target(c reconfigure.Change) provision.Target {
	t := provision.Target{Change: c, Jobs: jobsOf(o), Plan: o.round.Number, Tentative: o.aside != ""}
	if spec, ok := o.round.Plan.Desired[c.Node]; ok {
		spec = o.attempted(spec)
		t.Entry = &spec
	}
	return t
}

// attempted returns an entry as the current attempt makes it: with its fallback, and not on the host of the instance
// that was set aside.
func (o *operation) attempted(spec reconfigure.Spec) reconfigure.Spec {
	if !spec.HasInstance() {
		return spec
	}
	if o.fallback != (reconfigure.Fallback{}) {
		spec.FlavorID, spec.Zone = o.fallback.FlavorID, o.fallback.Zone
	}
	spec.Avoid = o.aside
	return spec
}

// makes returns the order for the instance that the change asks for.
func (o *operation) makes() provision.Make {
	c := o.change
	switch {
	case c.Action == reconfigure.Capture: // after the image
		c.Action = reconfigure.Create
		if _, there := o.round.Seen.Instances[c.Node]; there {
			c.Action = reconfigure.Replace
		}
	case c.Action == reconfigure.Reboot || c.Action == reconfigure.Boot || o.instance.origin == originMissing ||
		c.Action == reconfigure.Start && o.instance.origin == originRemoved: // the boot has failed, or the instance is gone
		c.Action, c.Spec = reconfigure.Create, o.round.Plan.Desired[c.Node]
	}
	c.Spec = o.attempted(c.Spec)
	return provision.Make{Target: o.target(c)}
}

// takes returns the order that imports the node's instance.
func (o *operation) takes() provision.Take { return provision.Take{Target: o.target(o.change)} }

// removes returns the order that removes the instance. If the change is no removal, the node has failed, and its port
// stays.
func (o *operation) removes() provision.Remove {
	c := o.change
	if c.Action == reconfigure.Remove {
		return provision.Remove{Target: o.target(c)}
	}
	reason := "it failed"
	switch c.Action {
	case reconfigure.Capture:
		reason = "its disk was cleaned for an image"
	case reconfigure.Stop:
		reason = "it could not be stopped"
	}
	return provision.Remove{Target: o.without(reason)}
}

// forgets returns the order that removes the instance, which failed, from Terraform's state alone.
func (o *operation) forgets() provision.Forget {
	return provision.Forget{Target: o.without("it failed")}
}

// without returns the node with a removal of its instance. Its port stays.
func (o *operation) without(reason string) provision.Target {
	c := o.change
	t := o.target(reconfigure.Change{
		Node: c.Node, Action: reconfigure.Remove, Reason: reason, Requests: c.Requests, Force: false,
	})
	if t.Entry != nil {
		spec, keeps := o.round.Cluster.WithoutInstance(c.Node, *t.Entry)
		if t.Entry = &spec; !keeps {
			t.Entry = nil
		}
	}
	return t
}

// jobsOf returns the jobs of the operation's round that wait for its node.
func jobsOf(o *operation) []reconfigure.Job {
	var jobs []reconfigure.Job
	for _, job := range o.round.Plan.Jobs {
		if job.Nodes.Contains(o.change.Node) {
			jobs = append(jobs, job)
		}
	}
	return jobs
}
