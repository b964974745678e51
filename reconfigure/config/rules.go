package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	people "github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// check checks the rules between keys.
func (d *declaration) check(r *report) {
	for _, g := range d.groups {
		g.checkSize(r)
	}
	d.checkControl(r)
	d.checkNumber(r)
	d.checkNetworks(r)
	d.checkNodeNames(r)
	d.checkPartitions(r)
	d.checkLimits(r)
	d.checkFresh(r)
	d.checkSpare(r)
	d.checkZones(r)
	d.checkTopology(r)
	d.checkSlurm(r)
}

// checkSpare checks that a worker keeps the spare nodes of groups.
func (d *declaration) checkSpare(r *report) {
	for _, g := range d.groups {
		switch minutes := d.settings.reconcileMinutes; {
		case g.spareHours.is != "" && g.spare.is == 0:
			r.add(g.spareHours.place, "the group declares no spare; declare it, or leave spare_hours out")
		case g.spare.is > 0 && minutes.is == 0 && (minutes.ok || minutes.missing()):
			r.add(g.spare.place, "needs reconfigure.reconcile_minutes above 0: a worker that compares keeps the spare nodes")
		}
	}
}

// checkZones requires a zone where there are others to fall back to: without one, the cloud chooses among all.
func (d *declaration) checkZones(r *report) {
	for _, g := range d.groups {
		if len(g.fallbackZones.is) > 0 && g.zone.is == "" {
			r.add(g.fallbackZones.place, "the group declares no availability_zone; declare it, or leave fallback_zones out")
		}
	}
}

// checkTopology requires that the zone of each node is known before it has an instance: topology.conf has all nodes,
// and Slurm reads it only when slurmctld starts.
func (d *declaration) checkTopology(r *report) {
	if d.slurm.topology.is != byZones || d.control.existing.is != "" {
		return
	}
	if own, set := d.extra["topologyplugin"]; set {
		r.add(own.place, "cannot be set here: it is generated from slurm.topology")
	}
	for i, g := range d.groups {
		switch {
		case g.zone.is == "" && (g.zone.ok || g.zone.missing()):
			r.add(d.slurm.topology.place, "%s needs node_groups[%d].availability_zone, and the group declares none",
				byZones, i)
		case g.zone.ok && (!switchName.MatchString(g.zone.is) || strings.EqualFold(g.zone.is, topSwitch)):
			r.add(g.zone.place, "%q cannot be the name of a switch: with slurm.topology: %s it must be letters, digits and "+
				"_ . -, and not %s, which connects the zones", g.zone.is, byZones, topSwitch)
		}
		if len(g.fallbackZones.is) > 0 {
			r.add(g.fallbackZones.place, "with slurm.topology: %s a node must be in the zone that topology.conf has; remove "+
				"one of the two keys", byZones)
		}
	}
}

// topSwitch connects the zones in topology.conf.
const topSwitch = "zones"

var switchName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// checkNetworks requires a network from which the control host can reach the nodes.
func (d *declaration) checkNetworks(r *report) {
	if d.allowedCIDRs.ok && len(d.allowedCIDRs.is) == 0 {
		r.add(d.allowedCIDRs.place, "is empty, so that this host could not reach the nodes; add its network, or leave "+
			"the key out to allow all addresses")
	}
}

func (g group) checkSize(r *report) {
	if g.min.ok && g.max.ok && g.min.is > g.max.is {
		r.add(g.min.place, "%d is above max_nodes %d; lower min_nodes or raise max_nodes", g.min.is, g.max.is)
	}
	if !g.width.ok || !g.max.ok {
		return
	}
	if needed := len(fmt.Sprint(g.max.is)); needed > g.width.is {
		r.add(g.max.place, "%d has more digits than a node's number, which has width %d; lower max_nodes or make "+
			"width %d, which renames the nodes",
			g.max.is, g.width.is, needed)
	}
}

// checkNumber checks the number of nodes of all groups.
func (d *declaration) checkNumber(r *report) {
	total := 0
	for _, g := range d.groups {
		if total += g.max.is; total > nodeset.MaxNodes {
			r.add(g.max.place, "with this group the cluster has %d nodes, but Slurm supports only %d", total,
				nodeset.MaxNodes)
			return
		}
	}
}

// checkNodeNames checks that no name is in two groups, even if groups grow to the maximum of their width.
func (d *declaration) checkNodeNames(r *report) {
	unique(r, each(d.groups, func(g group) value[string] { return g.name }))
	for i, g := range d.groups {
		if !g.prefix.ok || !g.width.ok {
			continue
		}
		if err := nodeset.ValidName(g.prefix.is + strings.Repeat("1", g.width.is)); err != nil {
			r.add(g.prefix.place, "gives invalid node names: %v", err)
		}
		j := slices.IndexFunc(d.groups[:i], g.clashes)
		if j >= 0 {
			r.add(g.prefix.place, "node names %s also belong to %s (line %d); use another prefix", g.pattern(),
				d.groups[j].title(), d.groups[j].prefix.line)
		}
	}
	c := d.control.name
	i := slices.IndexFunc(d.groups, func(g group) bool { return g.covers(c.is) })
	if c.ok && i >= 0 {
		r.add(c.place, "%s is a node name of %s, %s (line %d); use another name", c.is, d.groups[i].title(),
			d.groups[i].pattern(), d.groups[i].prefix.line)
	}
}

