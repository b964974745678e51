package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Tool is a program that has one user at a time: Terraform, whose state has a lock, when it previews or applies; and Ansible, whose runs have the nodes in common.
type Tool string

// The tools.
const (
	Terraform Tool = "Terraform"
	Ansible   Tool = "Ansible"
)

// run is one that is under way, by a process that may have been killed since, which ends the run too.
type run struct{ alive func() bool }

// Begin notes that a run of a tool begins. Two at a time stand among the Clashes.
func (w *World) Begin(t Tool, alive func() bool) (end func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if slices.ContainsFunc(w.runs[t], func(other *run) bool { return other.alive() }) {
		w.clashes = append(w.clashes, "two runs of "+string(t)+" at a time")
	}
	own := &run{alive}
	w.runs[t] = append(w.runs[t], own)
	return func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.runs[t] = slices.DeleteFunc(w.runs[t], func(other *run) bool { return other == own })
	}
}

// Clashes is what happened at the same time and must not, in order. A test in which batches overlap MUST see that there is none.
func (w *World) Clashes() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.clashes)
}

// Takes has every run of a tool that comes by Deps take so long.
func (w *World) Takes(t Tool, d time.Duration) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.pace[t] = d
}

// timed is the world whose runs take their time: a tool's own, and for an instance that never answers as long as one is waited for.
type timed struct{ *World }

func (t timed) begin(ctx context.Context, tool Tool) (end func()) {
	end = t.Begin(tool, func() bool { return true })
	t.lock.Lock()
	pace := t.pace[tool]
	t.lock.Unlock()
	spend(ctx, pace)
	return end
}

// spend lets time pass, but not longer than ctx lasts.
func spend(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Preview is a run of Terraform.
func (t timed) Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error) {
	defer t.begin(ctx, Terraform)()
	return t.World.Preview(ctx, p)
}

// Apply is a run of Terraform.
func (t timed) Apply(ctx context.Context, p reconfigure.Preview, watch engine.Watch) (reconfigure.Failures, error) {
	defer t.begin(ctx, Terraform)()
	return t.World.Apply(ctx, p, watch)
}

// Configure is a run of Ansible.
func (t timed) Configure(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent, watch engine.Watch) (reconfigure.Failures, error) {
	defer t.begin(ctx, Ansible)()
	return t.World.Configure(ctx, c, instances, extent, watch)
}

// Await waits for those that never answer until their time is over.
func (t timed) Await(ctx context.Context, instances []reconfigure.Instance, fresh nodeset.NodeSet, until map[string]time.Time) reconfigure.Failures {
	t.lock.Lock()
	var wait time.Duration
	for _, i := range instances {
		if !t.struck(NoSSH, i.Node) {
			continue
		}
		patience := t.cluster.Settings.BootTimeout
		if end, limited := until[i.Node]; limited {
			patience = min(patience, time.Until(end))
		}
		wait = max(wait, patience)
	}
	t.lock.Unlock()
	if wait > 0 {
		spend(ctx, wait)
	}
	return t.World.Await(ctx, instances, fresh, until)
}
