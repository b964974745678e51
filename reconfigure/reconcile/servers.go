package reconcile

import (
	"net/netip"
	"strings"
)

// strangers are the instances of ours with a node's name that Terraform does not know, and that are old enough to be nobody's.
func (c comparison) strangers(v view) []Finding {
	if !c.seen.Cloud || !c.seen.Terraform {
		return nil
	}
	var all []Finding
	for _, s := range v.strange {
		if s.Created.IsZero() || c.seen.Time.Sub(s.Created) < c.seen.MinAge {
			continue
		}
		f := Finding{Kind: Orphan, Server: s.ID, Detail: "the cloud has an instance of ours that Terraform does not know: " + s.ID}
		if len(c.seen.Servers[v.node]) > 1 {
			f.Kind, f.Detail = Doubled, "the cloud has several instances of this name, and Terraform does not know "+s.ID
		}
		if c.forsaken(v, s) {
			f.Fix = Delete
		} else {
			f.Command = byHand + s.ID
		}
		all = append(all, f)
	}
	return all
}

// forsaken tells that nothing can be running on a server: it has a compute node's name, and Slurm does not use that node, or uses it at another address.
func (c comparison) forsaken(v view, s Server) bool {
	if !c.declared.Contains(v.node) {
		return false // it may belong to something that the site has added to the root module, or to a declaration that is being edited
	}
	return v.out() || v.made && !v.instance.Tainted && v.own != nil && v.elsewhere(s)
}

// elsewhere tells that slurmctld reaches the node at the address of its own instance, and not at that of another server. A name as the node's address tells
// nothing.
func (v view) elsewhere(s Server) bool {
	at, err := netip.ParseAddr(v.state.Address)
	return err == nil && s.Address != "" && at.String() != s.Address && at.String() == v.own.Address
}

// likeness compares an instance that is there with what Terraform was told, with the addresses that the others have of it, and with what is declared.
func (c comparison) likeness(v view) []Finding {
	if !c.seen.Terraform || !v.made || v.instance.Tainted {
		return nil
	}
	var all []Finding
	if v.own != nil && v.told && v.own.ImageID != "" && v.own.ImageID != v.spec.ImageID {
		all = append(all, Finding{Kind: Image, Detail: "its image is " + v.own.ImageID + ", but Terraform was told " + v.spec.ImageID, Command: updating})
	}
	if f, ok := v.address(); ok {
		all = append(all, f)
	}
	if differences := c.outdated(v); differences != "" {
		all = append(all, Finding{Kind: Outdated, Detail: "its " + differences + " is not what is declared now", Command: updating})
	}
	return all
}

// address compares the three addresses of an instance. Slurm's is compared while it uses the node: it forgets that of a cloud node that is powered down.
func (v view) address() (Finding, bool) {
	if v.own == nil || v.own.Address == "" {
		return Finding{}, false
	}
	is := v.own.Address
	if v.instance.Address != "" && v.instance.Address != is {
		return Finding{Kind: Address, Detail: "its address is " + is + ", but Terraform's state has " + v.instance.Address, Command: deploying}, true
	}
	if at, err := netip.ParseAddr(v.state.Address); err == nil && v.state.Up() && at.String() != is {
		return Finding{Kind: Address, Detail: "its address is " + is + ", but Slurm has " + at.String(), Command: readdressed + is}, true
	}
	return Finding{}, false
}

// outdated names what of a node is made of something else than is declared.
func (c comparison) outdated(v view) string {
	group, source, declared := c.group(v.node)
	wanted, resolved := c.seen.Sources[source]
	if !declared || !v.told || !resolved || wanted.Err != "" {
		return ""
	}
	var names []string
	for _, part := range []struct{ name, is, wanted string }{
		{"image", v.spec.ImageID, wanted.ImageID},
		{"flavor", v.spec.FlavorID, wanted.FlavorID},
		{"network", v.spec.NetworkID, wanted.NetworkID},
		{"group", v.spec.Group, group},
	} {
		if part.is != part.wanted {
			names = append(names, part.name)
		}
	}
	return strings.Join(names, " and ")
}
