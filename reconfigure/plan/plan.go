// Package plan is the planner. Compute is a pure function from the declaration, a snapshot and requests to a plan: it
// uses no clock, no I/O and no logger. Each mode has one file of rules.
package plan

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Compute plans requests, oldest first. It always returns a plan: nodes that cannot be planned are rejected in it,
// one by one, and do not affect the rest. If two requests need different actions on one node, the later one is
// rejected for that node; the caller plans such requests one after the other.
func Compute(cluster reconfigure.Cluster, seen snapshot.Snapshot, requests []reconfigure.Request) reconfigure.Plan {
	p := &planner{
		boots:      boots(requests),
		cluster:    cluster,
		declared:   cluster.Nodes(),
		persistent: cluster.Persistent(),
		seen:       seen,
		slurm:      seen.Answers(snapshot.Slurm),
		changes:    map[string]*reconfigure.Change{},
		desired:    maps.Clone(seen.Desired),
	}
	if p.desired == nil {
		p.desired = map[string]reconfigure.Spec{}
	}
	for _, r := range requests {
		if reason := notAttached[r.Mode]; reason != "" && cluster.Attached() {
			p.rejectAll(r, reason)
			continue
		}
		p.jobs, p.needed = append(p.jobs, r.Jobs...), reconfigure.Waiting(r.Jobs)
		switch r.Mode {
		case reconfigure.Deploy:
			p.deploy(r)
		case reconfigure.Resume:
			p.resume(p.withoutUnknown(r))
		case reconfigure.Suspend:
			p.suspend(p.withoutUnknown(r))
		case reconfigure.Update:
			p.update(p.withoutUnknown(r))
		case reconfigure.Enlarge, reconfigure.Shrink, reconfigure.Resize:
			p.resize(r)
		case reconfigure.Destroy:
			p.destroy(r)
		case reconfigure.MakeImage:
			p.image(p.withoutUnknown(r))
		case reconfigure.CheckNodes:
			p.check(p.withoutUnknown(r))
		default:
			p.rejectAll(r, "unknown mode "+string(r.Mode))
		}
	}
	p.restrain(requests)
	return p.plan()
}

// notOurs is the reason for rejecting a change of the site's slurm.conf.
const notOurs = "the site runs the control node: edit min_nodes and max_nodes in all.yml, and then run " +
	"`reconfigure attach` and `reconfigure deploy`"

// notAttached has the reasons for rejecting modes if the site runs the control node.
var notAttached = map[reconfigure.Mode]string{
	reconfigure.Shrink: notOurs, reconfigure.Resize: notOurs,
	reconfigure.MakeImage: "the site runs the control node, and it is unknown which files of the node an image must not have",
}

// Sources returns the sources that must be resolved before the requests can be planned.
func Sources(
	cluster reconfigure.Cluster, states map[string]reconfigure.NodeState, requests []reconfigure.Request,
) []reconfigure.Source {
	needed := map[reconfigure.Source]bool{}
	for _, r := range requests {
		for node := range scope(cluster, r).All() {
			image := ""
			if r.Mode == reconfigure.Update {
				_, image = wish(r, states[node])
			}
			_, source := made(cluster, node, image)
			needed[source] = true
			for _, source := range fallbacks(cluster, node, image) {
				needed[source] = true
			}
		}
		if r.Mode == reconfigure.Deploy {
			for _, source := range portSources(cluster) {
				needed[source] = true
			}
		}
	}
	return slices.Collect(maps.Keys(needed))
}

// scope returns the nodes for which a request may make instances.
func scope(cluster reconfigure.Cluster, r reconfigure.Request) nodeset.NodeSet {
	switch r.Mode {
	case reconfigure.Deploy:
		return deployed(cluster)
	case reconfigure.Resume, reconfigure.Update, reconfigure.MakeImage:
		return r.Open().Intersect(cluster.Nodes())
	case reconfigure.Enlarge, reconfigure.Resize:
		return r.Open().Intersect(cluster.Persistent())
	default:
		return nodeset.NodeSet{}
	}
}

// deployed returns the nodes that a deploy makes.
func deployed(cluster reconfigure.Cluster) nodeset.NodeSet {
	if cluster.Attached() {
		return cluster.Persistent()
	}
	return cluster.Persistent().Union(nodeset.Of(cluster.Control.Name))
}

// made returns the group of a node, and the declared source of its instance, with another image if one is given.
func made(cluster reconfigure.Cluster, node, image string) (group string, source reconfigure.Source) {
	group, source = reconfigure.ControlGroup, cluster.Control.Source
	if g, ok := cluster.GroupOf(node); ok {
		group, source = g.Name, g.Source
	}
	if image != "" {
		source.Image = image
	}
	return group, source
}

// fallbacks returns the fallback sources of a node's group, with another image if one is given.
func fallbacks(cluster reconfigure.Cluster, node, image string) []reconfigure.Source {
	g, _ := cluster.GroupOf(node)
	all := g.FallbackSources()
	for i := range all {
		all[i].Image = cmp.Or(image, all[i].Image)
	}
	return all
}

