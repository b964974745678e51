package terraform

import (
	"strings"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// fragileGrace is how long an interrupt waits for what it would lose. A port takes 5 s, the provider's fixed delay,
// and 3 s for each further look.
const fragileGrace = 10 * time.Second

// interrupter sends an interrupt to Terraform, once. It waits for the first change, as one that comes while Terraform
// still reads the plan is lost (Terraform 1.5, Context.Stop does nothing before Context.Apply runs), and until
// nothing is under way that the interrupt would lose: the provider notes the id of a server as soon as Nova has given
// one, but that of a port only when the port is ready (terraform-provider-openstack 1.54,
// resourceNetworkingPortV2Create).
type interrupter struct {
	send func()

	mu      sync.Mutex
	fragile map[string]bool // by address: the changes that an interrupt would lose; true while one is under way
	started bool            // Terraform has begun the first change
	asked   bool
	urgent  bool // the grace is over
	sent    bool
}

func newInterrupter(changes []reconfigure.ResourceChange, send func()) *interrupter {
	i := &interrupter{send: send, fragile: map[string]bool{}}
	for _, c := range changes {
		if !mayInterrupt(c) {
			i.fragile[c.Address] = false
		}
	}
	return i
}

// mayInterrupt reports whether a change that is cut off leaves nothing that Terraform's state does not know: an
// instance is known by its id, and tainted; what was to be deleted stays in the state. A resize would be left
// unconfirmed.
func mayInterrupt(c reconfigure.ResourceChange) bool {
	switch c.Effect {
	case reconfigure.EffectDelete:
		return true
	case reconfigure.EffectCreate, reconfigure.EffectReplace, reconfigure.EffectRebuild:
		return strings.HasPrefix(c.Address, instanceBlock+"[")
	default:
		return false
	}
}

// hear takes an event of Terraform's.
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
	i.try()
}

// ask has the interrupt sent as soon as may be.
func (i *interrupter) ask(urgent bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked, i.urgent = true, i.urgent || urgent
	i.try()
}

func (i *interrupter) try() {
	if !i.asked || !i.started || i.sent {
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
