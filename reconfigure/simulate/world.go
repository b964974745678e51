package simulate

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// Call is a call after which a test can act.
type Call string

// The calls.
const (
	AfterPreview   Call = "preview"
	AfterRoom      Call = "room"
	AfterApply     Call = "apply"
	AfterAdopt     Call = "adopt"
	AfterAside     Call = "set aside"
	AfterWait      Call = "wait" // for SSH
	AfterConfigure Call = "configure"
)

// World is a simulated cluster. Instances are made and removed on Terraform's request, in the cloud's time. slurmd
// registers after the playbooks, and jobs run on nodes and are lost with them. A World implements all dependencies of
// operations. It starts with only the declaration, is deterministic, uses the clock of time.Now (and so
// testing/synctest), and may be used by many goroutines.
type World struct {
	lock      sync.Mutex
	cluster   reconfigure.Cluster
	cloud     cloudState
	terraform terraformState
	slurm     slurmState
	journal   journalState
	orders    orders
	seen      seen
}

// cloudState is the state of the cloud, with its faults.
type cloudState struct {
	servers   []*server // in the order of their creation
	images    []*Image  // in the same order
	limit     reconfigure.Use
	lastBoot  int64 // in seconds of the epoch
	lastGiven int   // the last assigned number
	doubled   []string
	ended     []string
	hosts     bool // it names the hosts of instances
	keeps     bool // it can set instances aside
	// avoided has the ids of the instances on whose hosts others were not to be made.
	avoided []string
}

// terraformState is Terraform's map of nodes, its states and its plans.
type terraformState struct {
	desired  map[string]reconfigure.Spec
	state    map[string]*resource
	shared   bool                 // the shared resources exist
	previews map[string]*foreseen // those that can still be applied, by file
	kill     *kill
	locks    map[string]chan struct{} // of its states, by shard
}

// slurmState is slurmctld's state, with the history of jobs.
type slurmState struct {
	nodes    map[string]*slurmNode
	comments map[int64]string // by job
	lost     []string
	freed    []string // as lost, for another reason, see Freed
	thwarted int
	tests    []testJob           // of campaigns
	spoiled  string              // the id of an image on which they fail
	served   map[string][]string // the runs of jobs that began, by the disk of the instance
	refusals int
	reused   []string
}

// journalState has the data that operations have stored.
type journalState struct {
	events   []reconfigure.Event
	evidence []reconfigure.Evidence
	health   map[string]reconfigure.Health
	lives    memory.Lives
	sums     map[string]string  // by node
	keys     map[string]hostKey // by address
}

// orders has the requests of the test.
type orders struct {
	faults map[Fault]nodeset.NodeSet
	spans  map[Doing]map[string]time.Duration // by node; under the empty name, for all others
	then   map[Call][]func()
}

// seen has records for the test.
type seen struct {
	calls   []string
	runs    map[Tool][]*toolRun // under way
	clashes []string
}

// NewWorld makes a world for a declared cluster in which nothing is deployed yet.
func NewWorld(c reconfigure.Cluster) *World {
	w := &World{
		cluster: c,
		cloud:   cloudState{limit: reconfigure.Use{Instances: -1, Cores: -1, RAM: -1}},
		terraform: terraformState{
			desired: map[string]reconfigure.Spec{}, state: map[string]*resource{}, previews: map[string]*foreseen{},
			locks: map[string]chan struct{}{},
		},
		slurm: slurmState{
			nodes: map[string]*slurmNode{}, comments: map[int64]string{}, served: map[string][]string{},
		},
		journal: journalState{
			health: map[string]reconfigure.Health{}, sums: map[string]string{}, keys: map[string]hostKey{},
		},
		orders: orders{faults: map[Fault]nodeset.NodeSet{}, spans: defaultSpans(), then: map[Call][]func(){}},
		seen:   seen{runs: map[Tool][]*toolRun{}},
	}
	persistent := c.Persistent()
	for node := range c.Nodes().All() {
		w.slurm.nodes[node] = &slurmNode{base: reconfigure.NodeIdle, power: reconfigure.NodePoweredDown, cloud: true}
		if persistent.Contains(node) {
			w.slurm.nodes[node] = &slurmNode{base: reconfigure.NodeDown, reason: "Not responding"}
		}
	}
	return w
}

