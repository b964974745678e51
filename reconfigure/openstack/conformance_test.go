package openstack

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// TestClientIsACloud holds the client to the contract of operations. A server of another cluster is there all the time.
func TestClientIsACloud(t *testing.T) {
	simulate.ConformCloud(t, func(t *testing.T) simulate.CloudSetup {
		boots := &bootCounter{boots: map[string]int{}, consoles: map[string][]string{}}
		l := newLab(t, boots)
		l.create("node1", "another", "ACTIVE")
		network, err := one(l.client.findNetwork(t.Context(), "cluster"))
		if err != nil {
			t.Fatal(err)
		}
		return simulate.CloudSetup{
			Cloud:    l.client,
			Source:   reconfigure.Source{Image: "node-v1", Flavor: "small", Network: "cluster"},
			Resolved: reconfigure.Resolved{ImageID: imageV1, FlavorID: "42", NetworkID: network},
			Make:     func(node string) string { return l.create(node, "eiffel", "ACTIVE").ID },
			Break: func(node string) string {
				if _, err := l.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: node}); err != nil {
					t.Fatal(err)
				}
				return l.create(node, "eiffel", "ERROR").ID
			},
			Print: boots.print,
			Boots: boots.of,
		}
	})
}

// bootCounter is a hypervisor that counts reboots, and has consoles on which the tests print.
type bootCounter struct {
	labcloud.Null
	lock     sync.Mutex
	boots    map[string]int
	consoles map[string][]string // by lines
}

func (b *bootCounter) Console(id string, lines int) (string, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	all := b.consoles[id]
	if lines > 0 {
		all = all[max(0, len(all)-lines):]
	}
	return strings.Join(all, ""), nil
}

func (b *bootCounter) print(id, text string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.consoles[id] = append(b.consoles[id], slices.Collect(strings.Lines(text))...)
}

func (b *bootCounter) Reboot(_ context.Context, id string, _ bool) error {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.boots[id]++
	return nil
}

func (b *bootCounter) of(id string) int {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.boots[id]
}
