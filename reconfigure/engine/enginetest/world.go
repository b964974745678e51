// Package enginetest is what tests of the engine, and of what fits its seams, have in common: World, a simulated cluster behind all seams at once, and for
// the seams that change something a suite of tests that hold every implementation, the simulated one and the real one, to the same contract. Only tests
// import it.
package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Call names a call of a seam that somebody may come in between.
type Call string

// The calls after which something can happen.
const (
	AfterPreview   Call = "preview"
	AfterRoom      Call = "room"
	AfterApply     Call = "apply"
	AfterGreet     Call = "greet"
	AfterConfigure Call = "configure"
)

// World is a cluster that behaves: instances come and go as Terraform is told, slurmd registers once the playbooks ran, jobs occupy nodes and are lost with
// them. It fits all seams of the engine itself. It starts with nothing but the declaration. It is deterministic, keeps time by the clock of time.Now (so
// testing/synctest governs it), and is safe for concurrent use.
type World struct {
	cluster reconfigure.Cluster

	lock     sync.Mutex
	desired  map[string]reconfigure.Spec
	machines map[string]*machine // instances, by node, as Terraform's state has them
	orphans  []*machine          // instances that the state does not have
	doubled  []string
	broken   *interruption // where the next Apply or Configure breaks off
	shared   bool          // what no single node owns is there
	slurm    map[string]*slurmNode
	faults   map[Fault]nodeset.NodeSet
	delay    time.Duration // until slurmd registers
	then     map[Call][]func()
	previews map[string]reconfigure.Plan // those that can still be applied
	booted   int64                       // when an instance was booted last, in seconds of the epoch
	last     int                         // the last number that was given to anything
	calls    []string
	comments map[int64]string // on jobs
	limit    reconfigure.Use  // of the project
	runs     map[Tool][]*run  // that are under way
	spans    map[Doing]time.Duration
	clashes  []string
	lost     []string
	events   []reconfigure.Event
	health   map[string]reconfigure.Health // of the groups that do not fare well
	evidence []reconfigure.Evidence
}

// machine is an instance.
type machine struct {
	reconfigure.Instance
	spec       reconfigure.Spec
	boots      int
	booted     time.Time
	configured bool
	slurmd     bool   // it has registered since the boot
	lemon      bool   // it never answers
	console    string // its log
	fault      string // why it is in ERROR, in the cloud's words
	gone       bool   // the cloud has it no more, which Terraform has not noticed
}

// real tells whether the cloud has it.
func (m *machine) real() bool { return m != nil && m.ID != "" && !m.gone }

// slurmNode is a node as slurmctld has it.
type slurmNode struct {
	base, power reconfigure.NodeFlags // power is a flag of power saving, or zero
	cloud       bool
	reason      string
	job, drain  bool
	rebooting   bool // Slurm has issued a reboot, and waits for it
	returns     bool // and will use the node again afterwards, unless it forgets
	boot        time.Time
	registers   time.Time // when slurmd will; zero: it will not
}

// NewWorld makes a world for a declared cluster in which nothing was deployed yet.
func NewWorld(c reconfigure.Cluster) *World {
	w := &World{
		cluster: c, desired: map[string]reconfigure.Spec{}, machines: map[string]*machine{}, slurm: map[string]*slurmNode{},
		faults: map[Fault]nodeset.NodeSet{}, then: map[Call][]func(){}, previews: map[string]reconfigure.Plan{}, comments: map[int64]string{},
		limit: reconfigure.Use{Instances: -1, Cores: -1, RAM: -1}, runs: map[Tool][]*run{}, spans: map[Doing]time.Duration{}, health: map[string]reconfigure.Health{},
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

// Deps is the world behind every seam of an engine.
func (w *World) Deps() engine.Deps {
	return engine.Deps{
		Provisioner: watched{w}, Cloud: w, Sweeper: w, Surveyor: w, Greeter: w, Configurer: watched{w}, Recorder: w, Health: w,
		Scheduler: func(reconfigure.Instance) engine.Scheduler { return w },
		Commenter: func(reconfigure.Instance) engine.Commenter { return w },
		Poll:      time.Second,
	}
}

// Spec is what a node is made of by its declaration.
func (w *World) Spec(node string) reconfigure.Spec {
	group, source := reconfigure.ControlGroup, w.cluster.Control.Source
	if g, ok := w.cluster.GroupOf(node); ok {
		group, source = g.Name, g.Source
	}
	return reconfigure.Spec{Group: group, ImageID: id(source.Image), FlavorID: id(source.Flavor), NetworkID: id(source.Network)}
}

// id is what a name means in this cloud.
func id(name string) string { return "id-of-" + name }

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
	w.shared = true
	for _, node := range nodes {
		w.desired[node] = w.Spec(node)
		w.boot(node, w.create(node, w.Spec(node)))
		w.machines[node].configured = true
		if n := w.slurm[node]; n != nil {
			n.register(w.machines[node])
		}
	}
}

// HaveTainted leaves instances that were not made to the end.
func (w *World) HaveTainted(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.desired[node] = w.Spec(node)
		m := w.create(node, w.Spec(node))
		m.Tainted, m.fault = true, "It is broken."
	}
}