// Deps returns the world as the dependencies of the operations of one worker.
func (w *World) Deps() operation.Deps {
	worker := &Worker{}
	return operation.Deps{
		Provisioner: func(shard string) operation.Provisioner { return &Provisioner{w, shard, worker} },
		Cloud:       w.api(), Quota: w, Images: w, Cleaner: w, Waiter: w, Configurer: w, Starter: w, Sums: w,
		Recorder: w, Health: w,
		Scheduler: func(reconfigure.Instance) operation.Scheduler { return w },
		Commenter: func(reconfigure.Instance) operation.Commenter { return w },
	}
}

// Spec returns the declared spec of a node.
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
		Placement: source.Placement,
		Shard:     w.cluster.Shard(node),
	}
}

// idOf returns the id of a named image, flavor or network.
func idOf(name string) string { return "id-of-" + name }

// Cluster returns the declaration.
func (w *World) Cluster() reconfigure.Cluster {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.cluster
}

// Declare edits the declaration. Slurm reads it from the playbooks.
func (w *World) Declare(c reconfigure.Cluster) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.cluster = c
}

// Have adds nodes that exist, are configured and, except for the control node, idle.
func (w *World) Have(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	w.terraform.shared = true
	for _, node := range nodes {
		spec := w.spec(node)
		s := w.create(node, spec)
		s.active = time.Now()
		s.configured = true
		w.start(s, time.Now())
		w.journal.keys[s.address] = hostKey{s.id, spec.ImageID, s.key}
		w.terraform.desired[node] = spec
		w.terraform.state[node] = &resource{id: s.id, address: s.address, spec: spec}
		if n := w.slurm.nodes[node]; n != nil {
			n.register(s, time.Now())
		}
	}
}

// Rest stops existing nodes, as if they had been suspended, and returns the checksums of their configuration.
func (w *World) Rest(nodes ...string) map[string]string {
	w.lock.Lock()
	instances := map[string]reconfigure.Instance{}
	for node, r := range w.terraform.state {
		instances[node] = reconfigure.Instance{Node: node, ID: r.id, Address: r.address, Made: r.spec}
	}
	for _, node := range nodes {
		spec := w.terraform.desired[node]
		if g, ok := w.cluster.GroupOf(node); ok {
			spec.Power = g.WhenIdle.Power()
		}
		s := w.server(w.terraform.state[node].id)
		s.next = spec.Power
		w.power(s, time.Now())
		w.terraform.desired[node], w.terraform.state[node].spec = spec, spec
		n := w.slurm.nodes[node]
		n.base, n.power = reconfigure.NodeIdle, reconfigure.NodePoweredDown
	}
	w.lock.Unlock()
	sums, _ := w.Sums(w.Cluster(), instances, nodeset.Of(nodes...)) // Sums returns no error
	return sums
}

// HaveTainted adds tainted instances in ERROR.
func (w *World) HaveTainted(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		spec := w.spec(node)
		s := w.create(node, spec)
		s.active, s.fault = time.Now(), reconfigure.Fault{Words: "It is broken.", Class: reconfigure.ClassOther}
		w.terraform.desired[node] = spec
		w.terraform.state[node] = &resource{id: s.id, address: s.address, spec: spec, tainted: true}
	}
}

// Taint taints healthy instances in Terraform's state, as an administrator does to replace them.
func (w *World) Taint(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.terraform.state[node].tainted = true
	}
}

// Vanish deletes a node's instances from the cloud, as an administrator may do by hand. Terraform notices it at the
// next preview.
func (w *World) Vanish(node string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, s := range w.serversOf(node) {
		w.remove(s)
	}
}

