package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// slurmNode is a node in slurmctld.
type slurmNode struct {
	base, power reconfigure.NodeFlags // power is a flag of power saving, or zero
	cloud       bool
	reason      string
	job, drain  bool
	rebooting   bool // Slurm has issued a reboot, and waits for the node
	returns     bool // Slurm uses the node after the reboot, unless it forgets that
	boot        time.Time
	asked       time.Time // the time at which Slurm asked for a boot: it waits for a later one
	registers   time.Time // the time at which slurmd registers; zero: never
	server      *server   // the instance on which slurmd runs
	registered  time.Time // its last registration
	silent      bool      // Slurm has noticed that it does not answer
	reserved    string    // reserved for the test job of this name
	began       time.Time // the time at which a job started on the idle node
	checked     time.Time // the last answer to a question about the node, not about all nodes
	freed       time.Time // the time at which somebody ended their own drain of the node
	run         string    // the last run, in a partition with `fresh: job`, to which the node was allocated
}

// PowersUp makes Slurm power up nodes, each for a job that waits for it.
func (w *World) PowersUp(nodes ...string) { w.powersUp(reconfigure.NodeAllocated, nodes) }

// PowersUpIdle makes Slurm power up nodes that no job needs.
func (w *World) PowersUpIdle(nodes ...string) { w.powersUp(reconfigure.NodeIdle, nodes) }

func (w *World) powersUp(base reconfigure.NodeFlags, nodes []string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		n := w.slurm.nodes[node]
		n.base, n.power, n.job, n.reason = base, reconfigure.NodePoweringUp, base == reconfigure.NodeAllocated, ""
		n.run, n.asked = "", time.Now()
	}
}

// PowersDown makes Slurm power down nodes.
func (w *World) PowersDown(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		n := w.slurm.nodes[node]
		n.base, n.power, n.job = reconfigure.NodeIdle, reconfigure.NodePoweringDown, false
	}
}

// SuspendsIdle makes Slurm power down nodes without jobs, which ends their drains; the reasons stay.
func (w *World) SuspendsIdle(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		if n := w.slurm.nodes[node]; !n.job && n.power == 0 {
			n.base, n.power, n.drain = reconfigure.NodeIdle, reconfigure.NodePoweringDown, false
		}
	}
}

// PoweredDown ends SuspendTimeout for nodes that Slurm powers down.
func (w *World) PoweredDown(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		if n := w.slurm.nodes[node]; n.power == reconfigure.NodePoweringDown {
			n.power = reconfigure.NodePoweredDown
		}
	}
}

// GivesUp ends ResumeTimeout for nodes that Slurm waits for: it requeues their jobs.
func (w *World) GivesUp(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	for _, node := range nodes {
		if n := w.slurm.nodes[node]; n.power == reconfigure.NodePoweringUp {
			n.base, n.power, n.job, n.reason = reconfigure.NodeDown, 0, false, "ResumeTimeout reached"
		}
	}
}

// StartJob starts a job on a node, if its state and slurmd allow that.
func (w *World) StartJob(node string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	n := w.slurm.nodes[node]
	if n.state(node).Usable() && !n.job && n.reserved == "" && n.server != nil && n.server.slurmd {
		n.base, n.job, n.run, n.began = reconfigure.NodeAllocated, true, "", time.Now()
	}
}

// Reboots makes Slurm issue a reboot of nodes and wait for it.
func (w *World) Reboots(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.slurm.nodes[node].rebooting = true
	}
}

// ForgetfulReboots makes Slurm drain nodes for a reboot with nextstate=RESUME, and read slurm.conf meanwhile, so that
// it forgets to undrain them.
func (w *World) ForgetfulReboots(nodes ...string) {
	w.Reboots(nodes...)
	w.Drained("reimage : reboot issued", nodes...)
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.slurm.nodes[node].returns = true
	}
}

// Drained drains nodes, as an administrator does.
func (w *World) Drained(reason string, nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.slurm.nodes[node].drain, w.slurm.nodes[node].reason = true, reason
	}
}

// PowerDownASAP keeps jobs from nodes that have one, and powers them down when it has ended.
func (w *World) PowerDownASAP(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	return w.mark(ctx, nodes, "power_down_asap", ": "+reason, func(n *slurmNode) { n.leaves(ReasonPrefix + reason) })
}

