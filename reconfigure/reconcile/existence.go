package reconcile

import "github.com/eiffel-hpc/eiffel/reconfigure"

// existence compares whether a node has an instance with whether it should have one. It returns at most one finding, so
// a node has at most one request as a fix.
func (c comparison) existence(v view) (Finding, bool) {
	switch {
	case !c.terraform:
		return Finding{}, false
	case v.node == c.cluster.Control.Name:
		return c.controlNode(v)
	case c.adoptable(v):
		return Finding{Kind: Unadopted, Detail: detailUnadopted, Fix: Resume}, true
	case c.persistent.Contains(v.node):
		return c.persistentNode(v)
	case v.made || v.told:
		return c.otherNode(v)
	case !c.slurm:
		return Finding{}, false
	case v.state.Has(reconfigure.NodePoweringUp):
		return Finding{
			Kind:   PowersUp,
			Detail: "Slurm waits for it, and no request for it is under way",
			Fix:    Resume,
		}, true
	case v.state.Up() && c.cloud && len(v.strange) == 0 && c.declared.Contains(v.node):
		return Finding{Kind: Hollow, Detail: "Slurm has it as up, but it has no instance", Command: poweringDown}, true
	case Abandoned(v.state) && c.declared.Contains(v.node):
		return Finding{
			Kind:   SetDown,
			Detail: "it has no instance, and a worker of ours set it DOWN in Slurm without handing it back",
			Fix:    HandBack,
		}, true
	}
	return Finding{}, false
}

// Commands for an administrator. The worker runs none of them by itself: they may cost jobs, or need somebody who knows
// why things are as they are.
const (
	poweringDown = "scontrol update nodename=" + Nodes + " state=power_down_force reason='no instance'"
	updating     = "reconfigure update " + Nodes
	reimaging    = "reconfigure update --reimage " + Nodes
	resizing     = "reconfigure resize"
	deploying    = "reconfigure deploy"
	readdressed  = "scontrol update nodename=" + Nodes + " nodeaddr="
)

// adoptable reports whether Slurm uses an instance that Terraform's state does not have as finished, and that is in the
// cloud as Terraform was told. A worker or a Terraform that was killed or interrupted leaves such an instance. A resume
// of the node adds it to Terraform's state.
func (c comparison) adoptable(v view) bool {
	servers := c.seen.Servers[v.node]
	if !c.slurm || !c.cloud || !v.told || !v.used() || !c.declared.Contains(v.node) || v.made && !v.instance.Tainted {
		return false
	}
	if len(servers) != 1 || v.instance.ID != "" && v.instance.ID != servers[0].ID {
		return false // which of several it would be is unknown
	}
	is := servers[0]
	differs := func(is, told string) bool { return is != "" && is != told }
	return is.Active() && !differs(is.ImageID, v.spec.ImageID) && !differs(is.FlavorID, v.spec.FlavorID)
}

// silent reports whether Slurm has the node as DOWN since it does not answer, and its instance runs. slurmd does not
// start at boot: the playbooks start it. A node that somebody has drained is left to him.
func (v view) silent() bool {
	return v.own != nil && v.own.Active() && v.state.Down() && v.state.Has(reconfigure.NodeNotResponding) &&
		!v.state.Drained()
}

// lost reports whether the cloud does not have what Terraform's state has.
func (c comparison) lost(v view) bool {
	return c.cloud && v.instance.ID != "" && v.own == nil
}

const (
	detailTainted   = "its instance is tainted in Terraform's state"
	detailUnadopted = "Slurm uses its instance, and Terraform's state does not have it as finished"
	detailLost      = "Terraform has its instance, but the cloud has none of ours with that id"
)

// tainted is the detail of a tainted instance, with the reason of the cloud if it is in ERROR.
func (v view) tainted() string {
	if v.own != nil && v.own.Failed() {
		return detailTainted + ": the cloud has it as " + said(*v.own)
	}
	return detailTainted
}

// controlNode judges the control node. It never has a fix: all of Slurm's state is on that node.
func (c comparison) controlNode(v view) (Finding, bool) {
	switch {
	case !v.made && !v.told && len(c.seen.Instances) == 0 && len(v.strange) == 0:
		return Finding{}, false // there is no cluster yet, or it was destroyed
	case v.made && v.instance.Tainted:
		return Finding{
			Kind:   Tainted,
			Detail: v.tainted() + "; it is the control node, which is fixed by hand only",
		}, true
	case v.made && c.lost(v):
		return Finding{Kind: Lost, Detail: detailLost + "; it is the control node, which is fixed by hand only"}, true
	case !v.made:
		return Finding{Kind: Missing, Detail: "the control node has no instance", Command: deploying}, true
	}
	return Finding{}, false
}