// unreachable is the reason not to change an instance while Slurm does not answer. Deferrals have it too, and their
// reasons must not change from plan to plan.
const unreachable = "Slurm does not answer, so it is unknown whether a job runs on it"

// slurmsReason returns unreachable with Slurm's error, whose text may differ each time.
func (p *planner) slurmsReason() string {
	if p.seen.Missing[snapshot.Slurm] == "" {
		return unreachable
	}
	return unreachable + ": " + p.seen.Missing[snapshot.Slurm]
}

// unknownJobs reports whether it is unknown whether a job runs on an instance. An unfinished instance hardly ever has
// one.
func (p *planner) unknownJobs(i reconfigure.Instance) bool { return !p.slurm && !i.Tainted }

type planner struct {
	cluster              reconfigure.Cluster
	declared, persistent nodeset.NodeSet
	seen                 snapshot.Snapshot
	boots                map[string]boot // the boots that requests ask for, by node
	slurm                bool            // Slurm has answered, so it is known where jobs run
	changes              map[string]*reconfigure.Change
	rejected             []reconfigure.Rejection
	deferred             []reconfigure.Deferral
	jobs                 []reconfigure.Job
	needed               map[string]int // the number of jobs of the current request that wait for a node
	desired              map[string]reconfigure.Spec
	shared, everywhere   bool
}

// change adds an action on a node to the plan; a second request for the same action joins it.
func (p *planner) change(r reconfigure.Request, c reconfigure.Change) {
	if c.Action == reconfigure.Undrain && p.seen.States[c.Node].Unfit() {
		return // the node stays drained until it is made anew
	}
	if c.Action == reconfigure.Reboot || c.Action == reconfigure.Start {
		c = p.takeUp(c)
	}
	was, ok := p.changes[c.Node]
	c.ForJobs = p.needed[c.Node] > 0 && !r.Insist
	switch {
	case !ok:
		c.Requests, c.Since = []reconfigure.RequestID{r.ID}, r.Submitted
		p.endDrain(&c)
		p.budget(r, &c)
		p.changes[c.Node] = &c
	case was.Action == c.Action:
		p.join(r, was)
		was.ForJobs = was.ForJobs && c.ForJobs
	default:
		p.reject(r, c.Node, "another request of the same plan is to "+string(was.Action)+" it")
		return
	}
	switch c.Action {
	case reconfigure.Create, reconfigure.Replace, reconfigure.Adopt, reconfigure.Start, reconfigure.Stop:
		p.desired[c.Node] = c.Spec
	case reconfigure.Remove:
		p.forget(r, c.Node)
	case reconfigure.Capture:
		if c.HandOver {
			p.forget(r, c.Node)
		} else {
			p.desired[c.Node] = c.Spec
		}
	}
}

// endDrain sets whether the node's drain ends with the change: a drain of this tool does, and Slurm's drain for a
// reboot, since Slurm loses the state after the reboot if it reads slurm.conf meanwhile. Other drains stay.
func (p *planner) endDrain(c *reconfigure.Change) {
	state := p.seen.States[c.Node]
	renews := c.Action == reconfigure.Create || c.Action == reconfigure.Replace || c.Action.Boots() ||
		c.Action == reconfigure.Capture
	switch {
	case !renews || !state.Drained():
	case state.Rebooting():
		c.Undrain = state.Returns || state.Ours() // a drain of this tool is from an update that failed
	case state.Ours():
		c.Undrain = true
	default:
		c.Note = "it stays drained, since reconfigure has not drained it: " + state.OthersReason()
	}
}

func (p *planner) reject(r reconfigure.Request, node, reason string) {
	p.rejected = append(p.rejected, reconfigure.Rejection{Node: node, Request: r.ID, Reason: reason,
		Awaited: r.Mode == reconfigure.Resume || r.FromSlurm})
}

// rejectFor rejects a node with an error, which may have a class.
func (p *planner) rejectFor(r reconfigure.Request, node string, problem error) {
	p.reject(r, node, problem.Error())
	if class := reconfigure.ClassOf(problem); class != reconfigure.ClassOther {
		p.rejected[len(p.rejected)-1].Class = class
	}
}

func (p *planner) rejectAll(r reconfigure.Request, reason string) {
	for node := range r.Nodes.All() {
		p.reject(r, node, reason)
	}
}

// undeclared is the reason for rejecting a node of a request.
const undeclared = "no node group declares it"

// withoutUnknown rejects the nodes that no node group declares and no source knows, and returns the request without
// them. They share one rejection, since Slurm's key can name 65,536 of them in a call of 40 bytes. Slurm does not wait
// for a node that it does not know.
func (p *planner) withoutUnknown(r reconfigure.Request) reconfigure.Request {
	unknown := r.Open().Difference(p.declared).Where(func(node string) bool {
		_, there := p.seen.Instances[node]
		_, wanted := p.seen.Desired[node]
		_, slurm := p.seen.States[node]
		return !there && !wanted && !slurm
	})
	if unknown.Empty() {
		return r
	}
	p.rejected = append(p.rejected, reconfigure.Rejection{Node: unknown.String(), Request: r.ID, Reason: undeclared})
	r.Nodes = r.Nodes.Difference(unknown)
	return r
}

