package config

import (
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// checkFresh checks the partitions whose jobs get fresh instances, and their groups.
func (d *declaration) checkFresh(r *report) {
	at := slices.IndexFunc(d.partitions, partition.perJob)
	if at < 0 {
		return
	}
	for _, g := range d.groups {
		d.checkFreshGroup(r, g)
	}
	for _, p := range d.partitions {
		for _, key := range []string{"oversubscribe", "shared", "powerdownonidle"} {
			if own, set := p.slurm[key]; set && p.perJob() {
				r.add(own.place, "cannot be set here: it is generated from fresh: %s", perJob)
			}
		}
	}
	for _, key := range []string{"prolog", "epilog"} {
		if own, set := d.extra[key]; set {
			r.add(own.place, "cannot be set here: %s has fresh: %s (line %d), which needs it", d.partitions[at].title(),
				perJob, d.partitions[at].fresh.line)
		}
	}
	if own, set := d.extra["prologflags"]; set && own.ok && !marksAtAllocation(own.is) {
		r.add(own.place, "must contain Alloc: with fresh: %s each node is marked before its job uses it", perJob)
	}
}

// marksAtAllocation reports whether PrologFlags have Prolog run on all nodes of a job before it begins (slurm.conf(5):
// Contain and X11 imply Alloc).
func marksAtAllocation(flags string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToLower(flags), ","), func(flag string) bool {
		return slices.Contains([]string{"alloc", "contain", "x11"}, flag)
	})
}

// checkFreshGroup checks that no instance of a group outlives a job, if a partition over it has fresh: job.
func (d *declaration) checkFreshGroup(r *report, g group) {
	over := func(p partition) bool { return slices.Contains(each(p.groups.is, content), g.name.is) }
	at := slices.IndexFunc(d.partitions, func(p partition) bool { return p.perJob() && over(p) })
	if at < 0 || !g.name.ok {
		return
	}
	fresh := d.partitions[at].title()
	if g.min.ok && g.min.is > 0 {
		r.add(g.min.place, "must be 0: the jobs of %s get fresh instances, and a persistent node keeps its instance",
			fresh)
	}
	if g.whenIdle.is != string(reconfigure.IdleDelete) {
		r.add(g.whenIdle.place, "must be %s: the jobs of %s get fresh instances", reconfigure.IdleDelete, fresh)
	}
	for _, p := range d.partitions {
		if over(p) && !p.perJob() {
			r.add(p.groups.place, "has %s, whose nodes %s gives to one job each; use another group, or fresh: %s "+
				"here too", g.title(), fresh, perJob)
		}
	}
}

func (p partition) perJob() bool { return p.fresh.is == perJob }
