package simulate

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Tool is a program that has one user at a time: Terraform with one state, and Ansible on one node.
type Tool string

// The tools. The name of a shard (except the default one) follows Terraform's; the name of a node follows Ansible's.
const (
	Terraform Tool = "Terraform"
	Ansible   Tool = "Ansible"
)

// toolRun is a run of a tool.
type toolRun struct{ worker *Worker }

// Worker is a process that runs tools.
type Worker struct{ _ byte }

// Begin records that a worker runs a tool. Concurrent runs are recorded in Clashes. Runs of Terraform by different
// workers are not: a worker that has lost its lease interrupts Terraform, and the next one begins meanwhile. The lock
// of Terraform's state lets only one of them work.
func (w *World) Begin(t Tool, by *Worker) (end func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if slices.ContainsFunc(w.seen.runs[t], func(other *toolRun) bool { return other.worker == by }) {
		w.seen.clashes = append(w.seen.clashes, "two runs of "+string(t)+" at a time")
	}
	own := &toolRun{by}
	w.seen.runs[t] = append(w.seen.runs[t], own)
	return func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.seen.runs[t] = slices.DeleteFunc(w.seen.runs[t], func(other *toolRun) bool { return other == own })
	}
}

// everybody is the worker of a tool without a lock: two workers must not run it at the same time.
var everybody = &Worker{}

// work begins a run of Terraform, and waits until it has the lock of the state, or until ctx ends.
func (p *Provisioner) work(ctx context.Context) (end func(), err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err() // no process is started
	}
	ended := p.Begin(p.tool(), p.worker)
	p.lock.Lock()
	state, ok := p.terraform.locks[p.shard]
	if !ok {
		state = make(chan struct{}, 1)
		p.terraform.locks[p.shard] = state
	}
	p.lock.Unlock()
	select {
	case state <- struct{}{}:
		return func() { <-state; ended() }, nil
	case <-ctx.Done():
		ended()
		return nil, ctx.Err()
	}
}

// Clashes returns the runs that overlapped although they must not, in order. A test in which operations overlap MUST
// check that there are none.
func (w *World) Clashes() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.seen.clashes)
}

// Doing is an action that takes time.
type Doing string

// What takes time, with its default.
const (
	Planning        Doing = "planning"         // Terraform, with the wait for its state's lock; 0
	Applying        Doing = "applying"         // until Terraform posts to the cloud; 0
	Building        Doing = "building"         // until a new or a rebuilt instance is ACTIVE; 1 s
	Removing        Doing = "removing"         // until a deleted instance is gone; 1 s
	Switching       Doing = "switching"        // until an instance is started, stopped or shelved; 1 s
	Halting         Doing = "halting"          // until an interrupted Terraform has ended; 0
	ProviderSleep   Doing = "provider sleep"   // until Terraform asks for the result; 10 s
	ProviderTimeout Doing = "provider timeout" // until Terraform gives up; 15 min
	Booting         Doing = "booting"          // until an ACTIVE instance answers by SSH; 0
	Reading         Doing = "reading"          // until the playbooks begin with the nodes; 0
	Playing         Doing = "playing"          // until the playbooks are done with a node; 0
	Cleaning        Doing = "cleaning"         // until the playbook has cleaned a disk; 0
	Saving          Doing = "saving"           // until an image is active; 1 s
	Registering     Doing = "registering"      // until slurmd has registered, after the playbooks or after a boot; 0
)

// Forever is the duration of an action that does not end.
const Forever time.Duration = -1

func defaultSpans() map[Doing]map[string]time.Duration {
	return map[Doing]map[string]time.Duration{
		Building: {"": time.Second}, Removing: {"": time.Second}, Switching: {"": time.Second}, Saving: {"": time.Second},
		ProviderSleep: {"": 10 * time.Second}, ProviderTimeout: {"": 15 * time.Minute},
	}
}

// Takes sets the duration of an action from now on, for the given nodes or, without nodes, for all.
func (w *World) Takes(what Doing, d time.Duration, nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.orders.spans[what] == nil {
		w.orders.spans[what] = map[string]time.Duration{}
	}
	if len(nodes) == 0 {
		nodes = []string{""}
	}
	for _, node := range nodes {
		w.orders.spans[what][node] = d
	}
}

// span returns the duration of an action for a node.
func (w *World) span(what Doing, node string) time.Duration {
	if d, own := w.orders.spans[what][node]; own {
		return d
	}
	return w.orders.spans[what][""]
}

func (w *World) spanOf(what Doing) time.Duration {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.span(what, "")
}

// spend waits for the duration of an action, or until ctx ends.
func (w *World) spend(ctx context.Context, what Doing) {
	if d := w.spanOf(what); d > 0 {
		wait(ctx, d)
	}
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Unstick ends actions that take forever: such instances become ACTIVE, and such deletions end.
func (w *World) Unstick() {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, s := range w.cloud.servers {
		if s.active.Equal(never()) {
			s.active = time.Now()
		}
		if s.powers.Equal(never()) {
			s.powers = time.Now()
		}
		if s.gone.Equal(never()) {
			s.gone = time.Now()
		}
	}
	for what, of := range w.orders.spans {
		maps.DeleteFunc(of, func(node string, d time.Duration) bool { return d == Forever })
		if _, all := of[""]; !all {
			of[""] = defaultSpans()[what][""]
		}
	}
}
