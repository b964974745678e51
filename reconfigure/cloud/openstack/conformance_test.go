package openstack

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/cloudtest"
)

// TestClientIsACloud tests the client with the contract's suite. The cloud always has a server of another cluster.
func TestClientIsACloud(t *testing.T) {
	cloudtest.TestCloud(t, func(t *testing.T) cloudtest.CloudSetup {
		boots := &bootCounter{boots: map[string]int{}, consoles: map[string][]string{}}
		l := newLab(t, boots)
		l.create("node1", "another", "ACTIVE")
		network, err := one(l.client.findNetwork(t.Context(), "cluster"))
		if err != nil {
			t.Fatal(err)
		}
		return cloudtest.CloudSetup{
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

// TestClientMakesImages tests the client with the contract's suite.
func TestClientMakesImages(t *testing.T) {
	cloudtest.TestImages(t, func(t *testing.T) cloudtest.ImagesSetup {
		camera := &camera{saved: make(chan struct{})}
		l := newTimedLab(t, camera, labcloud.Timings{})
		return cloudtest.ImagesSetup{
			Images: l.client,
			Make: func(node string) reconfigure.Instance {
				return reconfigure.Instance{Node: node, ID: l.create(node, "eiffel", "ACTIVE").ID}
			},
			Saved: func() { close(camera.saved) },
			Lose: func(id string) {
				if err := images.Delete(t.Context(), l.client.images, id).ExtractErr(); err != nil {
					t.Fatal(err)
				}
			},
			Foreign: func(name string) {
				id := l.create("node2", "another", "ACTIVE").ID
				if err := servers.CreateImage(t.Context(), l.client.compute, id, servers.CreateImageOpts{
					Name: name, Metadata: map[string]string{"eiffel_cluster_id": "another", "eiffel_request": "7"},
				}).Err; err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// camera is a hypervisor whose snapshots all end at the same time.
type camera struct {
	labcloud.Null
	saved chan struct{}
}

func (c *camera) Snapshot(ctx context.Context, _, _ string) error {
	select {
	case <-c.saved:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestImageWhoseAnswerIsLostIsBegunOnce loses Nova's answer, after which the call is repeated.
func TestImageWhoseAnswerIsLostIsBegunOnce(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	node := reconfigure.Instance{Node: "node1", ID: l.create("node1", "eiffel", "ACTIVE").ID}
	l.order(labcloud.LostAnswer, "POST servers/{id}/action createImage", 1)
	image, err := l.client.CreateImage(t.Context(), node, "fresh", 7)
	if err != nil || image.Request != 7 || image.Node != "node1" {
		t.Errorf("image %+v, error %v", image, err)
	}
	all, err := l.client.Images(t.Context())
	same := 0
	for _, i := range all {
		if i.Name == "fresh" {
			same++
		}
	}
	if err != nil || same != 1 {
		t.Errorf("%d images in %+v, error %v", same, all, err)
	}
}

// TestImageThatIsRefusedSaysWhy makes Nova reject the call, as for a quota.
func TestImageThatIsRefusedSaysWhy(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	node := reconfigure.Instance{Node: "node1", ID: l.create("node1", "eiffel", "ACTIVE").ID}
	l.order(labcloud.QuotaExceeded, "POST servers/{id}/action createImage", 1)
	_, err := l.client.CreateImage(t.Context(), node, "fresh", 7)
	if reconfigure.ClassOf(err) != reconfigure.ClassQuota || !strings.Contains(err.Error(), "uota exceeded") {
		t.Errorf("error %v of class %s", err, reconfigure.ClassOf(err))
	}
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
