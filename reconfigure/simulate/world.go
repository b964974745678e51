package simulate

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// Call names a call after which something can happen.
type Call string

// The calls.
const (
	AfterPreview   Call = "preview"
	AfterRoom      Call = "room"
	AfterApply     Call = "apply"
	AfterAdopt     Call = "adopt"
	AfterWait      Call = "wait" // for SSH
	AfterConfigure Call = "configure"
)

// World is a simulated cluster: instances come and go as Terraform asks, in the cloud's time, slurmd registers once the
// playbooks ran, jobs occupy nodes and are lost with them. It stands behind all that operations work with. It starts
// with nothing but the declaration. It is deterministic, goes by the clock of time.Now (so testing/synctest governs
// it), and may be used by many goroutines at once.
type World struct {
	lock    sync.Mutex
	cluster reconfigure.Cluster

	// The cloud.
	servers   []*server // in the order of their creation
	limit     reconfigure.Use
	lastBoot  int64 // in seconds of the epoch
	lastGiven int   // the last number that was given to anything
	doubled   []string

	// Terraform.
	desired  map[string]reconfigure.Spec
	state    map[string]*resource
	shared   bool              // what no single node owns is there
	previews map[string]string // by file, those that can still be applied: their shard
	kill     *kill

	// Slurm.
	slurm    map[string]*slurmNode
	comments map[int64]string // by job
	lost     []string

	// The journal.
	events   []reconfigure.Event
	evidence []reconfigure.Evidence
	health   map[string]reconfigure.Health

	faults  map[Fault]nodeset.NodeSet
	spans   map[Doing]map[string]time.Duration // by node; under no name, of all others
	then    map[Call][]func()
	calls   []string
	runs    map[Tool][]*toolRun
	clashes []string
}

// NewWorld makes a world for a declared cluster in which nothing was deployed yet.
func NewWorld(c reconfigure.Cluster) *World {
	w := &World{
		cluster: c, limit: reconfigure.Use{Instances: -1, Cores: -1, RAM: -1},
		desired: map[string]reconfigure.Spec{}, state: map[string]*resource{}, previews: map[string]string{},
		slurm: map[string]*slurmNode{}, comments: map[int64]string{}, health: map[string]reconfigure.Health{},
		faults: map[Fault]nodeset.NodeSet{}, spans: defaultSpans(), then: map[Call][]func(){}, runs: map[Tool][]*toolRun{},
	}
	persistent := c.Persistent()
	for node := range c.Nodes().All() {
		w.slurm[node] = &slurmNode{base: reconfigure.NodeIdle, power: reconfigure.NodePoweredDown, cloud: true}
		if persistent.Contains(node) {
			w.slurm[node] = &slurmNode{base: reconfigure.NodeDown, reason: "Not responding"}
		}
	}
	return w
}

// Deps is the world behind everything that operations work with.
func (w *World) Deps() operation.Deps {
	return operation.Deps{
		Provisioner: func(shard string) operation.Provisioner { return w.Shard(shard) },
		Cloud:       w, Quota: w, Waiter: w, Configurer: w, Recorder: w, Health: w,
		Scheduler: func(reconfigure.Instance) operation.Scheduler { return w },
		Commenter: func(reconfigure.Instance) operation.Commenter { return w },
	}
}

// Spec is what a node is made of by its declaration.
func (w *World) Spec(node string) reconfigure.Spec {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.spec(node)
}

func (w *World) spec(node string) reconfigure.Spec {
	group, source := reconfigure.ControlGroup, w.cluster.Control.Source
	if g, ok := w.cluster.GroupOf(node); ok {
		group, source = g.Name, g.Source
	}
	return reconfigure.Spec{
		Group: group, ImageID: idOf(source.Image), FlavorID: idOf(source.Flavor), NetworkID: idOf(source.Network),
		Shard: w.cluster.Shard(node),
	}
}

// idOf is the id that a name of an image, a flavor or a network has.
func idOf(name string) string { return "id-of-" + name }

// Cluster is what is declared.
func (w *World) Cluster() reconfigure.Cluster {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.cluster
}

// Declare edits the declaration. Slurm hears of it by the playbooks.
func (w *World) Declare(c reconfigure.Cluster) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.cluster = c
}

