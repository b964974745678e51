package enginetest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Resolve knows the sources that the cluster declares.
func (w *World) Resolve(ctx context.Context, s reconfigure.Source) reconfigure.Resolved {
	if err := ctx.Err(); err != nil {
		return reconfigure.Resolved{Err: err.Error()}
	}
	declared := s == w.cluster.Control.Source
	for _, g := range w.cluster.Groups {
		declared = declared || s == g.Source
	}
	if !declared {
		return reconfigure.Resolved{Err: fmt.Sprintf("image %q, flavor %q or network %q: not found", s.Image, s.Flavor, s.Network), Class: reconfigure.ClassMissing}
	}
	return reconfigure.Resolved{ImageID: id(s.Image), FlavorID: id(s.Flavor), NetworkID: id(s.Network)}
}

// cloudAnswers is an error where the cloud does not.
func (w *World) cloudAnswers(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.ordered(CloudSilent) {
		return failure{CloudSilent}
	}
	return nil
}

// Active is the instances that were made to the end and were not stopped.
func (w *World) Active(ctx context.Context) (map[string]bool, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.cloudAnswers(ctx); err != nil {
		return nil, err
	}
	active := map[string]bool{}
	for node, m := range w.machines {
		if m.real() && !m.Tainted && !w.struck(NotActive, node) {
			active[m.ID] = true
		}
	}
	for _, m := range w.orphans {
		active[m.ID] = true
	}
	return active, nil
}

// Faults is what the cloud says of instances in ERROR.
func (w *World) Faults(ctx context.Context) (map[string]string, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.cloudAnswers(ctx); err != nil {
		return nil, err
	}
	faults := map[string]string{}
	for node, m := range w.machines {
		if m.fault != "" {
			faults[node] = m.fault
		}
	}
	return faults, nil
}

// Reboot boots an instance again.
func (w *World) Reboot(ctx context.Context, id string) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for node, m := range w.machines {
		if m.ID != id || !m.real() {
			continue
		}
		if w.struck(RebootFails, node) {
			return failure{RebootFails}
		}
		w.log("reboot", nodeset.Of(node))
		w.boot(node, m)
		return nil
	}
	return fmt.Errorf("there is no instance %q", id)
}

// Console shows when the instance was booted, and what was printed on it.
func (w *World) Console(ctx context.Context, id string, lines int) (string, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.cloudAnswers(ctx); err != nil {
		return "", err
	}
	for _, m := range w.machines {
		if m.ID == id && m.real() {
			all := strings.SplitAfter(strings.TrimSuffix(m.console, "\n"), "\n")
			if lines > 0 {
				all = all[max(0, len(all)-lines):]
			}
			return strings.Join(all, "") + "\n", nil
		}
	}
	return "", fmt.Errorf("there is no instance %q", id)
}

// Await greets all at once. What does not answer is waited for as long as Booting takes, or as is declared.
func (w *World) Await(ctx context.Context, instances []reconfigure.Instance, _ nodeset.NodeSet, until map[string]time.Time) reconfigure.Failures {
	defer w.happened(AfterGreet)
	w.waitFor(ctx, instances, until)
	w.lock.Lock()
	defer w.lock.Unlock()
	failures := reconfigure.Failures{}
	for _, i := range instances {
		switch {
		case ctx.Err() != nil:
			failures[i.Node] = ctx.Err()
		case w.mute(i):
			failures[i.Node] = failure{NoSSH}
		}
	}
	return failures
}

// mute tells whether an instance does not answer.
func (w *World) mute(i reconfigure.Instance) bool {
	m := w.machines[i.Node]
	return !m.real() || m.Address != i.Address || m.lemon || w.struck(NoSSH, i.Node)
}

// waitFor lets the time pass until all have answered, or none is waited for any longer.
func (w *World) waitFor(ctx context.Context, instances []reconfigure.Instance, until map[string]time.Time) {
	w.lock.Lock()
	patience, said := w.spans[Booting]
	if !said {
		patience = w.cluster.Settings.BootTimeout
	}
	end := time.Now()
	for _, i := range instances {
		patient := time.Now().Add(patience)
		if deadline, limited := until[i.Node]; limited && deadline.Before(patient) {
			patient = deadline
		}
		if w.mute(i) && patient.After(end) {
			end = patient
		}
	}
	w.lock.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(end)):
	}
}

// Configure logs whom it configures, and whom it tells of each other.
func (w *World) Configure(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent, watch engine.Watch,
	done func(node string, err error)) (reconfigure.Failures, error) {
	defer w.happened(AfterConfigure)
	for node := range extent.Changed.All() {
		watch(node, "the playbooks run")
	}
	w.spend(ctx, Playing)
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.ordered(BrokenPlaybook) {
		return nil, failure{BrokenPlaybook}
	}
	told := nodeset.Collect(maps.Keys(instances))
	what := "configure "
	if extent.Everywhere {
		what = "slurm.conf everywhere, configure "
	}
	w.log(what+extent.Changed.String()+" of", told)
	if apart := extent.Apart.Intersect(told); !apart.Empty() {
		w.calls[len(w.calls)-1] += " apart from " + apart.String()
	}
	failures := reconfigure.Failures{}
	for node := range extent.Changed.All() {
		if w.breaksOff() {
			w.broken = nil
			return nil, failure{Killed}
		}
		m := w.machines[node]
		switch {
		case !m.real() || !told.Contains(node) || extent.Apart.Contains(node):
			failures[node] = fmt.Errorf("%s is not in the inventory", node)
		case w.struck(PlaybookFails, node):
			failures[node] = reconfigure.WithOutput("stderr: "+string(PlaybookFails)+" on "+m.ID, failure{PlaybookFails})
		case !m.configured:
			m.configured = true
			w.startSlurmd(node)
		}
		if done != nil {
			done(node, failures[node])
		}
	}
	if control := c.Control.Name; extent.Everywhere && extent.Changed.Contains(control) && failures[control] == nil {
		w.reread(c)
	}
	return failures, nil
}

