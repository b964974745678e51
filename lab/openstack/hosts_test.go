package openstack

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
)

// TestWhichHostTheSchedulerChooses tests what docs/guides/failures.md says about a bad host: Nova chooses the host of a
// removed server again, and another one while that server is kept. Each of the two hosts is in its own zone.
func TestWhichHostTheSchedulerChooses(t *testing.T) {
	released(t)
	t.Attr("scenario", "two hosts: which one the scheduler chooses after a removal, beside a kept server, with hints, "+
		"in zones and for server groups")
	t.Run("cloud", func(t *testing.T) {
		cloud := start(t)
		_, err := cloud.AddHost(t.Context(), FirstHost, "north")
		check(t, err)
		remove, err := cloud.AddHost(t.Context(), "compute2", "south")
		check(t, err)
		s := newScheduler(t, cloud)

		// An empty host is as good as another one.
		first := s.create("", nil)
		before := s.zone(first)
		s.delete(first)
		first = s.create("", nil)
		if got := s.zone(first); got != before {
			t.Errorf("after a removal from %s, the next server is in %s", before, got)
		}
		check(t, servers.Stop(t.Context(), s.compute, first).ExtractErr())
		s.await(first, "SHUTOFF")
		second := s.create("", nil)
		if got := s.zone(second); got == before {
			t.Errorf("beside a stopped server, the next one is in %s too", got)
		}
		s.delete(second)

		// A host with more room is chosen, unless a hint forbids it.
		for range 3 {
			if got := s.zone(s.create(otherThan(before), nil)); got != otherThan(before) {
				t.Fatalf("a server of zone %s is in %s", otherThan(before), got)
			}
		}
		again := s.create("", nil)
		if got := s.zone(again); got != before {
			t.Errorf("%s has more room, but the server is in %s", before, got)
		}
		s.delete(again)
		hinted := s.create("", servers.SchedulerHintOpts{DifferentHost: []string{first}})
		if got := s.zone(hinted); got != otherThan(before) {
			t.Errorf("different_host as a server of %s gives %s", before, got)
		}
		s.clear()

		apart := s.group("anti-affinity")
		one, two := s.create("", apart), s.create("", apart)
		if s.zone(one) == s.zone(two) {
			t.Errorf("two servers of the group are in %s", s.zone(one))
		}
		if got := s.fault(apart); got != "No valid host was found. There are not enough hosts available." {
			t.Errorf("a third server of the group: %q", got)
		}
		s.clear()
		soft := s.group("soft-anti-affinity")
		one, two = s.create("", soft), s.create("", soft)
		if s.zone(one) == s.zone(two) {
			t.Errorf("two servers of the soft group are in %s", s.zone(one))
		}
		if third := s.create("", soft); s.zone(third) == "" {
			t.Error("a third server of the soft group has no host")
		}
		s.clear()

		check(t, remove(t.Context()))
		for range 2 {
			if got := s.zone(s.create("", nil)); got != "north" {
				t.Errorf("a server is in %s, whose host was removed", got)
			}
		}
	})
	nothingIsLeft(t)
}

// otherThan returns the other zone.
func otherThan(zone string) string {
	if zone == "north" {
		return "south"
	}
	return "north"
}

// scheduler makes servers, and asks for the zones of their hosts.
type scheduler struct {
	*testing.T
	compute       *gophercloud.ServiceClient
	image, flavor string
	made          []string
}

func newScheduler(t *testing.T, cloud *Cloud) *scheduler {
	t.Helper()
	s := &scheduler{T: t}
	var err error
	s.compute, err = newCompute(t.Context(), Member(cloud.cfg))
	check(t, err)
	image, err := newClient(t.Context(), Member(cloud.cfg), openstack.NewImageV2)
	check(t, err)
	pages, err := images.List(image, images.ListOpts{Name: "node-v1"}).AllPages(t.Context())
	check(t, err)
	found, err := images.ExtractImages(pages)
	check(t, err)
	pages, err = flavors.ListDetail(s.compute, nil).AllPages(t.Context())
	check(t, err)
	all, err := flavors.ExtractFlavors(pages)
	check(t, err)
	small := slices.IndexFunc(all, func(f flavors.Flavor) bool { return f.Name == "small" })
	s.image, s.flavor = found[0].ID, all[small].ID
	return s
}

// order asks for a server.
func (s *scheduler) order(zone string, hints servers.SchedulerHintOptsBuilder) string {
	s.Helper()
	made, err := servers.Create(s.Context(), s.compute, servers.CreateOpts{
		Name: fmt.Sprint("server", len(s.made)), ImageRef: s.image, FlavorRef: s.flavor, Networks: "none",
		AvailabilityZone: zone,
	}, hints).Extract()
	check(s, err)
	s.made = append(s.made, made.ID)
	return made.ID
}

// await waits for a state of a server.
func (s *scheduler) await(id, status string) *servers.Server {
	s.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		got, err := servers.Get(s.Context(), s.compute, id).Extract()
		check(s, err)
		if got.Status == status {
			return got
		}
		if time.Now().After(end) {
			s.Fatalf("server %s is %s, not %s: %s", id, got.Status, status, got.Fault.Message)
		}
	}
}

// create makes a server; hints are nil or some.
func (s *scheduler) create(zone string, hints servers.SchedulerHintOptsBuilder) string {
	s.Helper()
	id := s.order(zone, hints)
	s.await(id, "ACTIVE")
	return id
}

// fault asks for a server that gets no host, and returns the reason.
func (s *scheduler) fault(hints servers.SchedulerHintOptsBuilder) string {
	s.Helper()
	return s.await(s.order("", hints), "ERROR").Fault.Message
}

// zone returns the zone of a server's host.
func (s *scheduler) zone(id string) string {
	s.Helper()
	got, err := servers.Get(s.Context(), s.compute, id).Extract()
	check(s, err)
	return got.AvailabilityZone
}

func (s *scheduler) group(policy string) servers.SchedulerHintOpts {
	s.Helper()
	g, err := servergroups.Create(s.Context(), s.compute, servergroups.CreateOpts{Name: policy, Policy: policy}).Extract()
	check(s, err)
	return servers.SchedulerHintOpts{Group: g.ID}
}

// delete returns when the server has left its host.
func (s *scheduler) delete(id string) {
	s.Helper()
	check(s, servers.Delete(s.Context(), s.compute, id).ExtractErr())
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		_, err := servers.Get(s.Context(), s.compute, id).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			break
		}
		if time.Now().After(end) {
			s.Fatalf("server %s is still there: %v", id, err)
		}
	}
	s.made = slices.DeleteFunc(s.made, func(m string) bool { return m == id })
}

// clear deletes all servers.
func (s *scheduler) clear() {
	s.Helper()
	for _, id := range slices.Clone(s.made) {
		s.delete(id)
	}
}
