package plan

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// update makes instances as declared now, by a rebuild, a resize or a new instance; an instance that does not differ
// is rebooted. A cloud node without an instance is skipped: its next instance is made from the declaration. A stopped
// instance is removed if it differs.
func (p *planner) update(r reconfigure.Request) {
	for node := range r.Open().All() {
		whole, reason := p.whole(node)
		_, there := p.seen.Instances[node]
		switch {
		case !p.declared.Contains(node):
			p.giveBack(r, node)
			p.reject(r, node, undeclared)
		case !p.deployed():
			p.reject(r, node, "there is no cluster: its control node has no instance")
		case p.cluster.Existing && p.reimages(r, node):
			p.giveBack(r, node)
			p.reject(r, node, "it is an existing machine and keeps its installation: reimage it by hand while it is drained")
		case !there && !p.persistent.Contains(node):
		case there && !p.seen.Desired[node].HasInstance() && !p.persistent.Contains(node) && p.seen.States[node].GivenUp():
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Remove, Reason: reason}) // it was stopped
		case !whole && there && (p.seen.States[node].Running() || p.seen.States[node].Usable()):
			p.await(r, node, reconfigure.PurposeUpdate)
		case !whole:
			p.make(r, node, reason)
		case p.stopped(node):
			p.renewStopped(r, node)
		case !p.slurm && patient(r):
			p.waitsForSlurm(r, node)
		case !p.slurm:
			p.reject(r, node, p.slurmsReason())
		default:
			p.renew(r, node)
		}
	}
}

// renewStopped removes a stopped instance that differs from the declaration, since starting and replacing it would
// take longer than a new instance. A campaign leaves it to the node's next resume, which replaces it. If the node has
// become persistent, its instance is started or replaced.
func (p *planner) renewStopped(r reconfigure.Request, node string) {
	change, problem := p.renewal(r, node)
	differs := r.Campaign == 0 && change.Action == reconfigure.Replace
	switch why := p.endangered(p.seen.Instances[node]); {
	case problem != nil:
		p.giveBack(r, node)
		p.rejectFor(r, node, problem)
	case p.persistent.Contains(node) && !differs:
		p.start(r, node)
	case differs && why != "":
		p.reject(r, node, why)
	case p.persistent.Contains(node):
		p.change(r, change)
	case differs:
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Remove,
			Reason: change.Reason + "; it is stopped, so the next resume replaces it"})
	}
}

// patient reports whether a request waits for a source that does not answer. Slurm calls only once, and waits for the
// node; nobody follows a campaign's request.
func patient(r reconfigure.Request) bool { return r.IsDeferred() || r.FromSlurm || r.Campaign != 0 }

// giveBack undrains a node that this tool has drained for a request that is now rejected.
func (p *planner) giveBack(r reconfigure.Request, node string) {
	if state := p.seen.States[node]; r.IsDeferred() && state.Drained() && state.Ours() {
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Undrain,
			Reason: "the request that drained it is rejected"})
	}
}

// deployed reports whether the control node has an instance.
func (p *planner) deployed() bool {
	_, there := p.seen.Instances[p.cluster.Control.Name]
	return there
}

// renew updates a finished instance, when no job is on it and none can start.
func (p *planner) renew(r reconfigure.Request, node string) {
	state := p.seen.States[node]
	change, problem := p.renewal(r, node)
	switch {
	case problem != nil && r.IsDeferred() && state.Running():
		// The source may be resolved when the jobs have ended.
		p.await(r, node, reconfigure.PurposeUpdate)
	case problem != nil && (r.IsDeferred() || r.Campaign != 0) && !r.Late(p.seen.Time) &&
		reconfigure.ClassOf(problem) != reconfigure.ClassMissing:
		p.deferFor(r, node, reconfigure.CloudUnreachable, problem.Error())
	case problem != nil:
		p.giveBack(r, node)
		p.rejectFor(r, node, problem)
	case r.Campaign != 0 && change.Action == reconfigure.Reboot && state.Ready() && !(state.Drained() && state.Ours()):
		// It became as declared after the campaign chose it.
	case r.Campaign != 0 && (state.PoweringDown() || state.PoweredDown() || state.PoweringUp()):
		// When the node is up, the campaign chooses it again if it is still outdated.
	case (r.FromSlurm || change.Action == reconfigure.Reboot) && state.Ready() && state.Boot.After(r.Submitted):
		// It was booted after the request, by an earlier request of the same caller or by a worker that died. Slurm
		// has already cleared its reason. A drain of this tool may remain; it ends here.
		if state.Drained() && state.Ours() {
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Undrain,
				Reason: "it was booted after the request"})
		}
	case r.Reimage && done(p.seen.Current(node), change.Spec, r, state):
		// A worker that died carried it out and undrained the node: a job may already be on it.
	case state.PoweringDown() || state.PoweredDown():
		p.reject(r, node, "Slurm powers it down; its next instance is made from the declaration")
	case state.PoweringUp():
		p.reject(r, node, "Slurm powers it up, and a job may wait for it")
	case state.Rebooting() && !state.Running():
		p.change(r, change)
	case state.Running() || state.Usable():
		p.await(r, node, reconfigure.PurposeUpdate)
	default:
		p.change(r, change)
	}
}

