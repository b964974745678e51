package plan

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// update makes nodes what is declared now, by a rebuild, a resize or a new instance; what is that already is rebooted. A cloud node without an instance comes
// of what is declared anyway, when Slurm needs it.
func (p *planner) update(r reconfigure.Request) {
	for node := range r.Open().All() {
		whole, reason := p.whole(node)
		_, there := p.seen.Instances[node]
		switch {
		case !p.declared.Contains(node):
			p.giveBack(r, node)
			p.reject(r, node, "no node group declares it")
		case !p.deployed():
			p.reject(r, node, "there is no cluster: its control node has no instance")
		case !there && !p.persistent.Contains(node):
		case !whole && there && (p.seen.States[node].Running() || p.seen.States[node].Usable()):
			p.await(r, node, "update")
		case !whole:
			p.make(r, node, reason)
		case !p.slurm && (r.IsDeferred() || r.FromSlurm): // it asks once, and waits for the node
			p.waitsForSlurm(r, node)
		case !p.slurm:
			p.reject(r, node, p.slurmsReason())
		default:
			p.renew(r, node)
		}
	}
}

// giveBack has Slurm use a node again that we drained for a request of which nothing comes.
func (p *planner) giveBack(r reconfigure.Request, node string) {
	if state := p.seen.States[node]; r.IsDeferred() && state.Drained() && state.Ours() {
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Undrain, Reason: "nothing comes of what it was drained for"})
	}
}

func (p *planner) deployed() bool {
	_, there := p.seen.Instances[p.cluster.Control.Name]
	return there
}

// renew updates an instance that is there, when no job is on it and none can start.
func (p *planner) renew(r reconfigure.Request, node string) {
	state := p.seen.States[node]
	change, problem := p.renewal(r, node)
	switch {
	case problem != nil && r.IsDeferred() && state.Running(): // nothing can be done before its jobs have ended, whatever it is then
		p.await(r, node, "update")
	case problem != nil && r.IsDeferred() && reconfigure.ClassOf(problem) != reconfigure.ClassMissing && !p.late(r): // what the cloud does not tell now it may tell then
		p.deferFor(r, node, reconfigure.CloudUnreachable, problem.Error())
	case problem != nil:
		p.giveBack(r, node)
		p.rejectFor(r, node, problem)
	case (r.FromSlurm || change.Action == reconfigure.Reboot) && state.Ready() && state.Boot.After(r.Submitted):
		// It was booted since then: a caller who got no answer has asked twice, or a worker that died has left the request behind. Slurm's reason is gone by now. Our
		// drain may be there still, and has lost its purpose.
		if state.Drained() && state.Ours() {
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Undrain, Reason: "it was booted since the request"})
		}
	case state.PoweringDown() || state.PoweredDown():
		p.reject(r, node, "Slurm powers it down; when it is needed again, it comes of what is declared")
	case state.PoweringUp():
		p.reject(r, node, "Slurm powers it up, and a job may wait for it")
	case state.Rebooting() && !state.Running():
		p.change(r, change)
	case state.Running() || state.Usable():
		p.await(r, node, "update")
	default:
		p.change(r, change)
	}
}

// renewal is what an update does to an instance, whenever it may.
func (p *planner) renewal(r reconfigure.Request, node string) (change reconfigure.Change, problem error) {
	reimage, image := wish(r, p.seen.States[node])
	spec, problem := p.specOf(node, image)
	if problem != nil {
		return change, problem
	}
	change = reconfigure.Change{Node: node, Action: reconfigure.Replace, Spec: spec}
	switch differences := differences(p.seen.Desired[node], spec); {
	case differences != "":
		change.Reason = "its " + differences + " is not what is declared"
		if image != "" {
			change.Reason = "its " + differences + " is not what is asked for"
		}
	case reimage:
		change.Reason = "a new instance is asked for"
	default:
		change = reconfigure.Change{Node: node, Action: reconfigure.Reboot, Reason: "it is what is declared"}
	}
	return change, nil
}

// wish is what a request wants of a node besides what is declared. Slurm hands on the reason that the administrator gave to `scontrol reboot`; it puts what
// it has to say itself behind a colon.
func wish(r reconfigure.Request, state reconfigure.NodeState) (reimage bool, image string) {
	if !r.FromSlurm {
		return r.Reimage, r.Image
	}
	words := strings.Fields(state.Reason)
	if len(words) == 0 || strings.TrimRight(words[0], ":,;") != "reimage" {
		return false, ""
	}
	for _, word := range words[1:] {
		if name, ok := strings.CutPrefix(word, "image="); ok {
			return true, name
		}
	}
	return true, ""
}

// differences names what of an instance is made of something else.
func differences(is, wanted reconfigure.Spec) string {
	var names []string
	for _, drift := range snapshot.Differences(is, wanted) {
		names = append(names, string(drift))
	}
	return strings.Join(names, " and ")
}

// await has Slurm start no more jobs on a node, and waits for those that run: the request stays open, and is planned again. After a time it gives up.
func (p *planner) await(r reconfigure.Request, node, purpose string) {
	state := p.seen.States[node]
	drained := state.Drained() || state.Rebooting()
	if p.late(r) {
		if state.Drained() && state.Ours() {
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Undrain, Reason: "its jobs took too long"})
		}
		p.reject(r, node, fmt.Sprintf("it was not free of jobs within %s", r.DrainTimeout.Round(time.Second)))
		return
	}
	if !drained {
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Drain, Reason: purpose})
	}
	p.waits(r, node)
}

// late reports whether the time for jobs to end is over.
func (p *planner) late(r reconfigure.Request) bool {
	return r.DrainTimeout > 0 && p.seen.Time.Sub(r.Submitted) > r.DrainTimeout
}

func (p *planner) waits(r reconfigure.Request, node string) {
	p.deferFor(r, node, reconfigure.WaitsForJobs, "its jobs have to end first")
}

// waitsForSlurm defers a node while it is unknown whether its jobs have ended.
func (p *planner) waitsForSlurm(r reconfigure.Request, node string) {
	p.deferFor(r, node, reconfigure.SlurmUnreachable, unreachable)
}

func (p *planner) deferFor(r reconfigure.Request, node string, kind reconfigure.DeferralKind, reason string) {
	p.deferred = append(p.deferred, reconfigure.Deferral{Node: node, Request: r.ID, Kind: kind, Reason: reason})
}

// AfterDrain is the snapshot as it will be when the nodes that a plan waits for are free of jobs: what is planned then is what a preview shows.
func AfterDrain(seen snapshot.Snapshot, p reconfigure.Plan) snapshot.Snapshot {
	states := maps.Clone(seen.States)
	for _, d := range p.Deferred {
		if d.Kind != reconfigure.WaitsForJobs {
			continue
		}
		state := states[d.Node]
		if !state.Drained() {
			state.Reason = reconfigure.ReasonPrefix
		}
		state.Busy, state.Other = false, nil
		state.Flags = state.Flags&reconfigure.NodeCloud | reconfigure.NodeIdle | reconfigure.NodeDrain
		states[d.Node] = state
	}
	seen.States = states
	return seen
}