// covers reports whether a name is the group's prefix followed by width digits.
func (g group) covers(name string) bool {
	digits, ok := strings.CutPrefix(name, g.prefix.is)
	return ok && g.prefix.ok && g.width.ok && len(digits) == g.width.is && strings.Trim(digits, "0123456789") == ""
}

// clashes reports whether a name could be in both groups. Then the longer prefix is the shorter one with digits: n100
// could have the prefix n or n1.
func (g group) clashes(h group) bool {
	if len(g.prefix.is) < len(h.prefix.is) {
		g, h = h, g
	}
	return h.covers(g.prefix.is + strings.Repeat("0", g.width.is))
}

// pattern returns the group's node names for messages: node## for node01, node02, …
func (g group) pattern() string { return g.prefix.is + strings.Repeat("#", g.width.is) }

// title returns the group's name for messages.
func (g group) title() string {
	if g.name.is == "" {
		return "another group"
	}
	return "group " + g.name.is
}

func (d *declaration) checkPartitions(r *report) {
	unique(r, each(d.partitions, func(p partition) value[string] { return p.name }))
	names := each(d.groups, func(g group) string { return g.name.is })
	var first partition
	for _, p := range d.partitions {
		if p.groups.ok && len(p.groups.is) == 0 {
			r.add(p.groups.place, "is empty; a partition has at least one group")
		}
		checkGroups(r, p.groups, names)
		switch {
		case !p.isDefault.is:
		case first.isDefault.is:
			r.add(p.isDefault.place, "the default is already %s (line %d), and there can be only one", first.title(),
				first.isDefault.line)
		default:
			first = p
		}
	}
}

func (p partition) title() string {
	if p.name.is == "" {
		return "another partition"
	}
	return "partition " + p.name.is
}

// checkLimits checks that limits name declared groups, and leave room for their persistent nodes.
func (d *declaration) checkLimits(r *report) {
	names := each(d.groups, func(g group) string { return g.name.is })
	for _, l := range d.limits {
		if l.groups.ok && len(l.groups.is) == 0 {
			r.add(l.groups.place, "is empty; a limit has at least one group")
		}
		checkGroups(r, l.groups, names)
		persistent := 0
		for _, g := range d.groups {
			if slices.ContainsFunc(l.groups.is, func(v value[string]) bool { return v.is == g.name.is }) {
				persistent += g.min.is
			}
		}
		if l.max.ok && l.max.is < persistent {
			r.add(l.max.place, "%d is below the %d persistent nodes of these groups; raise it, or lower their min_nodes",
				l.max.is, persistent)
		}
	}
}

// checkGroups checks that the names are those of groups.
func checkGroups(r *report, groups value[[]value[string]], names []string) {
	for _, g := range groups.is {
		if !g.ok || len(names) == 0 || slices.Contains(names, g.is) {
			continue
		}
		message := fmt.Sprintf("there is no group %q", g.is)
		if near, ok := people.Nearest(g.is, names); ok {
			message += fmt.Sprintf("; did you mean %s?", near)
		}
		r.add(g.place, "%s", message)
	}
}

func (d *declaration) checkSlurm(r *report) {
	resume, boot := d.slurm.resumeTimeout, d.settings.bootTimeout
	if resume.ok && boot.ok && resume.is < boot.is {
		r.add(resume.place, "%d is below reconfigure.boot_timeout %d; it must cover making the instance, its boot "+
			"and the playbooks", resume.is, boot.is)
	}
	private, set := d.extra["privatedata"]
	if set && private.ok && !slices.Contains(strings.Split(strings.ToLower(private.is), ","), "cloud") {
		r.add(private.place, "must contain cloud, or Slurm does not find nodes that are powered down")
	}
	for _, key := range []string{"accountingstoragetype", "accountingstoragehost"} {
		if own, set := d.extra[key]; set && d.slurm.accountingStorage.is == slurmdbd {
			r.add(own.place, "cannot be set here: it is generated from slurm.accounting_storage")
		}
	}
	prolog, set := d.extra["prologslurmctld"]
	if set && prolog.ok && d.slurm.launch.is == atOnce && !onePath.MatchString(prolog.is) {
		r.add(prolog.place, "%q is not the absolute path of one program; with slurm.launch: %s, the launch program calls "+
			"it for each job", prolog.is, atOnce)
	}
}

// onePath matches an absolute path that is no pattern. Slurm takes patterns, of several programs.
var onePath = regexp.MustCompile(`^/[^*?\[ ,"]*$`)
