package enginetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Half is how Terraform leaves the change that it is at when it is killed. It writes its state when a resource is finished, with some back ends later still, so
// what the cloud has done by then is not in it.
type Half string

// The ways to leave a change.
const (
	NotBegun  Half = "not begun"
	Removed   Half = "removed"   // of a replacement the first half: the old instance is gone, which the state does not say
	Unwritten Half = "unwritten" // it is done, but the state does not say so: of a new instance it has the port alone
	Unknown   Half = "unknown"   // of a new instance the state has nothing at all
)

// interruption is where a process that changes node after node is killed.
type interruption struct {
	after int // so many are finished
	half  Half
}

// KillDuring has the next Apply be killed when so many of its changes are done, and the next one is left half done; or the next Configure, of nodes. Spare takes
// that back where it did not come so far.
func (w *World) KillDuring(after int, half Half) (spare func()) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.broken = &interruption{after, half}
	return func() {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.broken = nil
	}
}

// breaksOff counts a change, and tells whether the process is killed at it.
func (w *World) breaksOff() bool {
	if w.broken == nil {
		return false
	}
	w.broken.after--
	return w.broken.after < 0
}

// cutShort leaves a change half done. What belongs to all is quickly made; it is done or not.
func (w *World) cutShort(c reconfigure.ResourceChange, spec reconfigure.Spec) {
	half := w.broken.half
	w.broken = nil
	m := w.machines[c.Node]
	removes := c.Effect == reconfigure.EffectDelete || c.Effect == reconfigure.EffectReplace && half == Removed
	switch {
	case half == NotBegun || c.Node == "":
	case half == Removed && !removes:
	case removes:
		w.stop(c.Node)
		m.gone = true
	case c.Effect == reconfigure.EffectRebuild:
		w.stop(c.Node)
		m.spec, m.configured = spec, false
		w.boot(c.Node, m)
	default:
		w.stop(c.Node)
		delete(w.machines, c.Node)
		w.loseTrack(w.create(c.Node, spec), half == Unwritten)
	}
}

// loseTrack has an instance in the cloud that Terraform does not know, but perhaps for its port.
func (w *World) loseTrack(m *machine, port bool) {
	w.orphans = append(w.orphans, m)
	delete(w.machines, m.Node)
	if port {
		w.machines[m.Node] = &machine{Instance: reconfigure.Instance{Node: m.Node, Tainted: true}}
	}
}

// Forget has Terraform's state lose nodes whose instances live on, as when somebody brings an old copy of it back.
func (w *World) Forget(nodes ...string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, node := range nodes {
		w.loseTrack(w.machines[node], false)
	}
}

// Orphans is the nodes of the instances that Terraform does not know, with repetitions.
func (w *World) Orphans() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	var nodes []string
	for _, m := range w.orphans {
		nodes = append(nodes, m.Node)
	}
	slices.Sort(nodes)
	return nodes
}

// Doubled is the nodes that got an instance while they had another one, in order.
func (w *World) Doubled() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.doubled)
}

func (w *World) hasOrphan(node string) bool {
	return slices.ContainsFunc(w.orphans, func(m *machine) bool { return m.Node == node })
}

// Made is every instance that there is, whoever knows of it.
func (w *World) Made(ctx context.Context) (map[string][]string, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.cloudAnswers(ctx); err != nil {
		return nil, err
	}
	made := map[string][]string{}
	for node, m := range w.machines {
		if m.real() {
			made[node] = append(made[node], m.ID)
		}
	}
	for _, m := range w.orphans {
		made[m.Node] = append(made[m.Node], m.ID)
	}
	return made, nil
}

// RemoveOrphan deletes an instance behind Terraform's back, also one that Terraform knows, should that be asked for.
func (w *World) RemoveOrphan(ctx context.Context, id, name string, before time.Time) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for node, m := range w.machines {
		if m.ID == id && m.real() {
			w.log("delete", nodeset.Of(node))
			w.stop(node)
			m.gone = true
		}
	}
	for i, m := range w.orphans {
		if m.ID != id {
			continue
		}
		if m.Node != name || !m.booted.Before(before) {
			return fmt.Errorf("instance %s is not removed", id)
		}
		if w.struck(NeverRemoved, m.Node) {
			return fmt.Errorf("instance %s: %w", id, failure{NeverRemoved})
		}
		w.log("delete orphan", nodeset.Of(m.Node))
		if m.slurmd {
			w.stop(m.Node)
		}
		w.orphans = slices.Delete(w.orphans, i, i+1)
		return nil
	}
	return nil
}
