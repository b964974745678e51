package labcloud

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// operation is a change of a server that runs concurrently with requests.
type operation struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// noValidHost is the scheduler's error in Nova's words.
type noValidHost struct {
	why string // empty if no host is large enough
}

func (e noValidHost) Error() string { return "No valid host was found. " + e.why }

// noneLeft is the reason if the zone, the server group or the hints leave no host.
const noneLeft = "There are not enough hosts available."

// begin starts a change of a server. It calls work without the mutex, and then settle, with work's error and with the
// mutex locked. It omits settle if a later change, which can only be a deletion or a hard reboot, has replaced this
// one. A change begins when the previous one has ended, so that the hypervisor never has two for one machine. The
// caller holds the mutex.
//
// The change continues after the request.
func (c *Cloud) begin(ctx context.Context, s *server, work func(context.Context) error, settle func(error)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	before := s.operation
	op := &operation{cancel: cancel, done: make(chan struct{})}
	s.operation = op
	c.operations.Go(func() {
		defer close(op.done)
		defer cancel()
		if before != nil {
			select {
			case <-before.done:
			case <-c.closing:
				before.cancel()
				<-before.done
			}
		}
		err := work(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		if s.operation != op {
			return
		}
		if err != nil && !c.closed {
			c.cfg.Log.Warn("change of a server failed", "server", s.name, "task", s.task, "error", err)
		}
		settle(err)
		s.touch()
	})
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// after returns work that waits at least d before the hypervisor acts.
func after(d time.Duration, act func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := pause(ctx, d); err != nil {
			return err
		}
		return act(ctx)
	}
}

// unstuck returns work that waits until stuck is closed; if it is nil, the work does not wait.
func unstuck(stuck <-chan struct{}, work func(context.Context) error) func(context.Context) error {
	if stuck == nil {
		return work
	}
	return func(ctx context.Context) error {
		select {
		case <-stuck:
			return work(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settleAs is how most changes end: it sets the new state, or ERROR.
func (s *server) settleAs(vm vmState) func(error) {
	return func(err error) {
		if err != nil {
			s.fail(http.StatusInternalServerError, err.Error())
			return
		}
		s.vm, s.task, s.fault = vm, "", nil
	}
}

// beginBuild boots a new server. A server whose build fails has no host and no addresses.
func (c *Cloud) beginBuild(ctx context.Context, s *server) {
	m, noHost, zone := s.machine(), s.build.noValidHost, s.zone
	c.begin(ctx, s, unstuck(s.build.stuck, after(c.cfg.Timings.Build, func(ctx context.Context) error {
		switch {
		case zone == "":
			return noValidHost{noneLeft}
		case noHost:
			return noValidHost{}
		}
		return c.hypervisor.Boot(ctx, m)
	})), func(err error) {
		s.settleAs(vmActive)(err)
		if err != nil {
			c.disconnect(s.ports)
			s.ports = nil
			return
		}
		s.placed, s.launched = true, time.Now()
	})
}

// beginRebuild gives a server a new disk. Like Nova, it stops a server again that was stopped before.
func (c *Cloud) beginRebuild(ctx context.Context, s *server) {
	m, noHost, end := s.machine(), s.build.noValidHost, s.vm
	if end != vmStopped {
		end = vmActive
	}
	s.task = "rebuilding"
	c.begin(ctx, s, unstuck(s.build.stuck, after(c.cfg.Timings.Rebuild, func(ctx context.Context) error {
		if noHost {
			return noValidHost{}
		}
		if err := c.hypervisor.Rebuild(ctx, m); err != nil || end == vmActive {
			return err
		}
		return c.hypervisor.Stop(ctx, m.ID)
	})), func(err error) {
		s.settleAs(end)(err)
		if err == nil {
			s.launched = time.Now()
		}
	})
}

// beginReboot restarts a server; a hard reboot also starts a stopped one.
func (c *Cloud) beginReboot(ctx context.Context, s *server, hard bool) {
	s.task = "rebooting"
	if hard {
		s.task = "rebooting_hard"
	}
	c.begin(ctx, s, after(c.cfg.Timings.Reboot, func(ctx context.Context) error {
		return c.hypervisor.Reboot(ctx, s.id, hard)
	}), s.settleAs(vmActive))
}

// beginStart switches a server on.
func (c *Cloud) beginStart(ctx context.Context, s *server) {
	m := s.machine()
	s.task = "powering-on"
	c.begin(ctx, s, after(c.cfg.Timings.Power, func(ctx context.Context) error {
		return c.hypervisor.Boot(ctx, m)
	}), s.settleAs(vmActive))
}

// beginStop switches a server off.
func (c *Cloud) beginStop(ctx context.Context, s *server) {
	s.task = "powering-off"
	c.begin(ctx, s, after(c.cfg.Timings.Power, func(ctx context.Context) error {
		return c.hypervisor.Stop(ctx, s.id)
	}), s.settleAs(vmStopped))
}

// beginShelve switches a server off and removes it from its host. The machine keeps its disk, whereas Nova keeps an
// image of the disk. The quota still counts the server, as Nova's does by default.
func (c *Cloud) beginShelve(ctx context.Context, s *server) {
	s.task = "shelving"
	c.begin(ctx, s, after(c.cfg.Timings.Power+c.cfg.Timings.Snapshot, func(ctx context.Context) error {
		return c.hypervisor.Stop(ctx, s.id)
	}), s.settleAs(vmShelved))
}

// beginUnshelve gives a server a host and switches it on.
func (c *Cloud) beginUnshelve(ctx context.Context, s *server) {
	m := s.machine()
	s.task = "unshelving"
	c.begin(ctx, s, after(c.cfg.Timings.Build, func(ctx context.Context) error {
		return c.hypervisor.Boot(ctx, m)
	}), s.settleAs(vmActive))
}

// beginResize moves a server to another flavor, where it waits for a confirmation. As in Nova, a running machine is
// switched off and on.
func (c *Cloud) beginResize(ctx context.Context, s *server, to Flavor) {
	from := s.flavor
	s.beforeResize, s.task = s.vm, "resize_prep"
	c.claim(s, to)
	c.begin(ctx, s, c.cycle(s), func(err error) {
		s.settleAs(vmResized)(err)
		if err != nil {
			c.claim(s, from)
			return
		}
		s.oldFlavor, s.flavor = &from, to
	})
}

// beginRevert moves a server back to its old flavor.
func (c *Cloud) beginRevert(ctx context.Context, s *server) {
	s.task = "resize_reverting"
	to := *s.oldFlavor
	c.begin(ctx, s, c.cycle(s), func(err error) {
		s.settleAs(s.beforeResize)(err)
		if err == nil {
			c.claim(s, to)
			s.oldFlavor, s.flavor = nil, to
		}
	})
}

// claim sets the part of the quota that a server uses to that of a flavor.
func (c *Cloud) claim(s *server, f Flavor) {
	c.used = c.used.minus(s.claimed).plus(f.takes())
	s.claimed = f.takes()
}

// cycle switches a machine off and on, unless it was off before the resize.
func (c *Cloud) cycle(s *server) func(context.Context) error {
	m, off := s.machine(), s.beforeResize == vmStopped
	return after(c.cfg.Timings.Resize, func(ctx context.Context) error {
		if off {
			return nil
		}
		if err := c.hypervisor.Stop(ctx, m.ID); err != nil {
			return err
		}
		return c.hypervisor.Boot(ctx, m)
	})
}

// beginSnapshot makes a server's disk an image. A snapshot that fails leaves no image and does not change the server.
// The image reaches its final state even if the server is being deleted by then.
func (c *Cloud) beginSnapshot(ctx context.Context, s *server, i *imageRecord) {
	s.task = "image_snapshot"
	i.status = "queued"
	take := after(c.cfg.Timings.Snapshot, func(ctx context.Context) error {
		return c.hypervisor.Snapshot(ctx, s.id, i.id)
	})
	c.begin(ctx, s, func(ctx context.Context) error {
		err := take(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil {
			c.state.images.remove(i.id)
			return err
		}
		i.status, i.updated = "active", time.Now()
		return nil
	}, func(error) { s.task = "" })
}

// beginDelete deletes a server and the ports that Nova created for it. It cancels a running change. If the machine
// cannot be destroyed, the server stays in ERROR and may be deleted again.
func (c *Cloud) beginDelete(ctx context.Context, s *server) {
	if s.operation != nil {
		s.operation.cancel()
	}
	s.task = "deleting"
	c.begin(ctx, s, unstuck(c.faults.onDelete(s.name), after(c.cfg.Timings.Delete, func(ctx context.Context) error {
		return c.hypervisor.Destroy(ctx, s.id)
	})), func(err error) {
		if err != nil {
			s.fail(http.StatusInternalServerError, fmt.Sprintf("deleting: %s", err))
			return
		}
		c.disconnect(s.ports)
		c.used = c.used.minus(s.claimed)
		c.servers.remove(s.id)
	})
}
