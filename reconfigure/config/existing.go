package config

import (
	"fmt"
	"maps"
	"slices"
)

// checkControl checks that the keys of control_node are those of an instance that is made, or those of a control node
// that exists.
func (d *declaration) checkControl(r *report) {
	if d.control.line == 0 {
		return
	}
	if !d.control.existing.missing() && d.control.existing.is != "" {
		d.checkExisting(r)
		return
	}
	for _, key := range d.control.ofInstance() {
		if key.required && key.missing() {
			r.add(place{"control_node." + key.name, d.control.line}, "is missing")
		}
	}
	for _, key := range d.control.ofExisting() {
		if !key.missing() {
			r.add(key.place, onlyExisting)
		}
	}
	for _, list := range []value[[]value[string]]{d.control.cidrs, d.control.configure} {
		if !list.missing() {
			r.add(list.place, onlyExisting)
		}
	}
}

const onlyExisting = "is only for a control node that exists: write control_node.existing too, or remove this key"

// controlKey is a key of control_node.
type controlKey struct {
	name string
	value[string]
	required bool
}

// ofInstance returns the keys of a control node that reconfigure makes.
func (c *control) ofInstance() []controlKey {
	return []controlKey{
		{"name", c.name, false}, {"image", c.image, true}, {"flavor", c.flavor, true}, {"network", c.network, true},
		{"floating_ip_network", c.floatingIPNetwork, false}, {"availability_zone", c.zone, false},
	}
}

// ofExisting returns the further keys of a control node that exists.
func (c *control) ofExisting() []controlKey {
	return []controlKey{{"user", c.user, false}, {"slurm_conf", c.slurmConf, false}}
}

// checkExisting rejects the keys of what belongs to the site if its control node exists: the instance, slurm.conf,
// slurmdbd and shared folders.
func (d *declaration) checkExisting(r *report) {
	for _, key := range d.control.ofInstance() {
		if !key.missing() {
			r.add(key.place, "contradicts control_node.existing, which is no instance of this cluster; remove one of them")
		}
	}
	const siteOwns = "contradicts control_node.existing: %s; remove this key"
	for _, name := range slices.Sorted(maps.Keys(d.extra)) {
		r.add(d.extra[name].place, siteOwns, "the settings of slurm.conf are in the site's own file")
	}
	if at := d.slurm.accountingStorage; at.is == slurmdbd {
		r.add(at.place, siteOwns, "slurmdbd is the site's")
	}
	if at := d.slurm.topology; at.is == byZones {
		r.add(at.place, siteOwns, "topology.conf is the site's")
	}
	if at := d.nfsShares; len(at.is) > 0 {
		r.add(at.place, siteOwns, "shared folders are the site's")
	}
	for _, p := range d.partitions {
		if p.perJob() {
			r.add(p.fresh.place, siteOwns, "fresh instances need a Prolog and an Epilog, which are the site's")
		}
	}
	for i, g := range d.groups {
		for _, key := range []controlKey{{"image", g.image, true}, {"network", g.network, true}} {
			if key.missing() && g.name.ok {
				r.add(place{fmt.Sprintf("node_groups[%d].%s", i, key.name), g.name.line}, "is missing: with "+
					"control_node.existing each group has its own")
			}
		}
	}
	host := d.control.existing
	i := slices.IndexFunc(d.groups, func(g group) bool { return g.covers(host.is) })
	if host.ok && i >= 0 {
		r.add(host.place, "%s is a node name of %s, %s (line %d); use another prefix", host.is, d.groups[i].title(),
			d.groups[i].pattern(), d.groups[i].prefix.line)
	}
}
