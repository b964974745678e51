package simulate

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Tool is a program that has one user at a time: Terraform with one state, which has a lock; and Ansible on one node.
type Tool string

// The tools. Terraform in another shard than the default one has the shard's name after it, Ansible the node's.
const (
	Terraform Tool = "Terraform"
	Ansible   Tool = "Ansible"
)

// toolRun is one that is under way, by a process that may have been killed since, which ends the run too.
type toolRun struct{ alive func() bool }

// Begin notes that a run of a tool begins. Two at a time stand among the Clashes.
func (w *World) Begin(t Tool, alive func() bool) (end func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if slices.ContainsFunc(w.runs[t], func(other *toolRun) bool { return other.alive() }) {
		w.clashes = append(w.clashes, "two runs of "+string(t)+" at a time")
	}
	own := &toolRun{alive}
	w.runs[t] = append(w.runs[t], own)
	return func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.runs[t] = slices.DeleteFunc(w.runs[t], func(other *toolRun) bool { return other == own })
	}
}

// always is that a process lives.
func always() bool { return true }

// Clashes is what happened at the same time and must not, in order. A test in which operations overlap MUST see that
// there is none.
func (w *World) Clashes() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.clashes)
}

// Doing is what takes its time.
type Doing string

// What takes its time, and how long where nothing else is said.
const (
	Planning        Doing = "planning"         // Terraform, with the wait for its state's lock; nothing
	Applying        Doing = "applying"         // until Terraform asks the cloud for anything; nothing
	Building        Doing = "building"         // until a new or a rebuilt instance is ACTIVE; 1 s
	Removing        Doing = "removing"         // until a deleted instance is gone; 1 s
	ProviderSleep   Doing = "provider sleep"   // until Terraform looks whether it is so; 10 s
	ProviderTimeout Doing = "provider timeout" // until Terraform gives up on what never becomes so; 15 min
	Booting         Doing = "booting"          // until an ACTIVE instance answers by SSH; nothing
	Reading         Doing = "reading"          // until the playbooks begin with the nodes; nothing
	Playing         Doing = "playing"          // until the playbooks are done with a node; nothing
	Registering     Doing = "registering"      // until slurmd has registered, after the playbooks or after a boot; nothing
)

// Forever is how long something takes that does not end.
const Forever time.Duration = -1

func defaultSpans() map[Doing]map[string]time.Duration {
	return map[Doing]map[string]time.Duration{
		Building: {"": time.Second}, Removing: {"": time.Second}, ProviderSleep: {"": 10 * time.Second},
		ProviderTimeout: {"": 15 * time.Minute},
	}
}

// Takes has something take so long from now on; with nodes, for these.
func (w *World) Takes(what Doing, d time.Duration, nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.spans[what] == nil {
		w.spans[what] = map[string]time.Duration{}
	}
	if len(nodes) == 0 {
		nodes = []string{""}
	}
	for _, node := range nodes {
		w.spans[what][node] = d
	}
}

// span is how long something takes for a node.
func (w *World) span(what Doing, node string) time.Duration {
	if d, own := w.spans[what][node]; own {
		return d
	}
	return w.spans[what][""]
}

func (w *World) spanOf(what Doing) time.Duration {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.span(what, "")
}

// spend lets as much time pass as something takes, but not longer than ctx lasts.
func (w *World) spend(ctx context.Context, what Doing) {
	if d := w.spanOf(what); d > 0 {
		wait(ctx, d)
	}
}

// wait lets time pass, but not longer than ctx lasts.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Unstick ends what takes for ever: instances that never become ACTIVE do, and those that are never gone go.
func (w *World) Unstick() {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, s := range w.servers {
		if s.active.Equal(never()) {
			s.active = time.Now()
		}
		if s.gone.Equal(never()) {
			s.gone = time.Now()
		}
	}
	for what, of := range w.spans {
		maps.DeleteFunc(of, func(node string, d time.Duration) bool { return d == Forever })
		if _, all := of[""]; !all {
			of[""] = defaultSpans()[what][""]
		}
	}
}