// reread has slurmctld read a slurm.conf of what is declared. It keeps the states that it knows, and the jobs but those on nodes that it forgets.
func (w *World) reread(c reconfigure.Cluster) {
	for node := range w.slurm {
		if !c.Nodes().Contains(node) {
			w.lose(node)
			delete(w.slurm, node)
		}
	}
	persistent := c.Persistent()
	for node := range c.Nodes().All() {
		if w.slurm[node] == nil {
			w.slurm[node] = &slurmNode{base: reconfigure.NodeIdle, power: reconfigure.NodePoweredDown}
		}
		w.slurm[node].cloud = !persistent.Contains(node)
	}
}

// answers tells whether there is a slurmctld, and it answers.
func (w *World) answers(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	control := w.machines[w.cluster.Control.Name]
	if control == nil || !control.configured || w.ordered(SlurmSilent) {
		return failure{SlurmSilent}
	}
	w.look()
	return nil
}

// States is every node of every group.
func (w *World) States(ctx context.Context) (map[string]reconfigure.NodeState, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.answers(ctx); err != nil {
		return nil, err
	}
	all := map[string]reconfigure.NodeState{}
	for node, n := range w.slurm {
		all[node] = n.state(node)
	}
	return all, nil
}

// Down requeues the jobs of the nodes.
func (w *World) Down(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	return w.update(ctx, nodes, "down", ": "+reason, func(n *slurmNode) {
		n.base, n.power, n.job, n.reason = reconfigure.NodeDown, 0, false, ReasonPrefix+reason
	})
}

// PowerDown ends at once: this Slurm waits for nobody. As with Slurm 22.05, drains end with it, and their reasons stay.
func (w *World) PowerDown(ctx context.Context, nodes nodeset.NodeSet) error {
	return w.update(ctx, nodes, "power_down", "", func(n *slurmNode) {
		n.base, n.power, n.job = reconfigure.NodeIdle, reconfigure.NodePoweredDown, false
		if !n.drain {
			n.reason = ""
		}
		n.drain = false
	})
}

// Drain keeps jobs that run.
func (w *World) Drain(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	return w.mark(ctx, nodes, "drain", ": "+reason, func(n *slurmNode) { n.drain, n.reason = true, ReasonPrefix+reason })
}

// Undrain keeps everything else.
func (w *World) Undrain(ctx context.Context, nodes nodeset.NodeSet) error {
	return w.mark(ctx, nodes, "undrain", "", func(n *slurmNode) { n.drain, n.reason = false, "" })
}

// ReasonPrefix marks the reasons that are ours.
const ReasonPrefix = reconfigure.ReasonPrefix + " "

// update changes states in a way that jobs do not survive.
func (w *World) update(ctx context.Context, nodes nodeset.NodeSet, what, detail string, change func(*slurmNode)) error {
	return w.tell(ctx, nodes, what, detail, func(node string) { w.lose(node); change(w.slurm[node]) })
}

// mark changes what jobs do not notice.
func (w *World) mark(ctx context.Context, nodes nodeset.NodeSet, what, detail string, change func(*slurmNode)) error {
	return w.tell(ctx, nodes, what, detail, func(node string) { change(w.slurm[node]) })
}

func (w *World) tell(ctx context.Context, nodes nodeset.NodeSet, what, detail string, change func(node string)) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.answers(ctx); err != nil {
		return err
	}
	var done, refused []string
	for node := range nodes.All() {
		n := w.slurm[node]
		if n == nil || w.struck(SlurmRefuses, node) {
			refused = append(refused, node)
			continue
		}
		change(node)
		done = append(done, node)
	}
	if len(done) > 0 {
		w.calls = append(w.calls, what+" "+nodeset.Of(done...).String()+detail)
	}
	if len(refused) > 0 {
		return fmt.Errorf("%w: %s", failure{SlurmRefuses}, strings.Join(refused, ", "))
	}
	return nil
}

// Health is how the groups fare.
func (w *World) Health(ctx context.Context) (map[string]reconfigure.Health, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return maps.Clone(w.health), nil
}

// UpdateHealth keeps it in memory.
func (w *World) UpdateHealth(ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.ordered(JournalFull) {
		return failure{JournalFull}
	}
	Update(w.health, group, update)
	return nil
}

// Update is what every keeper of health does, on a map.
func Update(known map[string]reconfigure.Health, group string, update func(reconfigure.Health) reconfigure.Health) {
	h := known[group]
	h.Group = group
	h = update(h)
	if h.Group = group; h.Well() {
		delete(known, group)
		return
	}
	known[group] = h
}

// Record keeps the events in memory.
func (w *World) Record(ctx context.Context, events ...reconfigure.Event) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.ordered(JournalFull) {
		return failure{JournalFull}
	}
	w.events = append(w.events, events...)
	return nil
}

// Keep keeps the evidence in memory.
func (w *World) Keep(ctx context.Context, evidence ...reconfigure.Evidence) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.ordered(JournalFull) {
		return failure{JournalFull}
	}
	w.evidence = append(w.evidence, evidence...)
	return nil
}