// spec returns the entry of a node by the current declaration of its group.
func (p *planner) spec(node string) (reconfigure.Spec, error) {
	return p.specOf(node, "")
}

// specOf is spec, with another image if one is given.
func (p *planner) specOf(node, image string) (spec reconfigure.Spec, problem error) {
	group, source := made(p.cluster, node, image)
	found, ok := p.seen.Sources[source]
	switch {
	case !ok:
		return spec, errors.New("its image, flavor and network were not resolved")
	case found.Err != "":
		return spec, reconfigure.Classify(found.Class, errors.New(found.Err))
	}
	spec = found.Spec(group)
	spec.Shard = p.shard(node)
	if port := p.seen.Desired[node]; port.NetworkID == spec.NetworkID {
		spec.SecurityGroups = port.SecurityGroups
	}
	return spec, nil
}

// asMade returns an entry with what the node's instance is made of, where the declaration admits that.
func (p *planner) asMade(node string, spec reconfigure.Spec) reconfigure.Spec {
	is := p.seen.Current(node)
	spec = p.seen.FallenBack(p.cluster, node, spec, is)
	if entry := p.seen.Desired[node]; spec.Admits(is.Placement) && entry.Admits(is.Placement) {
		spec.Placement = entry.Placement // else the entry says where it is not
	}
	return spec
}

// alternatives returns what may be tried for a new cloud node while the cloud has no room for the declared flavor in
// the declared zone.
func (p *planner) alternatives(node, image string, spec reconfigure.Spec) []reconfigure.Fallback {
	if p.persistent.Contains(node) {
		return nil // a person waits for it, and it would keep the flavor
	}
	tried := []reconfigure.Fallback{{FlavorID: spec.FlavorID, Zone: spec.Zone}}
	for _, source := range fallbacks(p.cluster, node, image) {
		found := p.seen.Sources[source]
		other := reconfigure.Fallback{FlavorID: found.FlavorID, Zone: found.Zone}
		if found.Err == "" && found.FlavorID != "" && !slices.Contains(tried, other) {
			tried = append(tried, other)
		}
	}
	return tried[1:]
}

// make plans a new instance for a node; it replaces an unfinished one.
func (p *planner) make(r reconfigure.Request, node, reason string) {
	_, image := wish(r, p.seen.States[node])
	spec, problem := p.specOf(node, image)
	if problem != nil {
		p.giveBack(r, node)
		p.rejectFor(r, node, problem)
		return
	}
	// A worker that has ended may have begun with a fallback.
	if entry := p.seen.Desired[node]; entry.HasInstance() && !p.persistent.Contains(node) {
		spec = p.seen.FallenBack(p.cluster, node, spec, entry)
	}
	action := reconfigure.Create
	if instance, there := p.seen.Instances[node]; there {
		action = reconfigure.Replace
		if why := p.endangered(instance); why != "" {
			p.reject(r, node, why)
			return
		}
	}
	p.change(r, reconfigure.Change{Node: node, Action: action, Spec: spec, Reason: reason,
		Fallbacks: p.alternatives(node, image, spec)})
}

// endangered returns why an instance must not be removed or replaced now; empty if it may be. Only destroy may remove
// the control node's instance. While Slurm is unreachable, an unfinished instance may be removed, since it hardly ever
// has a job. But an administrator may have tainted an instance in use (`terraform taint`).
func (p *planner) endangered(i reconfigure.Instance) string {
	switch {
	case i.Node == p.cluster.Control.Name && i.ID != "":
		return "it is the control node, and Slurm's state would be lost: repair its instance by hand"
	case p.seen.States[i.Node].Running():
		return "a job runs on it"
	case p.unknownJobs(i):
		return p.slurmsReason()
	}
	return ""
}

// whole reports whether a node has a finished instance and an entry in the map of nodes for it; else it returns the
// reason.
func (p *planner) whole(node string) (ok bool, reason string) {
	instance, there := p.seen.Instances[node]
	wanted := p.seen.Desired[node].HasInstance()
	switch {
	case !there:
		return false, "it has no instance"
	case instance.Tainted:
		return false, "its instance is tainted"
	case !wanted:
		return false, "the removal of its instance was interrupted"
	}
	return true, ""
}

// stopped reports whether the instance of a compute node was stopped or shelved while idle.
func (p *planner) stopped(node string) bool {
	whole, _ := p.whole(node)
	return whole && p.seen.Desired[node].Stopped() && node != p.cluster.Control.Name
}

func (p *planner) plan() reconfigure.Plan {
	plan := reconfigure.Plan{Rejected: p.rejected, Deferred: p.deferred, Jobs: p.jobs, Desired: p.desired,
		Shared: p.shared, Everywhere: p.everywhere}
	if p.everywhere {
		plan.Conf = p.seen.Conf
	}
	for _, node := range nodeset.Collect(maps.Keys(p.changes)).Names() {
		plan.Changes = append(plan.Changes, *p.changes[node])
	}
	slices.SortStableFunc(plan.Rejected, func(a, b reconfigure.Rejection) int {
		return cmp.Compare(a.Request, b.Request)
	})
	return plan
}
