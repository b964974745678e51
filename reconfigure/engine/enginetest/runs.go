package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
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

// Doing is what takes its time.
type Doing string

// Planning is Terraform's, with the wait for its state's lock; Booting is the patience with an instance that does not answer; Playing is that of the playbooks.
const (
	Planning Doing = "planning"
	Applying Doing = "applying"
	Booting  Doing = "booting"
	Playing  Doing = "playing"
)

// spend lets as much time pass as something takes, but not longer than ctx lasts.
func (w *World) spend(ctx context.Context, what Doing) {
	w.lock.Lock()
	d := w.spans[what]
	w.lock.Unlock()
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// watched is the world, which notices runs of a tool that overlap.
type watched struct{ *World }

func (t watched) begin(tool Tool) (end func()) { return t.Begin(tool, func() bool { return true }) }

// Preview is a run of Terraform.
func (t watched) Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error) {
	defer t.begin(Terraform)()
	return t.World.Preview(ctx, p)
}

// Apply is a run of Terraform.
func (t watched) Apply(ctx context.Context, p reconfigure.Preview, watch engine.Watch) (reconfigure.Failures, error) {
	defer t.begin(Terraform)()
	return t.World.Apply(ctx, p, watch)
}

// Configure is a run of Ansible.
func (t watched) Configure(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent, watch engine.Watch,
	done func(node string, err error)) (reconfigure.Failures, error) {
	defer t.begin(Ansible)()
	return t.World.Configure(ctx, c, instances, extent, watch, done)
}
