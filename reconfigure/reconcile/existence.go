package reconcile

import "github.com/eiffel-hpc/eiffel/reconfigure"

// existence compares whether a node has an instance with whether it should have one. It returns at most one finding,
// so that a node has at most one request as a fix.
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
			Detail: "Slurm waits for it, but there is no request for it",
			Fix:    Resume,
		}, true
	case v.state.Up() && c.cloud && len(v.strange) == 0 && c.declared.Contains(v.node):
		return Finding{Kind: Hollow, Detail: "it is up in Slurm, but it has no instance", Command: poweringDown}, true
	case Abandoned(v.state) && c.declared.Contains(v.node):
		return Finding{
			Kind:   SetDown,
			Detail: "it has no instance, and a worker set it DOWN in Slurm without handing it back",
			Fix:    HandBack,
		}, true
	case IsForgotten(v.state) && c.declared.Contains(v.node) && c.cloud && len(v.strange) == 0:
		return Finding{
			Kind:   Forgotten,
			Detail: "Slurm has powered it down, but gives it to no job, since it has it as " + v.state.String(),
			Fix:    HandBack,
		}, true
	case IsLingering(v.state) && c.busy.Calm.Contains(v.node) && c.declared.Contains(v.node) && c.cloud && len(v.strange) == 0:
		return Finding{
			Kind:    Lingering,
			Detail:  "it has no instance, and Slurm still powers it down after more than twice its suspend_timeout",
			Command: poweredDown,
		}, true
	}
	return Finding{}, false
}

// Commands for an administrator. The worker never runs them: they may cost jobs, or require knowledge of the reasons.
const (
	poweringDown = "scontrol update nodename=" + Nodes + " state=power_down_force reason='no instance'"
	poweredDown  = "scontrol update nodename=" + Nodes + " state=resume"
	updating     = "reconfigure update " + Nodes
	reimaging    = "reconfigure update --reimage " + Nodes
	resizing     = "reconfigure resize"
	deploying    = "reconfigure deploy"
	readdressed  = "scontrol update nodename=" + Nodes + " nodeaddr="
)

// adoptable reports whether Slurm uses an instance that is unfinished in Terraform's state, but in the cloud as in
// Terraform's map. A killed or interrupted worker or Terraform leaves such an instance. A resume of the node adds it
// to Terraform's state.
func (c comparison) adoptable(v view) bool {
	servers := c.seen.Servers[v.node]
	if !c.slurm || !c.cloud || !v.told || !v.used() || !c.declared.Contains(v.node) || v.made && !v.instance.Tainted {
		return false
	}
	if len(servers) != 1 || v.instance.ID != "" && v.instance.ID != servers[0].ID {
		return false // it is unknown which of several to adopt
	}
	is := servers[0]
	differs := func(is, told string) bool { return is != "" && is != told }
	return is.Active() && !differs(is.ImageID, v.spec.ImageID) && !differs(is.FlavorID, v.spec.FlavorID)
}

// silent reports whether the node is DOWN in Slurm since it does not answer, and its instance runs. slurmd does not
// start at boot: the playbooks start it. It skips a node that was drained.
func (v view) silent() bool {
	return v.own != nil && v.own.Active() && v.state.Down() && v.state.Has(reconfigure.NodeNotResponding) &&
		!v.state.Drained()
}

// lost reports whether the cloud lacks the instance that is in Terraform's state.
func (c comparison) lost(v view) bool {
	return c.cloud && v.instance.ID != "" && v.own == nil
}

const (
	detailTainted   = "its instance is tainted in Terraform's state"
	detailUnadopted = "Slurm uses its instance, but it is not finished in Terraform's state"
	detailLost      = "Terraform has its instance, but the cloud has none of this cluster with that id"
)

// tainted is the detail of a tainted instance, with the reason of the cloud if it is in ERROR.
func (v view) tainted() string {
	if v.own != nil && v.own.Failed() {
		return detailTainted + ": its status in the cloud is " + said(*v.own)
	}
	return detailTainted
}

// controlNode judges the control node. It never returns a fix: all of Slurm's state is on that node.
func (c comparison) controlNode(v view) (Finding, bool) {
	switch {
	case !v.made && !v.told && len(c.seen.Instances) == 0 && len(v.strange) == 0:
		return Finding{}, false // there is no cluster yet, or it was destroyed
	case v.made && v.instance.Tainted:
		return Finding{
			Kind:   Tainted,
			Detail: v.tainted() + "; it is the control node, which is fixed only by hand",
		}, true
	case v.made && c.lost(v):
		return Finding{Kind: Lost, Detail: detailLost + "; it is the control node, which is fixed only by hand"}, true
	case !v.made:
		return Finding{Kind: Missing, Detail: "the control node has no instance", Command: deploying}, true
	}
	return Finding{}, false
}