// Rebuild rebuilds a node's instances from another image in the cloud.
func (w *World) Rebuild(node, image string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, s := range w.serversOf(node) {
		spec := s.spec
		spec.ImageID = idOf(image)
		w.rebuild(s, spec)
		s.active = time.Now()
	}
}

// Forget removes nodes from Terraform's state but keeps their instances, as if an old copy of the state had been
// restored.
func (w *World) Forget(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		delete(w.terraform.state, node)
	}
}

// Then calls do once, when the next such call returns.
func (w *World) Then(c Call, do func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.orders.then[c] = append(w.orders.then[c], do)
}

// happened calls the functions that wait for a call.
func (w *World) happened(c Call) {
	w.lock.Lock()
	var do func()
	if waiting := w.orders.then[c]; len(waiting) > 0 {
		do, w.orders.then[c] = waiting[0], waiting[1:]
	}
	w.lock.Unlock()
	if do != nil {
		do()
	}
}

// Calls returns every call that changed something, in order, such as "apply create node[1-2], delete node3".
func (w *World) Calls() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.seen.calls)
}

// Lost returns the nodes whose running job was killed, in order, without those of Freed.
func (w *World) Lost() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.slurm.lost)
}

// Freed returns the nodes whose running job was killed since somebody ended their own drain of the node between the
// last check for jobs and the end of the instance, and the job started then. docs/how-it-works/limits.md names this.
func (w *World) Freed() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.slurm.freed)
}

// Node is all data about a node; it is comparable.
type Node struct {
	Instance reconfigure.Instance // in Terraform's state; zero: none
	Spec     reconfigure.Spec     // in Terraform's map; zero: none
	Made     reconfigure.Spec     // the source of the instance in the cloud
	Boots    int
	State    string // Slurm's
	Reason   string
	Job      bool
}

// Node returns all current data about a node.
func (w *World) Node(node string) Node {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	is := Node{Spec: w.terraform.desired[node]}
	if r := w.terraform.state[node]; r != nil {
		is.Instance = reconfigure.Instance{Node: node, ID: r.id, Address: r.address, Tainted: r.tainted}
		if r.id != "" {
			is.Instance.Made = r.spec
		}
		if s := w.server(r.id); s != nil {
			is.Made, is.Boots = s.spec, s.boots
			is.Made.Power = s.power
		}
	}
	if n := w.slurm.nodes[node]; n != nil {
		s := n.state(node)
		is.State, is.Reason, is.Job = s.String(), s.Reason, s.Busy
	}
	return is
}

// number returns a new number.
func (w *World) number() int { w.cloud.lastGiven++; return w.cloud.lastGiven }

func (w *World) log(what string, nodes nodeset.NodeSet) {
	w.seen.calls = append(w.seen.calls, what+" "+nodes.String())
}

// advance executes all events that are due, in order.
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

// next returns the first due event; nil: none.
func (w *World) next(now time.Time) (happen func(at time.Time), at time.Time) {
	due := func(t time.Time) bool { return !t.IsZero() && !t.After(now) && (happen == nil || t.Before(at)) }
	for _, s := range w.cloud.servers {
		if !s.up && s.power == "" && !s.failed() && s.gone.IsZero() && due(s.active) {
			happen, at = func(at time.Time) { w.start(s, at) }, s.active
		}
		if due(s.powers) {
			happen, at = func(at time.Time) { w.power(s, at) }, s.powers
		}
		if due(s.gone) {
			happen, at = func(time.Time) { w.remove(s) }, s.gone
		}
	}
	for _, i := range w.cloud.images {
		if !i.Active() && due(i.active) {
			happen, at = func(time.Time) { w.save(i) }, i.active
		}
	}
	for _, node := range slices.Sorted(maps.Keys(w.slurm.nodes)) {
		if n := w.slurm.nodes[node]; due(n.registers) {
			happen, at = func(at time.Time) { w.comesUp(node, at) }, n.registers
		}
	}
	return happen, at
}
