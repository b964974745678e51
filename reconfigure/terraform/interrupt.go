package terraform

import (
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// fragileGrace is how long an interrupt waits for changes that it would lose. A port takes at least 5 s, the
// provider's fixed delay, and the provider then checks it every 3 s.
const fragileGrace = 10 * time.Second

// interrupter sends an interrupt to Terraform, once. It first waits for the first change, since Terraform ignores an
// interrupt while it reads the plan (in Terraform 1.5, Context.Stop does nothing before Context.Apply runs). Then it
// waits until no change is in progress that the interrupt would lose: the provider stores the id of an instance as
// soon as the cloud returns it, but the id of a port only when the port is ready. Shared resources must be complete too,
// also those that Terraform has not begun: there are no results by node without them.
type interrupter struct {
	send func()

	mu      sync.Mutex
	fragile map[string]bool         // by address: the changes that an interrupt would lose; true while one is in progress
	shared  map[string]sharedChange // by address: the changes of shared resources that are not complete
	started bool                    // Terraform has begun the first change
	asked   bool
	urgent  bool // the grace period has ended
	sent    bool
}

// sharedChange is the effect on a shared resource, and the actions on it that are complete.
type sharedChange struct {
	effect reconfigure.Effect
	done   []string
}

func newInterrupter(changes []reconfigure.ResourceChange, send func()) *interrupter {
	i := &interrupter{send: send, fragile: map[string]bool{}, shared: map[string]sharedChange{}}
	for _, c := range changes {
		if c.Node == "" {
			i.shared[c.Address] = sharedChange{effect: c.Effect}
		}
		if !mayInterrupt(c) {
			i.fragile[c.Address] = false
		}
	}
	return i
}

// mayInterrupt reports whether Terraform's state is complete after the change is interrupted: an instance is in the
// state with its id, tainted; a resource that is being deleted stays in the state. An interrupted resize would stay
// unconfirmed.
func mayInterrupt(c reconfigure.ResourceChange) bool {
	switch c.Effect {
	case reconfigure.EffectDelete:
		return true
	case reconfigure.EffectCreate, reconfigure.EffectReplace, reconfigure.EffectRebuild, reconfigure.EffectStart,
		reconfigure.EffectStop:
		return c.Kind == reconfigure.KindInstance
	default:
		return false
	}
}

// hear handles an event of Terraform's.
func (i *interrupter) hear(e event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.started = i.started || e.Type == applyStart
	if _, fragile := i.fragile[e.Hook.Resource.Address]; fragile {
		switch e.Type {
		case applyStart:
			i.fragile[e.Hook.Resource.Address] = true
		case applyComplete, applyErrored:
			i.fragile[e.Hook.Resource.Address] = false
		}
	}
	if part, shared := i.shared[e.Hook.Resource.Address]; shared && e.Type == applyComplete {
		part.done = append(part.done, e.Hook.Action)
		if i.shared[e.Hook.Resource.Address] = part; completed(part.effect, part.done) {
			delete(i.shared, e.Hook.Resource.Address)
		}
	}
	i.try()
}

// ask requests the interrupt; an urgent one does not wait for changes in progress.
func (i *interrupter) ask(urgent bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked, i.urgent = true, i.urgent || urgent
	i.try()
}

func (i *interrupter) try() {
	if !i.asked || !i.started || i.sent || len(i.shared) > 0 {
		return
	}
	for _, underWay := range i.fragile {
		if underWay && !i.urgent {
			return
		}
	}
	i.sent = true
	i.send()
}

// wasSent reports whether Terraform was interrupted.
func (i *interrupter) wasSent() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sent
}

// attend asks for the interrupt when the channel is closed, until ended.
func (i *interrupter) attend(interrupt, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-interrupt:
	}
	i.ask(false)
	grace := time.NewTimer(fragileGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		i.ask(true)
	}
}
