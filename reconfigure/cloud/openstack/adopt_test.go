package openstack

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// foreign makes a server without marks, whose port has a name and a description.
func (l *lab) foreign(name, description string) (server, port string) {
	l.Helper()
	s := l.create(name, "", "ACTIVE")
	for _, key := range []string{clusterKey, groupKey} {
		if err := servers.DeleteMetadatum(l.Context(), l.client.compute, s.ID, key).ExtractErr(); err != nil {
			l.Fatal(err)
		}
	}
	_, err := servers.UpdateMetadata(l.Context(), l.client.compute, s.ID, servers.MetadataOpts{"owner": "anna"}).Extract()
	if err != nil {
		l.Fatal(err)
	}
	port, err = l.client.Port(l.Context(), s.ID)
	if err == nil {
		called := "port of " + name
		_, err = ports.Update(l.Context(), l.client.network, port,
			ports.UpdateOpts{Name: &called, Description: &description}).Extract()
	}
	if err != nil {
		l.Fatal(err)
	}
	return s.ID, port
}

// raw returns all that the services say about a server and a port, without the times of changes.
func (l *lab) raw(server, port string) [2]any {
	l.Helper()
	s, err := servers.Get(l.Context(), l.client.compute, server).Extract()
	if err != nil {
		l.Fatal(err)
	}
	p, err := ports.Get(l.Context(), l.client.network, port).Extract()
	if err != nil {
		l.Fatal(err)
	}
	return [2]any{*s, *p}
}

// TestAClaimedServerIsTheClustersUntilItIsDisclaimed checks the marks, and that Disclaim leaves no trace.
func TestAClaimedServerIsTheClustersUntilItIsDisclaimed(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	id, port := l.foreign("node1", "of anna")
	l.create("node2", "eiffel", "ACTIVE")
	other := l.create("node3", "another", "ACTIVE")
	before := l.raw(id, port)

	found, err := l.client.Candidates(t.Context(), nodeset.Of("node1", "node2", "node3", "node4"))
	if err != nil || len(found) != 3 {
		t.Fatalf("%v: %v", found, err)
	}
	for node, want := range map[string]string{"node1": "", "node2": "eiffel", "node3": "another"} {
		if one := found[node]; len(one) != 1 || one[0].Cluster != want || len(one[0].Ports) != 1 || one[0].Adopted {
			t.Errorf("%s: %+v", node, one)
		}
	}
	if one := found["node1"][0]; one.Ports[0].ID != port || one.Ports[0].SecurityGroups == "" ||
		one.Metadata != reconfigure.MakeTexts(map[string]string{"owner": "anna"}) {
		t.Errorf("%+v", one)
	}

	for range 2 {
		if err := l.client.Claim(t.Context(), id, "node1", "standard"); err != nil {
			t.Fatal(err)
		}
	}
	ours, err := l.client.Servers(t.Context(), nodeset.Of("node1"))
	if err != nil || len(ours["node1"]) != 1 || ours["node1"][0].Group != "standard" || !ours["node1"][0].Adopted {
		t.Errorf("%+v: %v", ours, err)
	}
	all, err := l.client.Ports(t.Context())
	if err != nil || len(all["node1"]) != 1 || all["node1"][0].ID != port {
		t.Errorf("%+v: %v", all, err)
	}

	for range 2 {
		if err := l.client.Disclaim(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	same := cmp.Options{
		cmpopts.IgnoreFields(servers.Server{}, "Updated"), cmpopts.IgnoreFields(ports.Port{}, "UpdatedAt", "RevisionNumber"),
	}
	if diff := cmp.Diff(before, l.raw(id, port), same); diff != "" {
		t.Errorf("it differs (-before +after):\n%s", diff)
	}

	if err := l.client.Claim(t.Context(), other.ID, "node3", "standard"); err == nil ||
		!strings.Contains(err.Error(), "belongs to cluster") {
		t.Errorf("a server of another cluster: %v", err)
	}
	for _, id := range []string{other.ID, absent} {
		if err := l.client.Disclaim(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	s, err := servers.Get(t.Context(), l.client.compute, other.ID).Extract()
	if err != nil || s.Metadata[idKey] != "another" {
		t.Errorf("%v: %v", s, err)
	}
	long, _ := l.foreign("node5", strings.Repeat("x", longestMetadata))
	err = l.client.Claim(t.Context(), long, "node5", "standard")
	if err == nil || !strings.Contains(err.Error(), "shorten") {
		t.Errorf("a long description: %v", err)
	}
}