// persistentNode judges a persistent node. If it is a cloud node in Slurm, or Slurm does not know it, min_nodes was
// raised and `resize` was not called yet. A resize changes slurm.conf on all nodes, so only an administrator may ask
// for it.
func (c comparison) persistentNode(v view) (Finding, bool) {
	_, deployed := c.seen.Instances[c.cluster.Control.Name]
	var f Finding
	switch {
	case !v.made && !deployed:
		return Finding{}, false // the control node is missing
	case !v.made && v.state.Up() && !v.state.Has(reconfigure.NodeNotResponding):
		// slurmctld reaches an instance, so a second one must not be made.
		f = Finding{Kind: Missing, Detail: "it is persistent and has no instance, but it is up in Slurm"}
	case !v.made:
		f = Finding{Kind: Missing, Detail: "it is persistent and has no instance", Fix: Enlarge}
	case v.instance.Tainted && v.known && !v.out():
		return Finding{Kind: Tainted, Detail: v.tainted(), Command: updating}, true
	case v.instance.Tainted:
		f = Finding{Kind: Tainted, Detail: v.tainted(), Fix: Enlarge}
	case c.lost(v):
		return Finding{Kind: Lost, Detail: detailLost, Command: reimaging}, true
	case !v.told:
		return Finding{
			Kind:    Unfinished,
			Detail:  "its removal was interrupted, but it is persistent",
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
			Detail: "it is persistent and its instance runs, but its slurmd does not answer, for example after a reboot",
			Fix:    Resume,
		}, true
	default:
		return c.drained(v)
	}
	if c.slurm && (!v.known || v.state.Cloud()) {
		f.Fix, f.Command = None, resizing
		f.Detail += ", and it is not a persistent node in Slurm yet"
	}
	return f, true
}

// otherNode judges a cloud node, or a no longer declared node that is in Terraform's state or map.
func (c comparison) otherNode(v view) (Finding, bool) {
	f := c.unfinished(v)
	if f.Kind == "" {
		return c.unneeded(v)
	}
	switch {
	case !v.made && v.used() && len(v.strange) > 0:
		// There is no fix: the entry in the map is needed to adopt its instance later.
	case !v.made: // only the map has it, so nothing can be lost
		f.Fix = Suspend
		if v.state.PoweringUp() {
			f.Fix = Resume
		}
	case v.state.PoweringUp() && v.instance.Tainted:
		f.Fix = Resume // a resume replaces the instance
	case v.state.PoweringUp() && f.Kind == Lost, v.out():
		f.Fix = Suspend
	case f.Kind == Lost && v.replaced():
		f.Detail += "; Slurm uses another instance of its name"
	case f.Kind == Lost:
		f.Command = poweringDown
	default:
		f.Command = updating
	}
	return c.undeclaredNode(v, f), true
}

// unfinished judges a node in Terraform, without Slurm. The finding is empty if there is no problem.
func (c comparison) unfinished(v view) Finding {
	switch {
	case !v.made:
		return Finding{Kind: Unfinished, Detail: "it is in Terraform's map, but it has no instance"}
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
		f = Finding{Kind: PowersUp, Detail: "Slurm waits for it, but there is no request for it", Fix: Resume}
	case v.state.GivenUp() && c.seen.Rests(c.cluster, v.node) && c.cluster.KeepsStopped(v.node, c.seen.Desired):
		return f, false
	case v.state.GivenUp() && c.seen.Rests(c.cluster, v.node):
		f = Finding{Kind: Leaked, Detail: "it is stopped, but its group keeps no stopped nodes, or has more of them than " +
			"max_stopped", Fix: Suspend}
	case v.state.GivenUp() && v.state.PoweredDown():
		f = Finding{Kind: Leaked, Detail: "Slurm has powered it down, but its instance exists", Fix: Suspend}
	case v.state.GivenUp():
		f = Finding{
			Kind:   PowersDown,
			Detail: "Slurm powers it down, its instance exists, and there is no request for it",
			Fix:    Suspend,
		}
	default:
		return c.drained(v)
	}
	return c.undeclaredNode(v, f), true
}

// drained judges a node with a finished instance that this tool has drained. The request that would undrain it may have
// been lost, or Slurm may not have answered then. A failed node stays drained until an administrator has inspected it.
// Slurm itself ends a drain for a node's age; a drain for an image has its own kind of finding.
func (c comparison) drained(v view) (Finding, bool) {
	if !v.state.Drained() || !v.state.Ours() || v.state.Retires() || v.state.Unfit() || v.own == nil || !v.own.Active() {
		return Finding{}, false
	}
	f := Finding{
		Kind: Drained, Detail: "this tool has drained it in Slurm, but there is no request for it: " + v.state.Reason,
	}
	if v.state.Withheld() {
		f.Fix = Update
	} else {
		f.Command = updating
	}
	return f, true
}

// undeclaredNode leaves an undeclared node to an administrator, who may be editing the declaration. Only a node that
// Slurm has powered down or is powering down may be removed.
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
