package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// keeper is the cloud of a World that can set instances aside.
type keeper struct{ *World }

// CanSetAside makes the cloud one that can set instances aside. It is called before Deps.
func (w *World) CanSetAside() {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.cloud.keeps = true
}

// api returns the cloud's own API.
func (w *World) api() operation.Cloud {
	w.lock.Lock()
	defer w.lock.Unlock()
	if w.cloud.keeps {
		return keeper{w}
	}
	return w
}

// Avoided returns the ids of the instances on whose hosts others were not to be made, in order.
func (w *World) Avoided() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.cloud.avoided)
}

// SetAside stops an instance, which takes as long as a switch, and frees its port.
func (k keeper) SetAside(ctx context.Context, id string) error {
	defer k.happened(AfterAside)
	k.lock.Lock()
	s := k.server(id)
	switch {
	case ctx.Err() != nil:
		k.lock.Unlock()
		return context.Cause(ctx)
	case s == nil || k.struck(NeverAside, s.node):
		k.lock.Unlock()
		return fmt.Errorf("instance %s: %w", id, failure{NeverAside})
	}
	took := k.span(Switching, s.node)
	k.ends(s)
	k.stop(s)
	k.lock.Unlock()
	if took == Forever {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	k.advance()
	if s = k.server(id); s == nil {
		return fmt.Errorf("there is no instance %q", id)
	}
	s.aside, s.address = true, ""
	k.log("set aside", nodeset.Of(s.node))
	return nil
}
