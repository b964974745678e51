package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// grace is the time that a machine has to shut down by itself before it is switched off. A compute service gives its
// instances a minute; nothing that runs in the lab needs more than a few seconds.
const grace = 10 * time.Second

// machine is the disk of one server and, while it is switched on, its life. mu serializes the calls for one machine,
// and its own restarts.
type machine struct {
	dir string

	mu        sync.Mutex
	spec      labcloud.Machine
	layers    []string // of the image that the disk was made from
	life      *life    // nil while switched off
	destroyed bool
}

func (m *machine) consoleLog() string { return filepath.Join(m.dir, "console.log") }
func (m *machine) disk() string       { return filepath.Join(m.dir, "disk") }
func (m *machine) upper() string      { return filepath.Join(m.disk(), "upper") }

// Boot implements [labcloud.Hypervisor].
func (h *Host) Boot(ctx context.Context, spec labcloud.Machine) error {
	m, err := h.machineFor(spec.ID)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != nil && m.life.runs() {
		return nil
	}
	m.switchOff() // waits for the remains of it
	if m.layers == nil {
		if err := h.makeDisk(m, spec.ImageID); err != nil {
			return fmt.Errorf("boot %s: %w", spec.Name, err)
		}
	}
	m.spec = spec
	return h.switchOn(ctx, m)
}

// Rebuild implements [labcloud.Hypervisor].
func (h *Host) Rebuild(ctx context.Context, spec labcloud.Machine) error {
	m, err := h.machineFor(spec.ID)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.switchOff()
	if err := h.makeDisk(m, spec.ImageID); err != nil {
		return fmt.Errorf("rebuild %s: %w", spec.Name, err)
	}
	m.spec = spec
	return h.switchOn(ctx, m)
}

// Reboot implements [labcloud.Hypervisor].
func (h *Host) Reboot(ctx context.Context, id string, hard bool) error {
	m := h.machine(id)
	if m == nil {
		return fmt.Errorf("reboot %s: no such machine", id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.layers == nil {
		return fmt.Errorf("reboot %s: it was never booted", id)
	}
	if !hard {
		m.shutDown(ctx, syscall.SIGINT) // init's ctrlaltdel
	}
	m.switchOff()
	return h.switchOn(ctx, m)
}

// Stop implements [labcloud.Hypervisor]. The machine's services may stop first.
func (h *Host) Stop(ctx context.Context, id string) error {
	m := h.machine(id)
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shutDown(ctx, syscall.SIGPWR) // init's powerfail
	m.switchOff()
	return nil
}

// Cut disconnects a running machine from its networks, or connects it again.
func (h *Host) Cut(id string, off bool) error {
	m := h.machine(id)
	if m == nil {
		return fmt.Errorf("cut off: there is no machine %s", id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil {
		return fmt.Errorf("cut off: %s is switched off", m.spec.Name)
	}
	return h.network.cut(m.life.ports, off)
}

// Destroy implements [labcloud.Hypervisor].
func (h *Host) Destroy(_ context.Context, id string) error {
	m := h.machine(id)
	if m == nil {
		return nil
	}
	if err := h.destroy(m); err != nil {
		return fmt.Errorf("destroy %s: %w", id, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.machines, id)
	return nil
}

func (h *Host) destroy(m *machine) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.switchOff()
	m.destroyed = true
	return removeAll(m.dir)
}

// Console implements [labcloud.Hypervisor].
func (h *Host) Console(id string, lines int) (string, error) {
	m := h.machine(id)
	if m == nil {
		return "", nil
	}
	return readConsole(m.consoleLog(), lines)
}

// Snapshot implements [labcloud.Hypervisor].
func (h *Host) Snapshot(ctx context.Context, id, imageID string) error {
	m := h.machine(id)
	if m == nil {
		return fmt.Errorf("snapshot %s: no such machine", id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.layers == nil {
		return fmt.Errorf("snapshot %s: it was never booted", id)
	}
	if err := h.cfg.Images.Snapshot(ctx, imageID, m.layers, m.upper()); err != nil {
		return fmt.Errorf("snapshot %s: %w", id, err)
	}
	return nil
}

// makeDisk creates an empty layer above the image, for a machine that is switched off.
func (h *Host) makeDisk(m *machine, imageID string) error {
	if m.destroyed {
		return errors.New("it was destroyed")
	}
	layers, err := h.cfg.Images.Layers(imageID)
	if err != nil {
		return err
	}
	m.layers = nil
	if err := removeAll(m.dir); err != nil {
		return err
	}
	for _, dir := range []string{m.upper(), filepath.Join(m.disk(), "work"), filepath.Join(m.dir, "root"),
		filepath.Join(m.dir, "seed")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make disk: %w", err)
		}
	}
	m.layers = layers
	return nil
}

// switchOn starts the machine and a goroutine that restarts it when it reboots. The caller has locked m.mu.
func (h *Host) switchOn(ctx context.Context, m *machine) error {
	l, err := h.begin(ctx, m)
	if err != nil {
		return fmt.Errorf("boot %s: %w", m.spec.Name, err)
	}
	m.life = l
	// The machine outlives the call that starts it.
	ctx = context.WithoutCancel(ctx)
	h.watches.Go(func() { h.watch(ctx, m, l) })
	return nil
}

// watch waits for the end of a life, and starts the next one if the machine has rebooted itself.
func (h *Host) watch(ctx context.Context, m *machine, l *life) {
	<-l.ended
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != l {
		return // it was switched off from outside
	}
	m.life = nil
	h.cfg.Log.Info("machine ended by itself", "name", m.spec.Name, "id", m.spec.ID, "reboots", l.rebooted())
	if !l.rebooted() {
		return
	}
	if err := h.switchOn(ctx, m); err != nil {
		h.cfg.Log.Error("machine does not restart", "name", m.spec.Name, "id", m.spec.ID, "error", err)
	}
}

// switchOff ends the machine's life at once, if it has one. The caller has locked m.mu.
func (m *machine) switchOff() {
	if m.life == nil {
		return
	}
	m.life.kill()
	m.life = nil
}

// shutDown makes the machine's init end its services, and waits until the machine has ended, at most for grace. The
// caller has locked m.mu.
func (m *machine) shutDown(ctx context.Context, request syscall.Signal) {
	if m.life == nil || !m.life.signal(request) {
		return
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-m.life.ended:
	case <-patience.C:
	case <-ctx.Done():
	}
}
