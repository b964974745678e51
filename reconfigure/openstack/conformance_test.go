package openstack

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// TestClientIsACloud holds the client to the contract that the engine's tests rely on. A server of another cluster is
// there all the time.
func TestClientIsACloud(t *testing.T) {
	enginetest.Cloud(t, func(t *testing.T) enginetest.CloudHarness {
		boots := &bootCounter{boots: map[string]int{}, consoles: map[string][]string{}}
		l := newLab(t, boots)
		l.create("node1", "another", "ACTIVE")
		network, err := one(l.client.findNetwork(t.Context(), "cluster"))
		if err != nil {
			t.Fatal(err)
		}
		return enginetest.CloudHarness{
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

// TestClientIsASweeper has a server of another cluster beside those that are swept.
func TestClientIsASweeper(t *testing.T) {
	enginetest.Sweeper(t, func(t *testing.T) enginetest.SweeperHarness {
		l := newLab(t, labcloud.Null{})
		l.create("node1", "another", "ACTIVE")
		stray := func(node string) string { return l.create(node, "eiffel", "ACTIVE").ID }
		return enginetest.SweeperHarness{Sweeper: l.client, Stray: stray}
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
