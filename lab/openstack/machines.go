package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// machines are the machines behind a cloud's servers. Nova's driver (etc/python/virt/eiffel.py) calls them by HTTP,
// with the server's id as path.
type machines struct {
	labcloud.Hypervisor

	mu    sync.Mutex
	specs map[string]placed
	on    map[string]bool
	// broken has the names of the machines that booted on each broken host.
	broken map[string][]string
	// stuck has channels by name, each of which is closed when boots of machines with this name may continue.
	stuck map[string]chan struct{}
}

// placed is a machine on a host.
type placed struct {
	labcloud.Machine
	Host string
}

func newMachines(h labcloud.Hypervisor) *machines {
	return &machines{
		Hypervisor: h, specs: map[string]placed{}, on: map[string]bool{}, broken: map[string][]string{},
		stuck: map[string]chan struct{}{},
	}
}

// serve serves the machines on loopback, where only the cloud's driver knows the port.
func serve(m *machines) (*http.Server, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	mux := http.NewServeMux()
	for pattern, do := range map[string]func(context.Context, string, io.Reader) (string, error){
		"GET /{id}/machines": m.list, "PUT /{id}": m.boot, "DELETE /{id}": m.destroy, "GET /{id}/console": m.console,
		"POST /{id}/start": m.start, "POST /{id}/stop": m.stop,
		"POST /{id}/reboot": m.reboot(false), "POST /{id}/reset": m.reboot(true),
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := do(r.Context(), r.PathValue("id"), r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, answer) // a driver that has disconnected needs no answer
		})
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return server, "http://" + listener.Addr().String(), nil
}

// list returns the machines of a host, and whether each is switched on.
func (m *machines) list(_ context.Context, host string, _ io.Reader) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	on := map[string]bool{}
	for id, spec := range m.specs {
		if spec.Host == host {
			on[id] = m.on[id]
		}
	}
	text, err := json.Marshal(on)
	return string(text), err
}

// boot makes a machine with a fresh disk, also for a rebuild by Nova, which destroys the old machine first.
func (m *machines) boot(ctx context.Context, id string, body io.Reader) (string, error) {
	var spec placed
	if err := json.NewDecoder(body).Decode(&spec); err != nil {
		return "", err
	}
	m.mu.Lock()
	stuck := m.stuck[spec.Name]
	if names, broken := m.broken[spec.Host]; broken {
		m.broken[spec.Host] = append(names, spec.Name)
		spec.Flags = map[string]bool{labcloud.FlagFullDisk: true}
	}
	m.mu.Unlock()
	if stuck != nil {
		select {
		case <-stuck:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if err := m.Boot(ctx, spec.Machine); err != nil {
		return "", err
	}
	m.set(id, spec, true)
	return "", nil
}

func (m *machines) set(id string, spec placed, on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.specs[id], m.on[id] = spec, on
}

func (m *machines) spec(id string) (placed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec, ok := m.specs[id]
	if !ok {
		return spec, fmt.Errorf("there is no machine %s", id)
	}
	return spec, nil
}

func (m *machines) start(ctx context.Context, id string, _ io.Reader) (string, error) {
	spec, err := m.spec(id)
	if err == nil {
		err = m.Boot(ctx, spec.Machine)
	}
	if err == nil {
		m.set(id, spec, true)
	}
	return "", err
}

func (m *machines) stop(ctx context.Context, id string, _ io.Reader) (string, error) {
	spec, err := m.spec(id)
	if err == nil {
		err = m.Stop(ctx, id)
	}
	if err == nil {
		m.set(id, spec, false)
	}
	return "", err
}

func (m *machines) reboot(hard bool) func(context.Context, string, io.Reader) (string, error) {
	return func(ctx context.Context, id string, _ io.Reader) (string, error) {
		spec, err := m.spec(id)
		if err == nil {
			err = m.Reboot(ctx, id, hard)
		}
		if err == nil {
			m.set(id, spec, true)
		}
		return "", err
	}
}

func (m *machines) destroy(ctx context.Context, id string, _ io.Reader) (string, error) {
	if err := m.Destroy(ctx, id); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.specs, id)
	delete(m.on, id)
	return "", nil
}

// console returns the whole console; Nova cuts it.
func (m *machines) console(_ context.Context, id string, _ io.Reader) (string, error) {
	return m.Console(id, 0)
}

// HoldBoots makes the boots of machines with this name wait until the returned function is called. Nova's servers stay
// in BUILD meanwhile.
func (c *Cloud) HoldBoots(name string) (release func(), err error) {
	m := c.machines
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stuck[name] != nil {
		return nil, errors.New("the boots of " + name + " are held already")
	}
	held := make(chan struct{})
	m.stuck[name] = held
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.stuck, name)
		close(held)
	}), nil
}