// Taint has Terraform take instances for half made that are as good as before: so an administrator orders a replacement by hand.
func (w *World) Taint(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.machines[node].Tainted = true
	}
}

// PowersUp has Slurm wait for nodes, each with a job that is to start there.
func (w *World) PowersUp(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		n := w.slurm[node]
		n.base, n.power, n.job, n.reason = reconfigure.NodeAllocated, reconfigure.NodePoweringUp, true, ""
	}
}

// PowersDown has Slurm give nodes up.
func (w *World) PowersDown(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		n := w.slurm[node]
		n.base, n.power, n.job = reconfigure.NodeIdle, reconfigure.NodePoweringDown, false
	}
}

// PoweredDown has SuspendTimeout be over for nodes that Slurm gave up.
func (w *World) PoweredDown(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		if n := w.slurm[node]; n.power == reconfigure.NodePoweringDown {
			n.power = reconfigure.NodePoweredDown
		}
	}
}

// GivesUp has ResumeTimeout be over for nodes that Slurm waits for: it requeues their jobs.
func (w *World) GivesUp(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.look()
	for _, node := range nodes {
		if n := w.slurm[node]; n.power == reconfigure.NodePoweringUp {
			n.base, n.power, n.job, n.reason = reconfigure.NodeDown, 0, false, "ResumeTimeout reached"
		}
	}
}

// StartJob starts a job on a node, if Slurm would and slurmd is there.
func (w *World) StartJob(node string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.look()
	n, m := w.slurm[node], w.machines[node]
	if n.state(node).Usable() && !n.job && m != nil && m.slurmd {
		n.base, n.job = reconfigure.NodeAllocated, true
	}
}

// Reboots has Slurm wait until nodes have been booted again, and stand back from them.
func (w *World) Reboots(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.slurm[node].rebooting = true
	}
}

// ForgetfulReboots has Slurm drain nodes for a reboot after which it is to use them again, and read slurm.conf meanwhile: so it forgets to undrain them.
func (w *World) ForgetfulReboots(nodes ...string) {
	w.Reboots(nodes...)
	w.Drained("reimage : reboot issued", nodes...)
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.slurm[node].returns = true
	}
}

// Drained has somebody drain nodes.
func (w *World) Drained(reason string, nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.slurm[node].drain, w.slurm[node].reason = true, reason
	}
}

// EndJob ends the job on a node as jobs end.
func (w *World) EndJob(node string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.slurm[node].base, w.slurm[node].job = reconfigure.NodeIdle, false
}

// RegisterAfter has slurmd register so long after the playbooks ran, or after a boot.
func (w *World) RegisterAfter(d time.Duration) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.delay = d
}

// Takes has something take so long from now on.
func (w *World) Takes(what Doing, d time.Duration) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.spans[what] = d
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

// Calls is every call that changed something, in order, such as "apply create node[1-2], destroy node3".
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

// Events is what was recorded, in order.
func (w *World) Events() []reconfigure.Event {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.events)
}

// Print has something appear on an instance's console.
func (w *World) Print(id, text string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, m := range w.machines {
		if m.ID == id {
			m.console += text
		}
	}
}

// Evidence is what was kept, in order.
func (w *World) Evidence() []reconfigure.Evidence {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.evidence)
}

// Node is all that there is of a node; comparable.
type Node struct {
	Instance reconfigure.Instance // zero: there is none
	Spec     reconfigure.Spec     // as Terraform was last told; zero: it was not told of the node
	Made     reconfigure.Spec     // what the instance is made of
	Boots    int
	State    string // Slurm's
	Reason   string
	Job      bool
}

