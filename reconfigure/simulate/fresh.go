package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// This file simulates Slurm in a partition with `fresh: job`: fresh.sh (ansible/roles/slurm_conf) is the prolog and
// the epilog of its jobs. It marks the disk of an instance, and makes Slurm power the node down.

// Give allocates a node to a run of a job in such a partition. A powered-down node is powered up for it; on an idle
// node the job begins at once. Give reports whether Slurm calls ResumeProgram, and whether the node is available.
func (w *World) Give(node, run string) (resumes, ok bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	n := w.slurm.nodes[node]
	switch s := n.state(node); {
	case n.job:
		return false, false
	case s.Usable() && n.server != nil && n.server.slurmd:
		if n.server.left.After(n.registered) {
			w.slurm.reused = append(w.slurm.reused, node)
		}
		n.base, n.job, n.run = reconfigure.NodeAllocated, true, run
		w.begins(node)
		return false, true
	case s.PoweredDown() && !s.Down() && !s.Drained():
		n.base, n.power, n.job, n.run, n.reason = reconfigure.NodeAllocated, reconfigure.NodePoweringUp, true, run, ""
		n.asked = time.Now()
		return true, true
	}
	return false, false
}

// HasRun reports whether a node is allocated to a run of a job, and whether the run has begun there.
func (w *World) HasRun(node, run string) (given, begun bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	n := w.slurm.nodes[node]
	given = n.job && n.run == run
	return given, given && n.state(node).Running()
}

// begins is the prolog.
func (w *World) begins(node string) {
	n := w.slurm.nodes[node]
	if n.run == "" {
		return // the node is not in such a partition
	}
	s := n.server
	if s.mark != "" && s.mark != n.run {
		w.slurm.refusals++
		n.base, n.job = reconfigure.NodeIdle, false
		n.leaves(fmt.Sprintf("fresh: the mark on the instance is of %s, and not of %s", s.mark, n.run))
		return
	}
	s.mark = n.run
	if disk := fmt.Sprintf("%s, disk %d", s.id, s.disks); !slices.Contains(w.slurm.served[disk], n.run) {
		w.slurm.served[disk] = append(w.slurm.served[disk], n.run)
	}
}

// ends is the epilog of a run that has begun.
func (n *slurmNode) ends() {
	if n.run == "" || n.power != 0 && n.power != reconfigure.NodePowerDown || n.server == nil || !n.server.slurmd {
		return
	}
	n.server.mark, n.server.left = n.server.mark+", ended", time.Now()
	n.leaves("fresh: the instance was used by " + n.run)
}

// leaves makes Slurm power a node down when it has no job (scontrol(1), POWER_DOWN_ASAP).
func (n *slurmNode) leaves(reason string) {
	n.drain, n.reason, n.power = true, reason, reconfigure.NodePowerDown
}

// PowersDownDue makes Slurm power down the nodes with a pending power down and no job, which ends their drains. It
// returns them: Slurm calls SuspendProgram.
func (w *World) PowersDownDue() (nodes []string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	for node, n := range w.slurm.nodes {
		if n.power == reconfigure.NodePowerDown && !n.job {
			n.base, n.power, n.drain = reconfigure.NodeIdle, reconfigure.NodePoweringDown, false
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// Resumes is an administrator's `scontrol update state=resume`: it ends drains, and completes a power down in progress.
// A power down that waits for a job stays pending.
func (w *World) Resumes(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		n := w.slurm.nodes[node]
		if n.drain && !strings.HasPrefix(n.reason, ReasonPrefix) {
			n.freed = time.Now()
		}
		n.drain, n.reason = false, ""
		if n.power == reconfigure.NodePoweringDown {
			n.power = reconfigure.NodePoweredDown
		}
	}
}

// Refusals returns how many runs of jobs did not begin because the disk had another run's mark.
func (w *World) Refusals() int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.slurm.refusals
}

// Reused returns the nodes that were allocated to a run of a job without a power down after another run.
func (w *World) Reused() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.slurm.reused)
}

// Shared returns the disks of instances on which several runs of jobs have begun, with the runs.
func (w *World) Shared() map[string][]string {
	w.lock.Lock()
	defer w.lock.Unlock()
	shared := map[string][]string{}
	for disk, runs := range w.slurm.served {
		if len(runs) > 1 {
			shared[disk] = slices.Clone(runs)
		}
	}
	return shared
}
