package openstack

import (
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

var _ operation.Keeper = (*Client)(nil)

// createOn makes a server of the cluster with a port.
func (l *lab) createOn(port *ports.Port, node string) *servers.Server {
	l.Helper()
	s, err := servers.Create(l.Context(), l.client.compute, servers.CreateOpts{
		Name: node, ImageRef: imageV1, FlavorRef: "42", Networks: []servers.Network{{Port: port.ID}},
		Metadata: map[string]string{"eiffel_cluster": "eiffel", "eiffel_cluster_id": "eiffel"},
	}, nil).Extract()
	if err != nil {
		l.Fatal(err)
	}
	if err := l.client.awaitActive(l.Context(), s.ID); err != nil {
		l.Fatal(err)
	}
	return s
}

// TestServerIsSetAside sets a server aside, twice, and makes another one with its port.
func TestServerIsSetAside(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	networks, err := l.client.findNetwork(t.Context(), "cluster")
	if err != nil {
		t.Fatal(err)
	}
	port, err := ports.Create(t.Context(), l.client.network, ports.CreateOpts{
		NetworkID: networks[0], Name: "node1",
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	failed := l.createOn(port, "node1")
	for range 2 {
		if err := l.client.SetAside(t.Context(), failed.ID); err != nil {
			t.Fatal(err)
		}
	}
	other := l.createOn(port, "node1")
	all, err := l.client.Servers(t.Context(), nodeset.Of("node1"))
	if err != nil || len(all["node1"]) != 2 {
		t.Fatalf("servers %+v, error %v", all, err)
	}
	for _, s := range all["node1"] {
		if first := s.ID == failed.ID; s.Aside != first || s.Active() == first || (s.Address == "") != first {
			t.Errorf("with the first server %s set aside there is %+v", failed.ID, s)
		}
	}
	if err := l.client.RemoveServer(t.Context(), failed.ID, "node1", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if id, err := l.client.Port(t.Context(), other.ID); err != nil || id != port.ID {
		t.Errorf("port %s, error %v", id, err)
	}
}

func TestServerOfAnotherClusterIsNotSetAside(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	s := l.create("node1", "another", string(reconfigure.ServerActive))
	if err := l.client.SetAside(t.Context(), s.ID); err == nil || !strings.Contains(err.Error(), "does not have the id") {
		t.Errorf("error %v", err)
	}
	if is, err := servers.Get(t.Context(), l.client.compute, s.ID).Extract(); err != nil || is.Status != "ACTIVE" {
		t.Errorf("it is %+v, error %v", is, err)
	}
}
