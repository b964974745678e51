package labcloud_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

func TestTheSchedulerObeysZonesGroupsAndHints(t *testing.T) {
	cfg := configuration()
	cfg.Zones = []string{"north", "south"}
	f := newFixture(t, cfg, labcloud.Null{})
	group := func(policy string) string {
		g, err := servergroups.Create(f.Context(), f.compute, servergroups.CreateOpts{Name: policy, Policy: policy}).Extract()
		f.must(err)
		return g.ID
	}
	made := map[string]*servers.Server{}
	create := func(name, zone string, hints servers.SchedulerHintOpts) (string, error) {
		s, err := servers.Create(f.Context(), f.compute, servers.CreateOpts{
			Name: name, ImageRef: imageV1, FlavorRef: "flavor-small", Networks: "none", AvailabilityZone: zone,
		}, hints).Extract()
		if err != nil {
			return "", err
		}
		for made[name] = s; made[name].Status != "ACTIVE"; {
			made[name], err = servers.Get(f.Context(), f.compute, s.ID).Extract()
			f.must(err)
			if made[name].Status == "ERROR" {
				return "", errors.New(made[name].Fault.Message)
			}
		}
		return made[name].AvailabilityZone, nil
	}
	want := func(name, zone, want string, hints servers.SchedulerHintOpts) {
		t.Helper()
		if got, err := create(name, zone, hints); err != nil || got != want {
			t.Errorf("%s is in %q, want %q, error %v", name, got, want, err)
		}
	}
	none := servers.SchedulerHintOpts{}
	want("anywhere", "", "north", none)
	want("asked", "south", "south", none)
	if made["anywhere"].HostID == made["asked"].HostID {
		t.Error("both zones have the same host")
	}
	_, err := create("nowhere", "moon", none)
	f.wantCode(err, http.StatusBadRequest, "The requested availability zone is not available")
	want("different", "", "south", servers.SchedulerHintOpts{DifferentHost: []string{made["anywhere"].ID}})
	want("same", "", "south", servers.SchedulerHintOpts{SameHost: []string{made["asked"].ID}})

	soft := servers.SchedulerHintOpts{Group: group("soft-anti-affinity")}
	want("soft1", "", "north", soft)
	want("soft2", "", "south", soft)
	want("soft3", "", "north", soft)
	close := servers.SchedulerHintOpts{Group: group("affinity")}
	want("close1", "south", "south", close)
	want("close2", "", "south", close)
	apart := servers.SchedulerHintOpts{Group: group("anti-affinity")}
	want("apart1", "", "north", apart)
	want("apart2", "", "south", apart)
	if zone, err := create("apart3", "", apart); err == nil || !strings.Contains(err.Error(), "No valid host was found") {
		t.Errorf("a third server of a group that keeps them apart is in %q, error %v", zone, err)
	}
	const unknown = "11111111-2222-4333-8444-555555555555"
	_, err = create("ungrouped", "", servers.SchedulerHintOpts{Group: unknown})
	f.wantCode(err, http.StatusBadRequest, "could not be found")

	pages, err := servergroups.List(f.compute, servergroups.ListOpts{}).AllPages(f.Context())
	f.must(err)
	all, err := servergroups.ExtractServerGroups(pages)
	f.must(err)
	i := slices.IndexFunc(all, func(g servergroups.ServerGroup) bool { return g.ID == close.Group })
	if len(all) != 3 || len(all[i].Members) != 2 {
		t.Errorf("server groups: %+v", all)
	}
	f.must(servergroups.Delete(f.Context(), f.compute, close.Group).ExtractErr())
	err = servergroups.Delete(f.Context(), f.compute, close.Group).ExtractErr()
	f.wantCode(err, http.StatusNotFound, "could not be found")
}
