package machines_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// Room has the machines of the lab, each with its address and power switch.
type Room struct {
	server *http.Server

	lock   sync.Mutex
	faults map[string]fault    // by verb and node
	calls  map[string][]string // verbs by node, except queries of the state
}

// fault is the fault of some calls of a command.
type fault struct {
	hangs bool // the command hangs; otherwise it fails
	left  int  // the number of calls
}

var addresses = map[string]string{"ctl": "10.77.0.10", "node01": "10.77.0.11", "node02": "10.77.0.12"}

// listen makes the switches answer on loopback.
func (r *Room) listen() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{node}/{verb}", r.handle)
	r.server = &http.Server{Handler: mux, Addr: listener.Addr().String(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.server.Serve(listener) }() // until Close
	return nil
}

func (r *Room) handle(w http.ResponseWriter, q *http.Request) {
	node, verb := q.PathValue("node"), q.PathValue("verb")
	switch f := r.called(verb, node); {
	case f.left > 0 && f.hangs:
		<-q.Context().Done()
		return
	case f.left > 0:
		http.Error(w, "Error: Unable to establish IPMI v2 / RMCP+ session", http.StatusServiceUnavailable)
		return
	}
	err := error(nil)
	switch verb {
	case "on":
		address := netip.MustParseAddr(addresses[node])
		err = lab.Host.Boot(context.WithoutCancel(q.Context()), labcloud.Machine{
			ID: node, Name: node, ImageID: cluster.ImageID(cluster.ImageV1),
			Addresses: []labcloud.Address{{
				MAC: fmt.Sprintf("fa:16:3e:00:00:%02x", address.As4()[3]), Prefix: netip.PrefixFrom(address, 24),
				Gateway: netip.MustParseAddr("10.77.0.1"),
			}},
			AuthorizedKeys: []string{lab.Declaration.KeyPair.PublicKey},
		})
	case "off": // like a BMC, it answers at once
		go func() { _ = lab.Host.Stop(context.Background(), node) }()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	state := "off"
	if r.runs(node) {
		state = "on"
	}
	fmt.Fprintln(w, "Chassis Power is", state)
}

// called records a call and returns its fault.
func (r *Room) called(verb, node string) fault {
	r.lock.Lock()
	defer r.lock.Unlock()
	what := verb + " " + node
	if verb != "state" {
		r.calls[node] = append(r.calls[node], verb)
	}
	f := r.faults[what]
	if f.left > 0 {
		r.faults[what] = fault{f.hangs, f.left - 1}
	}
	return f
}

// order makes the next calls of a command fail or hang. The test fails if there were no such calls.
func (r *Room) order(t *testing.T, what string, f fault) {
	t.Helper()
	r.lock.Lock()
	defer r.lock.Unlock()
	r.faults[what] = f
	t.Cleanup(func() {
		r.lock.Lock()
		defer r.lock.Unlock()
		if left := r.faults[what].left; left > 0 {
			t.Errorf("%d calls of %q did not occur: the test proves nothing", left, what)
		}
		delete(r.faults, what)
	})
}

// of returns the verbs called for a node, except queries of the state.
func (r *Room) of(node string) []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.Clone(r.calls[node])
}

// runs reports whether a machine is switched on.
func (r *Room) runs(node string) bool {
	_, err := lab.Host.Root(node)
	return err == nil
}

// Servers returns the machines that are switched on.
func (r *Room) Servers() []labcloud.Server {
	var all []labcloud.Server
	for node, address := range addresses {
		if r.runs(node) {
			all = append(all, labcloud.Server{
				ID: node, Name: node, Status: "ACTIVE", Addresses: []netip.Addr{netip.MustParseAddr(address)},
			})
		}
	}
	return all
}

// Files returns none: declare writes the table of the machines.
func (r *Room) Files(string) map[string][]byte { return nil }

// Close closes the switches.
func (r *Room) Close(context.Context) error { return r.server.Close() }