// Thwarted returns the number of times a node was powered down although a job waited for it.
func (w *World) Thwarted() int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.slurm.thwarted
}

// SetsDown sets nodes DOWN as an administrator does, which requeues their jobs.
func (w *World) SetsDown(reason string, nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	for _, node := range nodes {
		n := w.slurm.nodes[node]
		n.base, n.power, n.job, n.reason = reconfigure.NodeDown, 0, false, reason
	}
}

// EndsDown is an administrator's `scontrol update state=resume` of a node that is DOWN. Slurm does not use it before its
// slurmd registers.
func (w *World) EndsDown(node string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	if n := w.slurm.nodes[node]; n.base == reconfigure.NodeDown {
		n.base, n.reason, n.drain = reconfigure.NodeIdle, "", false
		n.silent = n.server == nil || !n.server.slurmd
	}
}

// EndJob ends the job on a node normally. It reports whether Slurm powers the node down then, which ends its drain.
func (w *World) EndJob(node string) (goes bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	n := w.slurm.nodes[node]
	n.base, n.job = reconfigure.NodeIdle, false
	n.ends()
	if n.power != reconfigure.NodePowerDown {
		return false
	}
	n.power, n.drain = reconfigure.NodePoweringDown, false
	return true
}

// Registered returns when a node's slurmd registered last.
func (w *World) Registered(node string) time.Time {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	return w.slurm.nodes[node].registered
}

// accepts reports whether an instance was booted after Slurm had asked for it. Slurm compares seconds.
func (n *slurmNode) accepts(s *server) bool { return s.booted.Unix() >= n.asked.Unix() }

// waits reports whether Slurm powers the node up.
func (n *slurmNode) waits() bool { return n.power == reconfigure.NodePoweringUp }

// lose ends the job on a node. A job that only waits for the node stays.
func (w *World) lose(node string) {
	if n := w.slurm.nodes[node]; n != nil && n.state(node).Running() {
		if n.freedTooLate(time.Now()) {
			w.slurm.freed = append(w.slurm.freed, node)
		} else {
			w.slurm.lost = append(w.slurm.lost, node)
		}
		n.base, n.job = reconfigure.NodeIdle, false
	}
}

// lastCheck is the longest time between the last check for jobs and the end of an instance.
const lastCheck = 10 * time.Second

// freedTooLate reports whether somebody ended their own drain after the last check for jobs, and a job started then.
func (n *slurmNode) freedTooLate(now time.Time) bool {
	return n.freed.After(n.checked) && !n.began.Before(n.freed) && now.Sub(n.checked) <= lastCheck
}

// register is slurmd's registration after a boot. As with ReturnToService=2 in slurm.conf, a DOWN node returns to
// service with it, and a job that waits for the node starts.
func (n *slurmNode) register(s *server, at time.Time) {
	s.slurmd, n.server = true, s
	n.registers, n.boot = time.Time{}, s.booted
	if n.waits() && !n.accepts(s) {
		return // Slurm still waits for the boot
	}
	n.power, n.registered = 0, at
	if !n.drain {
		n.reason = ""
	}
	n.rebooting, n.returns, n.silent = false, false, false
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
	if n.silent && n.power == 0 {
		s.Flags |= reconfigure.NodeNotResponding
	}
	if n.rebooting {
		s.Flags |= reconfigure.NodeRebootIssued
	}
	return s
}

// answers returns an error if there is no slurmctld, or it does not answer.
func (w *World) answers(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.advance()
	there := slices.ContainsFunc(w.serversOf(w.cluster.Control.Name), func(s *server) bool { return s.up && s.configured })
	if !there || w.ordered(SlurmSilent) {
		return failure{SlurmSilent}
	}
	return nil
}

// States returns only the states of these nodes; without nodes it returns all.
func (w *World) States(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.answers(ctx); err != nil {
		return nil, err
	}
	all := map[string]reconfigure.NodeState{}
	for node, n := range w.slurm.nodes {
		if nodes.Empty() || nodes.Contains(node) {
			all[node] = n.state(node)
		}
		if nodes.Contains(node) {
			n.checked = time.Now()
		}
	}
	return all, nil
}