// Have puts nodes in place: made, configured and, but for the control node, idle.
func (w *World) Have(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	w.shared = true
	for _, node := range nodes {
		spec := w.spec(node)
		s := w.create(node, spec)
		s.active = time.Now()
		s.configured = true
		w.start(s, time.Now())
		w.desired[node] = spec
		w.state[node] = &resource{id: s.id, address: s.address, spec: spec}
		if n := w.slurm[node]; n != nil {
			n.register(s, time.Now())
		}
	}
}

// HaveTainted leaves instances in ERROR that Terraform has not made to the end.
func (w *World) HaveTainted(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		spec := w.spec(node)
		s := w.create(node, spec)
		s.active, s.fault = time.Now(), "It is broken."
		w.desired[node] = spec
		w.state[node] = &resource{id: s.id, address: s.address, spec: spec, tainted: true}
	}
}

// Taint has Terraform take instances for half made that are as good as before: so an administrator has them replaced by
// hand.
func (w *World) Taint(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.state[node].tainted = true
	}
}

// Vanish has the cloud lose a node's instances, as when somebody deletes them by hand. Terraform notices it at the next
// preview.
func (w *World) Vanish(node string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, s := range w.serversOf(node) {
		w.remove(s)
	}
}

// Forget has Terraform's state lose nodes whose instances live on, as when somebody restores an old copy of it.
func (w *World) Forget(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		delete(w.state, node)
	}
}

// Then does something once, when the next such call returns.
func (w *World) Then(c Call, do func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.then[c] = append(w.then[c], do)
}

// happened does what was to be done after a call.
func (w *World) happened(c Call) {
	w.lock.Lock()
	var do func()
	if waiting := w.then[c]; len(waiting) > 0 {
		do, w.then[c] = waiting[0], waiting[1:]
	}
	w.lock.Unlock()
	if do != nil {
		do()
	}
}

// Calls is every call that changed something, in order, such as "apply create node[1-2], delete node3".
func (w *World) Calls() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.calls)
}

// Lost is the nodes whose running job was ended by what was done to them, in order.
func (w *World) Lost() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.lost)
}

// Node is all that there is of a node; comparable.
type Node struct {
	Instance reconfigure.Instance // as Terraform's state has it; zero: it has none
	Spec     reconfigure.Spec     // as Terraform was last told; zero: it was not told of the node
	Made     reconfigure.Spec     // what that instance is made of, by the cloud
	Boots    int
	State    string // Slurm's
	Reason   string
	Job      bool
}

// Node is what there is of a node now.
func (w *World) Node(node string) Node {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	seen := Node{Spec: w.desired[node]}
	if r := w.state[node]; r != nil {
		seen.Instance = reconfigure.Instance{Node: node, ID: r.id, Address: r.address, Tainted: r.tainted}
		if s := w.server(r.id); s != nil {
			seen.Made, seen.Boots = s.spec, s.boots
		}
	}
	if n := w.slurm[node]; n != nil {
		s := n.state(node)
		seen.State, seen.Reason, seen.Job = s.String(), s.Reason, s.Busy
	}
	return seen
}

// number gives a number that nothing has yet.
func (w *World) number() int { w.lastGiven++; return w.lastGiven }

func (w *World) log(what string, nodes nodeset.NodeSet) {
	w.calls = append(w.calls, what+" "+nodes.String())
}

// advance brings the world up to the present: what takes its time and is due has happened since, in its order.
func (w *World) advance() {
	now := time.Now()
	for {
		happen, at := w.next(now)
		if happen == nil {
			return
		}
		happen(at)
	}
}

// next is what happens first of all that is due by now; nil: nothing.
func (w *World) next(now time.Time) (happen func(at time.Time), at time.Time) {
	due := func(t time.Time) bool { return !t.IsZero() && !t.After(now) && (happen == nil || t.Before(at)) }
	for _, s := range w.servers {
		if !s.up && s.fault == "" && s.gone.IsZero() && due(s.active) {
			happen, at = func(at time.Time) { w.start(s, at) }, s.active
		}
		if due(s.gone) {
			happen, at = func(time.Time) { w.remove(s) }, s.gone
		}
	}
	for _, node := range slices.Sorted(maps.Keys(w.slurm)) {
		if n := w.slurm[node]; due(n.registers) {
			happen, at = func(at time.Time) { n.register(n.server, at) }, n.registers
		}
	}
	return happen, at
}
