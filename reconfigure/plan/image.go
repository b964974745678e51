package plan

import "github.com/eiffel-hpc/eiffel/reconfigure"

// image plans the image of a node. A node in use by Slurm is drained first. As soon as its disk may have been
// cleaned, the node is neither rejected nor undrained, until the operation has made it anew or removed it.
func (p *planner) image(r reconfigure.Request) {
	for node := range r.Open().All() {
		state := p.seen.States[node]
		whole, lacks := p.whole(node)
		_, there := p.seen.Instances[node]
		switch {
		case !p.declared.Contains(node) && !there && !p.seen.Desired[node].HasInstance():
			p.reject(r, node, undeclared)
		case !p.deployed():
			p.reject(r, node, "there is no cluster: its control node has no instance")
		case p.cluster.Existing:
			p.reject(r, node, "no image can be made of an existing machine")
		case !p.slurm && (r.Touched || r.IsDeferred()):
			p.waitsForSlurm(r, node)
		case state.Unfit(), p.begun(r, node):
			p.capture(r, node)
		case !p.declared.Contains(node):
			p.giveBack(r, node)
			p.reject(r, node, undeclared)
		case !p.slurm:
			p.reject(r, node, p.slurmsReason())
		case !whole:
			p.giveBack(r, node)
			p.reject(r, node, lacks)
		case p.stopped(node):
			p.giveBack(r, node)
			p.reject(r, node, "its instance is stopped: start it by a job, or by `scontrol update nodename="+node+
				" state=power_up`")
		case state.PoweringUp(), state.PoweringDown(), state.PoweredDown(), state.Rebooting():
			p.giveBack(r, node)
			p.reject(r, node, "Slurm powers it up or down, or reboots it: "+state.String())
		case state.Running() || state.Usable():
			p.await(r, node, reconfigure.PurposeImage)
		default:
			p.capture(r, node)
		}
	}
}

// begun reports whether an earlier worker may have cleaned the node, although its drain has ended: the node was made
// anew, or has no instance, or Slurm has powered it down meanwhile, which ends drains. The operation asks the cloud
// for the image.
func (p *planner) begun(r reconfigure.Request, node string) bool {
	state := p.seen.States[node]
	whole, _ := p.whole(node)
	booted := state.Ready() && !state.Drained() && state.Boot.After(r.Submitted)
	powered := state.PoweringDown() || state.PoweredDown() || state.PoweringUp()
	lost := !whole && !state.Running() && !state.Usable()
	return r.Touched && (booted || lost || powered)
}

// capture plans the operation. The instance of a cloud node is removed after it. A persistent node gets a new instance
// from its entry, not from a changed declaration; so does a node that was not drained by this tool, since a power down
// would end the drain.
func (p *planner) capture(r reconfigure.Request, node string) {
	spec, handOver := p.seen.Desired[node], !p.persistent.Contains(node) && !p.seen.States[node].ForeignDrain()
	if !spec.HasInstance() && !handOver { // an earlier worker failed to make it anew
		var problem error
		if spec, problem = p.spec(node); problem != nil {
			p.rejectFor(r, node, problem)
			return
		}
	}
	p.change(r, reconfigure.Change{
		Node: node, Action: reconfigure.Capture, Spec: spec, HandOver: handOver, Image: r.Image,
		Reason: "the request is for an image of it",
	})
}
