package openstack

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// as returns a client of the cluster with this id.
func (l *lab) as(identity reconfigure.Identity) *Client {
	c := *l.client
	c.config.Identity = identity
	return &c
}

// names returns the nodes in a client's list.
func names[T any](t *testing.T, all map[string][]T, err error) []string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(all))
}

func TestTheNameOfAClusterIsNotEnough(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	l.create("own", "eiffel", "ACTIVE")
	l.create("other", "another", "ACTIVE")
	l.create("former", "", "ACTIVE")
	for name, test := range map[string]struct {
		identity reconfigure.Identity
		want     []string
	}{
		"marked":         {reconfigure.Identity{ID: "eiffel", Marked: true}, []string{"own"}},
		"not yet marked": {reconfigure.Identity{ID: "eiffel"}, []string{"former", "own"}},
		"without an id":  {reconfigure.Identity{}, []string{"former"}},
	} {
		servers, err := l.as(test.identity).Servers(t.Context(), nodeset.NodeSet{})
		if diff := cmp.Diff(test.want, names(t, servers, err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	others, err := l.client.Namesakes(t.Context())
	if diff := cmp.Diff([]string{"", "another"}, names(t, others, err)); diff != "" {
		t.Error(diff)
	}
}

func TestInstancesAndPortsOfEarlierVersionsAreMarkedOnce(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	mine, stranger := l.create("node1", "", "ACTIVE"), l.create("node1", "", "ACTIVE")
	other := l.create("node1", "another", "ACTIVE")
	port, strange := l.port("node1", "Slurm cluster eiffel"), l.port("node1", "Slurm cluster eiffel")
	elsewhere := l.port("node1", "Slurm cluster id another")
	c := l.as(reconfigure.Identity{ID: "new"})
	for range 2 {
		rest, err := c.Mark(t.Context(), []string{mine.ID, other.ID, absent}, []string{port, elsewhere, absent})
		if err != nil || len(rest) != 1 || rest[0].ID != stranger.ID {
			t.Fatalf("rest %v, error %v", rest, err)
		}
	}
	for id, want := range map[string]string{mine.ID: "new", stranger.ID: "", other.ID: "another"} {
		s, err := servers.Get(t.Context(), l.client.compute, id).Extract()
		if err != nil || s.Metadata[idKey] != want || s.Metadata[groupKey] != "standard" {
			t.Errorf("server %s: %v, error %v", id, s.Metadata, err)
		}
	}
	for id, want := range map[string]string{
		port: "Slurm cluster id new", strange: "Slurm cluster eiffel", elsewhere: "Slurm cluster id another",
	} {
		p, err := ports.Get(t.Context(), l.client.network, id).Extract()
		if err != nil || p.Description != want {
			t.Errorf("port %s: %q, error %v", id, p.Description, err)
		}
	}
}

// port makes a port with a description.
func (l *lab) port(name, description string) (id string) {
	l.Helper()
	networks, err := l.client.findNetwork(l.Context(), "cluster")
	if err != nil {
		l.Fatal(err)
	}
	p, err := ports.Create(l.Context(), l.client.network, ports.CreateOpts{
		Name: name, Description: description, NetworkID: networks[0],
	}).Extract()
	if err != nil {
		l.Fatal(err)
	}
	return p.ID
}

func TestRemovePortRemovesJustThatPort(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	const mark = "Slurm cluster id eiffel"
	leaked, young, other := l.port("node1", mark), l.port("node1", mark), l.port("node1", "Slurm cluster id another")
	former := l.port("node1", "Slurm cluster eiffel")
	s := l.create("node2", "eiffel", "ACTIVE")
	used, err := l.client.Port(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	description := mark
	update := ports.UpdateOpts{Description: &description}
	if _, err := ports.Update(t.Context(), l.client.network, used, update).Extract(); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	for _, refused := range []struct {
		id, name, want string
		before         time.Time
	}{
		{young, "node1", "too recent", time.Now().Add(-time.Hour)},
		{young, "node3", "its name is", later},
		{other, "node1", "does not have the id", later},
		{former, "node1", "does not have the id", later},
		{used, "", "uses it", later},
	} {
		err := l.client.RemovePort(t.Context(), refused.id, refused.name, refused.before)
		if err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%s: %v", refused.want, err)
		}
	}
	for range 2 {
		if err := l.client.RemovePort(t.Context(), leaked, "node1", later); err != nil {
			t.Error(err)
		}
	}
	all, err := l.client.Ports(t.Context())
	if err != nil || len(all["node1"]) != 1 || all["node1"][0].ID != young || all["node1"][0].Created.IsZero() {
		t.Errorf("ports %+v, error %v", all, err)
	}
	if in := all[""]; len(in) != 1 || in[0].Server != s.ID {
		t.Errorf("ports in use %+v", in)
	}
}
