package reconcile

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// strangers returns a finding for each instance of the cluster that has the node's name, is unknown to Terraform, and
// is too old to belong to a run of Terraform.
func (c comparison) strangers(v view) []Finding {
	if !c.cloud || !c.terraform || c.adoptable(v) {
		return nil
	}
	var all []Finding
	for _, s := range v.strange {
		if s.Created.IsZero() || c.seen.Time.Sub(s.Created) < c.minAge {
			continue
		}
		f := Finding{
			Kind:   Orphan,
			Server: s.ID,
			Detail: "the cloud has an instance of this cluster that Terraform does not know: " + s.ID,
		}
		if len(c.seen.Servers[v.node]) > 1 {
			f.Kind, f.Detail = Doubled, "the cloud has several instances of this name, and Terraform does not know "+s.ID
		}
		switch {
		case c.unused(v, s):
			f.Fix = Delete
		case v.told && !v.made:
			f.Detail += "; its map has one, so its state may have been lost: docs/guides/state-lost.md"
		case v.replaced() && c.persistent.Contains(v.node): // Slurm never powers it down
			f.Detail += "; Slurm uses the node, so jobs may run there: drain it, and delete the instance when they have ended"
		case v.replaced():
			f.Detail += "; Slurm uses the node, so jobs may run there: it is removed when Slurm has powered the node down"
		default:
			f.Command = c.commands.Remove + s.ID
		}
		all = append(all, f)
	}
	return all
}

// aside returns a finding for each instance that failed and was kept while another one was made for its node: the
// worker that was to remove it has ended.
func (c comparison) aside(node string) []Finding {
	var all []Finding
	for _, s := range c.seen.Aside[node] {
		if c.seen.Time.Sub(s.Created) >= c.minAge {
			all = append(all, Finding{
				Kind: Orphan, Server: s.ID, Fix: Delete,
				Detail: "an instance that failed was kept until another one was up, and not removed: " + s.ID,
			})
		}
	}
	return all
}

// replaced reports whether Slurm uses a node whose instance Terraform does not know: the cloud has another one of its
// name, as after the restore of an older backup.
func (v view) replaced() bool {
	return v.used() && v.own == nil && slices.ContainsFunc(v.strange, reconfigure.Server.Active)
}

// unused reports whether no job can be on a server: the server has a compute node's name, and Slurm does not use that
// node, or uses it at another address.
func (c comparison) unused(v view, s reconfigure.Server) bool {
	if !c.declared.Contains(v.node) {
		// it may belong to the site's additions to the root module, or to a declaration that is being edited
		return false
	}
	return v.out() || v.made && !v.instance.Tainted && v.own != nil && v.elsewhere(s)
}

// elsewhere reports whether slurmctld reaches the node at the address of its instance, not at that of another server.
// If the node's address is a host name, that is unknown.
func (v view) elsewhere(s reconfigure.Server) bool {
	at, err := netip.ParseAddr(v.state.Address)
	return err == nil && s.Address != "" && at.String() != s.Address && at.String() == v.own.Address
}

// said returns a server's status, with the cloud's fault if it is in ERROR.
func said(s reconfigure.Server) string {
	if s.Failed() && s.Fault.Words != "" {
		return string(s.Status) + ": " + s.Fault.Words
	}
	return string(s.Status)
}

// starting returns the command that starts a stopped instance again; empty if there is no single command.
func (c comparison) starting(v view) string {
	if v.own == nil || c.commands.Start[v.own.Status] == "" {
		return ""
	}
	return c.commands.Start[v.own.Status] + v.own.ID
}

// leakedPorts returns a finding for each port of the cluster that has the node's name, is not used by a server, is
// too old to belong to a run of Terraform, and is unknown to Terraform: the node is not in the map, or has another
// port.
func (c comparison) leakedPorts(v view) []Finding {
	if !c.cloud || !c.terraform {
		return nil
	}
	_, told := c.seen.Desired[v.node]
	known := c.seen.StatePorts[v.node]
	var all []Finding
	for _, p := range c.seen.Ports[v.node] {
		old := !p.Created.IsZero() && c.seen.Time.Sub(p.Created) >= c.minAge
		if p.Server != "" || !old || p.ID == known || known == "" && (told || v.made) {
			continue
		}
		f := Finding{
			Kind: LeakedPort, Port: p.ID, Fix: Delete,
			Detail: "no server uses this port of the cluster, and Terraform does not know it: " + p.ID,
		}
		if !c.declared.Contains(v.node) && v.node != c.cluster.Control.Name {
			f.Fix, f.Command = None, c.commands.RemovePort+p.ID // it may belong to a declaration that is being edited
		}
		all = append(all, f)
	}
	return all
}

// attributes compares a finished instance with Terraform's map, with the addresses in the other sources, and with the
// declaration.
func (c comparison) attributes(v view) []Finding {
	if !c.terraform || !v.made || v.instance.Tainted {
		return nil
	}
	var all []Finding
	outdated := c.seen.Outdated(c.cluster, v.node)
	if v.own != nil && v.told && v.own.ImageID != "" && v.own.ImageID != v.spec.ImageID {
		detail := "its image is " + v.own.ImageID + ", but in Terraform's map it is " + v.spec.ImageID
		all = append(all, Finding{Kind: Image, Detail: detail, Command: updating})
		outdated = slices.DeleteFunc(outdated, func(d snapshot.Drift) bool { return d == snapshot.DriftImage })
	}
	if f, ok := c.address(v); ok {
		all = append(all, f)
	}
	if v.state.Unfit() {
		all = append(all, Finding{
			Kind: Cleaned, Detail: "its disk was cleaned for an image, and it was not made anew", Command: reimaging,
		})
	}
	if v.own != nil && (v.own.Stopped() || v.own.Failed()) && !c.seen.Rests(c.cluster, v.node) {
		f := Finding{Kind: Stopped, Detail: "the status of its instance in the cloud is " + said(*v.own), Command: updating}
		if v.spec.Stopped() && !c.persistent.Contains(v.node) { // an update would not start the instance
			f.Command = poweringDown
		}
		all = append(all, f)
	}
	if len(outdated) > 0 {
		names := make([]string, len(outdated))
		for i, drift := range outdated {
			names[i] = string(drift)
		}
		detail := "its " + strings.Join(names, " and ") + " differs from the declaration"
		all = append(all, Finding{Kind: Outdated, Detail: detail, Command: updating})
	}
	return all
}

// address returns a finding if the sources have different addresses of an instance.
func (c comparison) address(v view) (Finding, bool) {
	switch is, other := c.seen.Address(v.node); other {
	case snapshot.Terraform:
		detail := "its address is " + is + ", but Terraform's state has " + v.instance.Address
		return Finding{Kind: Address, Detail: detail, Command: deploying}, true
	case snapshot.Slurm:
		detail := "its address is " + is + ", but Slurm has " + v.state.Address
		return Finding{Kind: Address, Detail: detail, Command: readdressed + is}, true
	}
	return Finding{}, false
}