// Down requeues the jobs of the nodes.
func (w *World) Down(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	err := w.update(ctx, nodes, "down", ": "+reason, func(n *slurmNode) {
		n.base, n.power, n.job, n.reason = reconfigure.NodeDown, 0, false, ReasonPrefix+reason
	})
	w.lock.Lock()
	defer w.lock.Unlock()
	for node := range nodes.Intersect(w.orders.faults[RegistersLate]).All() {
		if r, n := w.terraform.state[node], w.slurm.nodes[node]; n != nil && n.base == reconfigure.NodeDown && r != nil {
			if s := w.server(r.id); s != nil && s.up && s.gone.IsZero() {
				const late = 3 * time.Second
				n.server, n.registers, s.configured = s, time.Now().Add(late), true
			}
		}
	}
	return err
}

// PowerDown takes no time. As in Slurm 22.05, it ends drains, and their reasons stay.
func (w *World) PowerDown(ctx context.Context, nodes nodeset.NodeSet) error {
	return w.update(ctx, nodes, "power_down", "", func(n *slurmNode) {
		if n.job && n.power == reconfigure.NodePoweringUp {
			w.slurm.thwarted++
		}
		n.base, n.power, n.job = reconfigure.NodeIdle, reconfigure.NodePoweredDown, false
		if !n.drain {
			n.reason = ""
		}
		n.drain = false
	})
}

// Drain does not end running jobs.
func (w *World) Drain(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	return w.mark(ctx, nodes, "drain", ": "+reason, func(n *slurmNode) { n.drain, n.reason = true, ReasonPrefix+reason })
}

// Undrain changes only the drain: a power down that waits for a job stays.
func (w *World) Undrain(ctx context.Context, nodes nodeset.NodeSet) error {
	return w.mark(ctx, nodes, "undrain", "", func(n *slurmNode) { n.drain, n.reason = false, "" })
}

// ClearReason does not clear the reason of a DOWN node.
func (w *World) ClearReason(ctx context.Context, nodes nodeset.NodeSet) error {
	return w.mark(ctx, nodes, "clear reason", "", func(n *slurmNode) {
		if n.base != reconfigure.NodeDown {
			n.reason = ""
		}
	})
}

// ReasonPrefix is the prefix of this tool's reasons.
const ReasonPrefix = reconfigure.ReasonPrefix + " "

// update changes states and ends the nodes' jobs.
func (w *World) update(ctx context.Context, nodes nodeset.NodeSet, what, detail string, change func(*slurmNode)) error {
	return w.tell(ctx, nodes, what, detail, func(node string) { w.lose(node); change(w.slurm.nodes[node]) })
}

// mark changes states without ending jobs.
func (w *World) mark(ctx context.Context, nodes nodeset.NodeSet, what, detail string, change func(*slurmNode)) error {
	return w.tell(ctx, nodes, what, detail, func(node string) { change(w.slurm.nodes[node]) })
}

func (w *World) tell(ctx context.Context, nodes nodeset.NodeSet, what, detail string, change func(node string)) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.answers(ctx); err != nil {
		return err
	}
	var done, refused []string
	for node := range nodes.All() {
		n := w.slurm.nodes[node]
		if n == nil || w.struck(SlurmRefuses, node) {
			refused = append(refused, node)
			continue
		}
		change(node)
		done = append(done, node)
	}
	if len(done) > 0 {
		w.seen.calls = append(w.seen.calls, what+" "+nodeset.Of(done...).String()+detail)
	}
	if len(refused) > 0 {
		return fmt.Errorf("%w: %s", failure{SlurmRefuses}, strings.Join(refused, ", "))
	}
	return nil
}

// Rejoins lets slurmd of a node register again, as after a cancelled power down: the job there runs.
func (w *World) Rejoins(node string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	w.comesUp(node, time.Now())
}

// comesUp is the registration of a node's slurmd. A job that waits for the node begins.
func (w *World) comesUp(node string, at time.Time) {
	n := w.slurm.nodes[node]
	n.register(n.server, at)
	if w.struck(RegistersLate, node) && n.state(node).Usable() && !n.job { // Slurm has a job for each free node
		n.base, n.job, n.run = reconfigure.NodeAllocated, true, ""
	}
	if n.job && !n.waits() {
		w.begins(node)
	}
}