// persistentNode judges a persistent node. If Slurm has it as a cloud node, or does not know it, min_nodes was raised
// and `resize` was not called yet. That would change slurm.conf on all nodes, which only an administrator asks for.
func (c comparison) persistentNode(v view) (Finding, bool) {
	_, deployed := c.seen.Instances[c.cluster.Control.Name]
	var f Finding
	switch {
	case !v.made && !deployed:
		return Finding{}, false // the control node is what is missing
	case !v.made && v.state.Up() && !v.state.Has(reconfigure.NodeNotResponding):
		// slurmctld reaches it, so a second instance must not be made.
		f = Finding{Kind: Missing, Detail: "it is persistent, and has no instance, but Slurm has it as up"}
	case !v.made:
		f = Finding{Kind: Missing, Detail: "it is persistent, and has no instance", Fix: Enlarge}
	case v.instance.Tainted && v.known && !v.out():
		return Finding{Kind: Tainted, Detail: v.tainted(), Command: updating}, true
	case v.instance.Tainted:
		f = Finding{Kind: Tainted, Detail: v.tainted(), Fix: Enlarge}
	case c.lost(v):
		return Finding{Kind: Lost, Detail: detailLost, Command: reimaging}, true
	case !v.told:
		return Finding{
			Kind:    Unfinished,
			Detail:  "its removal was interrupted, and it is persistent",
			Command: updating,
		}, true
	case v.state.GivenUp():
		return Finding{
			Kind:    GivenUp,
			Detail:  "it is persistent, but Slurm has powered it down",
			Command: resizing,
		}, true
	case v.silent():
		return Finding{
			Kind:   Silent,
			Detail: "it is persistent and its instance runs, but its slurmd does not answer, as after a reboot by itself",
			Fix:    Resume,
		}, true
	default:
		return c.drained(v)
	}
	if c.slurm && (!v.known || v.state.Cloud()) {
		f.Fix, f.Command = None, resizing
		f.Detail += ", and Slurm does not have it as a persistent node yet"
	}
	return f, true
}

// otherNode judges a cloud node, or one that no group declares any more, which Terraform's state or its map has.
func (c comparison) otherNode(v view) (Finding, bool) {
	f := c.unfinished(v)
	if f.Kind == "" {
		return c.unneeded(v)
	}
	switch {
	case !v.made && v.used() && len(v.strange) > 0:
		// No fix: to adopt its instance later, the entry in the map is needed.
	case !v.made: // only the map has it, so nothing can be lost
		f.Fix = Suspend
		if v.state.PoweringUp() {
			f.Fix = Resume
		}
	case v.state.PoweringUp() && v.instance.Tainted:
		f.Fix = Resume // it replaces the instance
	case v.state.PoweringUp() && f.Kind == Lost, v.out():
		f.Fix = Suspend
	case f.Kind == Lost:
		f.Command = poweringDown
	default:
		f.Command = updating
	}
	return c.undeclaredNode(v, f), true
}

// unfinished judges what Terraform has of a node, without Slurm. The finding is empty if nothing is wrong.
func (c comparison) unfinished(v view) Finding {
	switch {
	case !v.made:
		return Finding{Kind: Unfinished, Detail: "Terraform was told of it, but there is no instance"}
	case v.instance.Tainted:
		return Finding{Kind: Tainted, Detail: v.tainted()}
	case c.lost(v):
		return Finding{Kind: Lost, Detail: detailLost}
	case !v.told:
		return Finding{Kind: Unfinished, Detail: "the removal of its instance was interrupted"}
	}
	return Finding{}
}

// unneeded judges a finished instance by Slurm's state of the node.
func (c comparison) unneeded(v view) (Finding, bool) {
	var f Finding
	switch {
	case !c.slurm:
		return f, false
	case !c.declared.Contains(v.node):
		f = Finding{Kind: Undeclared, Detail: "it has an instance, but no node group declares it"}
		if v.state.GivenUp() {
			f.Fix = Suspend
		}
	case !v.known:
		f = Finding{Kind: Leaked, Detail: "it has an instance, but Slurm does not know it", Command: deploying}
	case v.state.Has(reconfigure.NodePoweringUp):
		f = Finding{Kind: PowersUp, Detail: "Slurm waits for it, and no request for it is under way", Fix: Resume}
	case v.state.GivenUp() && c.seen.Rests(c.cluster, v.node) && c.cluster.KeepsStopped(v.node, c.seen.Desired):
		return f, false
	case v.state.GivenUp() && c.seen.Rests(c.cluster, v.node):
		f = Finding{Kind: Leaked, Detail: "it is stopped, and its group keeps no such node, or has more of them than " +
			"max_stopped", Fix: Suspend}
	case v.state.GivenUp() && v.state.PoweredDown():
		f = Finding{Kind: Leaked, Detail: "Slurm has powered it down, but its instance is there", Fix: Suspend}
	case v.state.GivenUp():
		f = Finding{
			Kind:   PowersDown,
			Detail: "Slurm powers it down, its instance is there, and no request for it is under way",
			Fix:    Suspend,
		}
	default:
		return c.drained(v)
	}
	return c.undeclaredNode(v, f), true
}

// drained judges a node with a finished instance that this tool has drained. A request that undrains a node may be lost,
// or Slurm did not answer then. A node that failed stays drained until somebody has looked. Slurm itself ends a drain
// for the node's age, and one for an image has a finding of its own.
func (c comparison) drained(v view) (Finding, bool) {
	if !v.state.Drained() || !v.state.Ours() || v.state.Retires() || v.state.Unfit() || v.own == nil || !v.own.Active() {
		return Finding{}, false
	}
	f := Finding{Kind: Drained, Detail: "we have drained it in Slurm, and no request for it is under way: " + v.state.Reason}
	if v.state.Withheld() {
		f.Fix = Update
	} else {
		f.Command = updating
	}
	return f, true
}

// undeclaredNode leaves a node that no group declares to an administrator, since somebody may be editing the
// declaration. Only a node that Slurm has powered down or is powering down may be removed.
func (c comparison) undeclaredNode(v view, f Finding) Finding {
	if c.declared.Contains(v.node) {
		return f
	}
	if v.made && !v.state.GivenUp() || f.Fix == Resume {
		f.Fix = None
	}
	if f.Fix == None {
		f.Command = resizing
	}
	return f
}