// Node looks at a node.
func (w *World) Node(node string) Node {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.look()
	seen := Node{Spec: w.desired[node]}
	if m := w.machines[node]; m != nil {
		seen.Instance, seen.Made, seen.Boots = m.Instance, m.spec, m.boots
	}
	if n := w.slurm[node]; n != nil {
		s := n.state(node)
		seen.State, seen.Reason, seen.Job = s.String(), s.Reason, s.Busy
	}
	return seen
}

func (w *World) number() int { w.last++; return w.last }

func (w *World) log(what string, nodes nodeset.NodeSet) {
	w.calls = append(w.calls, what+" "+nodes.String())
}

// create makes an instance, which is off.
func (w *World) create(node string, spec reconfigure.Spec) *machine {
	n := w.number()
	if w.machines[node].real() || w.hasOrphan(node) {
		w.doubled = append(w.doubled, node)
	}
	m := &machine{Instance: reconfigure.Instance{Node: node, ID: fmt.Sprint("instance-", n), Address: fmt.Sprintf("192.0.2.%d", n)}, spec: spec}
	w.machines[node] = m
	if m.lemon = w.struck(Lemon, node); m.lemon {
		w.faults[Lemon] = w.faults[Lemon].Difference(nodeset.Of(node))
	}
	return m
}

// boot starts an instance, or starts it again. slurmd comes up by itself where it was configured before.
func (w *World) boot(node string, m *machine) {
	w.stop(node)
	m.boots++
	m.booted = time.Unix(max(time.Now().Unix(), w.booted+1), 0) // no two boots have the same time
	w.booted = m.booted.Unix()
	m.console += fmt.Sprintf("%s of %s: booted at %d\n", m.ID, m.Node, w.booted)
	if m.configured || w.struck(StartsByItself, node) {
		w.startSlurmd(node)
	}
}

func (w *World) startSlurmd(node string) {
	if n := w.slurm[node]; n != nil && !w.struck(NeverRegisters, node) {
		n.registers = time.Now().Add(w.delay)
	}
}

// stop ends all that a machine does.
func (w *World) stop(node string) {
	w.lose(node)
	if n := w.slurm[node]; n != nil {
		n.registers = time.Time{}
	}
	if m := w.machines[node]; m != nil {
		m.slurmd = false
	}
}

// lose ends the job on a node. One that only waits for the node stays.
func (w *World) lose(node string) {
	if n := w.slurm[node]; n != nil && n.state(node).Running() {
		w.lost = append(w.lost, node)
		n.base, n.job = reconfigure.NodeIdle, false
	}
}

// look brings Slurm's view up to date.
func (w *World) look() {
	now := time.Now()
	for _, node := range slices.Sorted(maps.Keys(w.slurm)) {
		n := w.slurm[node]
		if !n.registers.IsZero() && !now.Before(n.registers) && w.machines[node] != nil {
			n.register(w.machines[node])
		}
	}
}

// register is slurmd's first word after a boot. As with ReturnToService=2 of slurm.conf, a node that was DOWN is back with it, and a job that waits for the
// node starts.
func (n *slurmNode) register(m *machine) {
	m.slurmd = true
	n.registers, n.power = time.Time{}, 0
	if !n.drain {
		n.reason = ""
	}
	n.boot, n.rebooting, n.returns = m.booted, false, false
	n.base = reconfigure.NodeIdle
	if n.job {
		n.base = reconfigure.NodeAllocated
	}
}

func (n *slurmNode) state(node string) reconfigure.NodeState {
	s := reconfigure.NodeState{
		Node: node, Flags: n.base | n.power, Reason: n.reason, Boot: n.boot, Busy: n.job, Returns: n.returns,
	}
	if n.cloud {
		s.Flags |= reconfigure.NodeCloud
	}
	if n.drain {
		s.Flags |= reconfigure.NodeDrain
	}
	if n.rebooting {
		s.Flags |= reconfigure.NodeRebootIssued
	}
	return s
}

// Servers is the ids of all instances, by node.
func (w *World) Servers() map[string]string {
	w.lock.Lock()
	defer w.lock.Unlock()
	all := map[string]string{}
	for node, m := range w.machines {
		if !m.gone {
			all[node] = m.ID
		}
	}
	return all
}

// Vanish deletes an instance without Terraform. The state of this one is never behind the cloud.
func (w *World) Vanish(node string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.stop(node)
	delete(w.machines, node)
}