// done reports whether an earlier plan of a request has made a node's instance anew. Before that, the node is drained
// for the request, and a boot may be due to a crash.
func done(is, wanted reconfigure.Spec, r reconfigure.Request, s reconfigure.NodeState) bool {
	drained := s.Drained() && (s.Ours() || s.Unfit())
	return r.Touched && differences(is, wanted) == "" && !drained && s.Ready() && s.Boot.After(r.Submitted)
}

// renewal returns what an update does to an instance as soon as it may be changed.
func (p *planner) renewal(r reconfigure.Request, node string) (change reconfigure.Change, problem error) {
	reimage, image := wish(r, p.seen.States[node])
	spec, problem := p.specOf(node, image)
	if problem != nil && r.FromSlurm && !reimage && reconfigure.ClassOf(problem) == reconfigure.ClassMissing {
		// Slurm waits for the boot, and an image may be deleted while nodes run on it.
		return reconfigure.Change{Node: node, Action: reconfigure.Reboot,
			Reason: "it does not need the declared names, which cannot be resolved"}, nil
	}
	if problem != nil {
		return change, problem
	}
	spec = p.asMade(node, spec)
	change = reconfigure.Change{Node: node, Action: reconfigure.Replace, Spec: spec}
	switch differences := differences(p.seen.Current(node), spec); {
	case differences != "":
		change.Reason = "its " + differences + " differs from the declaration"
		if image != "" {
			change.Reason = "its " + differences + " differs from the request"
		}
	case reimage:
		change.Reason = "the request is for a new instance"
	case p.seen.States[node].Unfit():
		change.Reason = "its disk was cleaned for an image"
	case p.unreached(node):
		change.Reason = "its instance has never answered by SSH, so it was never configured"
	default:
		change = reconfigure.Change{Node: node, Action: reconfigure.Reboot,
			Reason: "it does not differ from the declaration"}
	}
	return change, nil
}

// reimages reports whether a request is for a new instance of a node, or for one of another image.
func (p *planner) reimages(r reconfigure.Request, node string) bool {
	reimage, image := wish(r, p.seen.States[node])
	return reimage || image != ""
}

// wish returns the options of a request for a node. For a reboot by Slurm, they are in the reason of the
// administrator's `scontrol reboot`; Slurm appends its own text after a colon.
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

// differences names the parts of two entries that differ.
func differences(is, wanted reconfigure.Spec) string {
	var names []string
	for _, drift := range snapshot.Differences(is, wanted) {
		names = append(names, string(drift))
	}
	return strings.Join(names, " and ")
}

// await drains a node and defers it until its jobs have ended. After the drain timeout of the request it undrains and
// rejects it.
func (p *planner) await(r reconfigure.Request, node, purpose string) {
	state := p.seen.States[node]
	drained := state.Drained() || state.Rebooting()
	if r.Late(p.seen.Time) {
		if state.Drained() && state.Ours() {
			p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Undrain,
				Reason: "its jobs did not end in time"})
		}
		late := fmt.Errorf("its jobs did not end within %s", r.DrainTimeout.Round(time.Second))
		p.rejectFor(r, node, reconfigure.Classify(reconfigure.ClassBusy, late))
		return
	}
	if !drained {
		p.change(r, reconfigure.Change{Node: node, Action: reconfigure.Drain, Reason: purpose})
	}
	p.waits(r, node)
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

// AfterDrain returns the snapshot that is expected when the jobs on the deferred nodes of a plan have ended. A
// preview for people also shows the plan for it.
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
