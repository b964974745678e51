package machine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// Images provides the disks of machines.
type Images interface {
	// Layers returns the folders that an image consists of, lowest first. They MUST stay unchanged while a machine of
	// that image exists.
	Layers(id string) ([]string, error)
	// Snapshot creates the image id from the layers, lowest first, and a copy of upper, to which a running machine MAY
	// write at the same time.
	Snapshot(ctx context.Context, id string, layers []string, upper string) error
}

// Config is the configuration of a lab's host.
type Config struct {
	// Name identifies the lab on this computer: up to eleven lower-case letters, digits and hyphens. The host's
	// link to the lab is called "lab-" + Name.
	Name string
	// Dir has the machines' disks and consoles. It belongs to this lab alone, and is removed by Close.
	Dir string
	// Gateway is the host's address on the lab's network, with the length of
	// the network's prefix.
	Gateway netip.Prefix
	// Images has the images from which machines can boot.
	Images Images
	// Log gets messages about machines that reboot or switch themselves off.
	Log *slog.Logger
}

// Host is the hypervisor of one lab; it implements [labcloud.Hypervisor] and is
// safe for concurrent use. Its process needs root.
type Host struct {
	cfg     Config
	claim   net.Listener
	network *network
	starter *starter
	cables  atomic.Int64
	watches sync.WaitGroup

	mu       sync.Mutex
	machines map[string]*machine
	volumes  map[string]volume // by machine id
}

var _ labcloud.Hypervisor = (*Host)(nil)

// New creates the lab's network and an empty host. Before that, it removes what remains of a crashed lab with the same
// name and folder. A running lab of that name is an error.
func New(cfg Config) (_ *Host, err error) {
	claim, err := claimName(cfg.Name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, claim.Close())
		}
	}()
	if err := sweep(cfg.Name, cfg.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder of lab %s: %w", cfg.Name, err)
	}
	n, err := newNetwork(cfg.Name, cfg.Gateway)
	if err != nil {
		return nil, fmt.Errorf("make network of lab %s: %w", cfg.Name, err)
	}
	return &Host{
		cfg:      cfg,
		claim:    claim,
		network:  n,
		starter:  newStarter(),
		machines: make(map[string]*machine),
		volumes:  make(map[string]volume),
	}, nil
}

// AddAddress gives this computer another address on the lab's network, which no machine may have. Close removes it.
func (h *Host) AddAddress(address netip.Addr) error { return h.network.addAddress(address) }

// volume is a folder of this computer that is mounted in a machine at another path.
type volume struct{ dir, path string }

// environ returns the environment for the stage.
func (v volume) environ() []string { return []string{"VOLUME=" + v.dir, "MOUNT=" + v.path} }

// AddVolume makes a folder of this computer available in a machine at an absolute path, from its next boot on. A
// machine has at most one volume.
func (h *Host) AddVolume(id, dir, path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.volumes[id] = volume{dir, path}
}

func (h *Host) volume(id string) volume {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.volumes[id]
}

// Close destroys all machines and removes the network and the folder. The host
// cannot be used afterwards.
func (h *Host) Close() error {
	h.mu.Lock()
	var all []*machine
	for _, m := range h.machines {
		all = append(all, m)
	}
	h.mu.Unlock()
	errs := make([]error, len(all))
	var destroyed sync.WaitGroup
	for i, m := range all {
		destroyed.Go(func() { errs[i] = h.destroy(m) })
	}
	destroyed.Wait()
	h.watches.Wait()
	h.starter.stop()
	errs = append(errs, h.network.close(), removeGroups(linkName(h.cfg.Name)), removeAll(h.cfg.Dir), h.claim.Close())
	return errors.Join(errs...)
}

// Cleanup removes what remains of a crashed lab. A running lab is an error, and nothing to remove is a success.
func Cleanup(name, dir string) error {
	claim, err := claimName(name)
	if err != nil {
		return err
	}
	return errors.Join(sweep(name, dir), claim.Close())
}

func sweep(name, dir string) error {
	return errors.Join(removeLink(linkName(name)), removeGroups(linkName(name)), removeAll(dir))
}

// claimName reserves the lab's name for this process. The claim is a socket in the abstract namespace (unix(7)), which
// exists as long as the process, in the same network namespace as the lab's link.
func claimName(name string) (net.Listener, error) {
	// An interface's name has at most 15 bytes.
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,10})$`).MatchString(name) {
		return nil, fmt.Errorf("lab name %q: want up to eleven of a-z, 0-9 and -", name)
	}
	claim, err := net.Listen("unix", "@eiffel-lab/"+name)
	if err != nil {
		return nil, fmt.Errorf("lab %s runs already: %w", name, err)
	}
	return claim, nil
}

// removeAll removes a folder to which killed processes may still write.
func removeAll(dir string) error {
	var err error
	for range 3 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	return fmt.Errorf("remove %s: %w", dir, err)
}

// machine returns the machine with the id; nil if there is none.
func (h *Host) machine(id string) *machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machines[id]
}

// machineFor returns the machine with the id, and creates it if there is none.
func (h *Host) machineFor(id string) (*machine, error) {
	if id == "" || id != filepath.Base(id) || id[0] == '.' {
		return nil, fmt.Errorf("machine %q: not usable as an id", id)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m, ok := h.machines[id]
	if !ok {
		m = &machine{dir: filepath.Join(h.cfg.Dir, id)}
		h.machines[id] = m
	}
	return m, nil
}
