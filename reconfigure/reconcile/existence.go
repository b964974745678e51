package reconcile

import "github.com/eiffel-hpc/eiffel/reconfigure"

// existence compares whether a node's instance is there with whether it should be. It has at most one answer, so a
// node has at most one request as a fix.
func (c comparison) existence(v view) (Finding, bool) {
	switch {
	case !c.terraform:
		return Finding{}, false
	case v.node == c.cluster.Control.Name:
		return c.control(v)
	case c.adoptable(v):
		return Finding{Kind: Unadopted, Detail: detailUnadopted, Fix: Resume}, true
	case c.persistent.Contains(v.node):
		return c.always(v)
	case v.made || v.told:
		return c.sometimes(v)
	case !c.slurm:
		return Finding{}, false
	case v.state.Has(reconfigure.NodePoweringUp):
		return Finding{
			Kind:   PowersUp,
			Detail: "Slurm waits for it, and no request for it is under way",
			Fix:    Resume,
		}, true
	case v.state.Up() && c.cloud && len(v.strange) == 0 && c.declared.Contains(v.node):
		return Finding{Kind: Hollow, Detail: "Slurm takes it for up, but it has no instance", Command: givingUp}, true
	case Abandoned(v.state) && c.declared.Contains(v.node):
		return Finding{
			Kind:   SetDown,
			Detail: "it has no instance, and a worker of ours set it DOWN in Slurm without handing it back",
			Fix:    HandBack,
		}, true
	}
	return Finding{}, false
}

// What an administrator types. The worker does nothing of it by itself: it may cost jobs, or needs somebody who knows
// why things are as they are.
const (
	givingUp    = "scontrol update nodename=" + Nodes + " state=power_down_force reason='no instance'"
	updating    = "reconfigure update " + Nodes
	reimaging   = "reconfigure update --reimage " + Nodes
	resizing    = "reconfigure resize"
	deploying   = "reconfigure deploy"
	readdressed = "scontrol update nodename=" + Nodes + " nodeaddr="
	byHand      = "openstack server delete "
	portByHand  = "openstack port delete "
)

// adoptable reports whether Slurm uses an instance that Terraform's state does not have as finished, and that the
// cloud has as Terraform was told: a worker or a Terraform that was killed, or interrupted, has left it. A resume of
// the node has Terraform's state take it.
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

// lost reports whether the cloud does not have what Terraform's state has.
func (c comparison) lost(v view) bool {
	return c.cloud && v.instance.ID != "" && v.own == nil
}

const (
	detailTainted   = "its instance was not made to the end"
	detailUnadopted = "Slurm uses its instance, and Terraform's state does not have it as finished"
	detailLost      = "Terraform has its instance, but the cloud has none of ours with that id"
)

// tainted is the detail of an instance that was not made to the end.
func (v view) tainted() string {
	if v.own != nil && v.own.Status == "ERROR" {
		return detailTainted + ": the cloud has it as " + said(*v.own)
	}
	return detailTainted
}

// control never has a fix: all of Slurm's state is on that node.
func (c comparison) control(v view) (Finding, bool) {
	switch {
	case !v.made && !v.told && len(c.seen.Instances) == 0 && len(v.strange) == 0:
		return Finding{}, false // there is no cluster yet, or no more
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

// always judges a persistent node. Where Slurm has it as a cloud node, or does not know it, min_nodes was raised and
// the rest was not asked for yet: slurm.conf would become another one on all nodes, which only an administrator asks
// for.
func (c comparison) always(v view) (Finding, bool) {
	_, deployed := c.seen.Instances[c.cluster.Control.Name]
	var f Finding
	switch {
	case !v.made && !deployed:
		return Finding{}, false // the control node is what is missing
	case !v.made && v.state.Up() && !v.state.Has(reconfigure.NodeNotResponding): // what answers to slurmctld must not be doubled
		f = Finding{Kind: Missing, Detail: "it is persistent, and has no instance, but Slurm takes it for up"}
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
			Detail:  "its removal was cut short, and it is persistent",
			Command: updating,
		}, true
	case v.state.GivenUp():
		return Finding{
			Kind:    GivenUp,
			Detail:  "it is persistent, but Slurm has powered it down",
			Command: resizing,
		}, true
	default:
		return Finding{}, false
	}
	if c.slurm && (!v.known || v.state.Cloud()) {
		f.Fix, f.Command = None, resizing
		f.Detail += ", and Slurm does not have it as a persistent node yet"
	}
	return f, true
}

// sometimes judges a node that is there only while Slurm needs it, or that no group declares any more, and that
// Terraform has or was told of.
func (c comparison) sometimes(v view) (Finding, bool) {
	f := c.halfMade(v)
	if f.Kind == "" {
		return c.unneeded(v)
	}
	switch {
	case !v.made && v.used() && len(v.strange) > 0: // what Terraform was told is all that there is for its instance to be adopted by
	case !v.made: // only the map has it, so that nothing can be lost
		f.Fix = Suspend
		if v.state.PoweringUp() {
			f.Fix = Resume
		}
	case v.state.PoweringUp() && v.instance.Tainted:
		f.Fix = Resume // it takes the instance's place
	case v.state.PoweringUp() && f.Kind == Lost, v.out():
		f.Fix = Suspend
	case f.Kind == Lost:
		f.Command = givingUp
	default:
		f.Command = updating
	}
	return c.outsider(v, f), true
}

// halfMade is what is wrong with what Terraform has of a node, whatever Slurm says; empty where nothing is.
func (c comparison) halfMade(v view) Finding {
	switch {
	case !v.made:
		return Finding{Kind: Unfinished, Detail: "Terraform was told of it, but there is no instance"}
	case v.instance.Tainted:
		return Finding{Kind: Tainted, Detail: v.tainted()}
	case c.lost(v):
		return Finding{Kind: Lost, Detail: detailLost}
	case !v.told:
		return Finding{Kind: Unfinished, Detail: "the removal of its instance was cut short"}
	}
	return Finding{}
}

// unneeded judges a whole instance by what Slurm says.
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
	case v.state.GivenUp() && v.state.PoweredDown():
		f = Finding{Kind: Leaked, Detail: "Slurm has powered it down, but its instance is there", Fix: Suspend}
	case v.state.GivenUp():
		f = Finding{
			Kind:   PowersDown,
			Detail: "Slurm powers it down, its instance is there, and no request for it is under way",
			Fix:    Suspend,
		}
	default:
		return f, false
	}
	return c.outsider(v, f), true
}

// outsider leaves what no group declares to an administrator: it may be an edit that is not finished. Only what Slurm
// itself has given up may go.
func (c comparison) outsider(v view, f Finding) Finding {
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
