package libvirt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	rpc "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"github.com/eiffel-hpc/eiffel/lab/libvirtd"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/cloudtest"
)

const clusterID = "11111111-2222-4333-8444-555555555555"

// realHost is a client for a real libvirtd. Its machines have no disk, so that they start at once and do nothing.
type realHost struct {
	*testing.T
	daemon *libvirtd.Daemon
	client *Client
	dir    string
	made   int
}

func newHost(t *testing.T) *realHost {
	t.Helper()
	needs.Libvirt(t, "../../..")
	dir, err := os.MkdirTemp("/var/tmp", "eiffel-libvirt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &realHost{T: t, dir: dir}
	h.daemon, err = libvirtd.Start(t.Context(), libvirtd.Config{
		Name: "adapter", Dir: filepath.Join(dir, "libvirt"), Gateway: netip.MustParsePrefix("10.74.1.1/24"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.daemon.Close(); err != nil {
			t.Error(err)
		}
	})
	empty := filepath.Join(dir, "empty")
	h.must(os.WriteFile(empty, make([]byte, 1<<20), 0o644))
	h.must(h.daemon.AddImage("node-v1", empty))
	h.must(os.WriteFile(filepath.Join(dir, File), fmt.Appendf(nil, `clouds:
  lab:
    pool: %s
    type: qemu
    hosts: [{uri: %q}]
    flavors: {small: {cores: 1, memory: 64, disk: 1}, large: {cores: 2, memory: 128, disk: 1}}
`, libvirtd.Pool, h.daemon.URI()), 0o644))
	h.client, err = Open(t.Context(), reconfigure.Access{
		Cloud: "lab", Dir: dir, Cluster: "eiffel", Identity: reconfigure.Identity{ID: clusterID},
	})
	h.must(err)
	h.client.tempo = cloud.Tempo{Poll: 50 * time.Millisecond, Soft: 300 * time.Millisecond}
	h.create("node1", "another")
	return h
}

func (h *realHost) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// create makes a domain as the root module does, and returns its id.
func (h *realHost) create(node, cluster string) string {
	h.Helper()
	h.made++
	name := fmt.Sprintf("%s-%s-%d", cluster, node, h.made)
	id := clusterID
	if cluster != "eiffel" {
		id = "another"
	}
	description, err := json.Marshal(mark{
		Cluster: cluster, ClusterID: id, Group: "standard", Node: node, Image: "node-v1", Flavor: "1x64x1",
		Network: libvirtd.Network, Created: time.Now().Format(time.RFC3339),
	})
	h.must(err)
	console := filepath.Join(h.daemon.PoolDir(), name+".console")
	h.must(os.WriteFile(console, nil, 0o644))
	mac := fmt.Sprintf("52:54:00:00:00:%02x", h.made)
	network, err := h.daemon.NetworkLookupByName(libvirtd.Network)
	h.must(err)
	h.must(h.daemon.NetworkUpdateCompat(network, rpc.NetworkUpdateCommandAddLast, rpc.NetworkSectionIPDhcpHost, -1,
		fmt.Sprintf(`<host mac="%s" ip="10.74.1.%d"/>`, mac, 10+h.made), rpc.NetworkUpdateAffectLive))
	is, err := h.daemon.DomainDefineXML(fmt.Sprintf(`<domain type="qemu">
  <name>%s</name>
  <description>%s</description>
  <memory unit="MiB">64</memory>
  <vcpu>1</vcpu>
  <os><type arch="x86_64">hvm</type></os>
  <features><acpi/></features>
  <devices>
    <interface type="network"><mac address="%s"/><source network="%s"/></interface>
    <serial type="pty"><log file="%s" append="on"/></serial>
  </devices>
</domain>`, name, description, mac, libvirtd.Network, console))
	h.must(err)
	h.must(h.daemon.DomainCreate(is))
	return uuid.UUID(is.UUID).String()
}

func (h *realHost) domain(id string) rpc.Domain {
	h.Helper()
	is, err := h.daemon.DomainLookupByUUID(rpc.UUID(uuid.MustParse(id)))
	h.must(err)
	return is
}

// crash kills the hypervisor of a domain.
func (h *realHost) crash(id string) {
	h.Helper()
	is := h.domain(id)
	text, err := os.ReadFile(filepath.Join(h.dir, "libvirt", "run", "qemu", is.Name+".pid"))
	h.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	h.must(err)
	h.must(syscall.Kill(pid, syscall.SIGKILL))
	for h.Context().Err() == nil {
		state, _, err := h.daemon.DomainGetState(is, 0)
		h.must(err)
		if rpc.DomainState(state) == rpc.DomainShutoff {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// boots returns the number of times libvirt started a domain after the first time.
func (h *realHost) boots(id string) int {
	h.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "libvirt", "log", "qemu", h.domain(id).Name+".log"))
	h.must(err)
	return bytes.Count(text, []byte("starting up libvirt version")) - 1
}

// TestClientIsACloud tests the client with the contract's suite on a real libvirtd, which always has a machine of
// another cluster.
func TestClientIsACloud(t *testing.T) {
	t.Attr("scenario", "the client passes the checks of clouds, as with OpenStack")
	cloudtest.TestCloud(t, func(t *testing.T) cloudtest.CloudSetup {
		h := newHost(t)
		h.T = t
		return cloudtest.CloudSetup{
			Cloud:  h.client,
			Source: reconfigure.Source{Image: "node-v1", Flavor: "small", Network: libvirtd.Network},
			Resolved: reconfigure.Resolved{
				ImageID: "node-v1", FlavorID: "1x64x1", NetworkID: libvirtd.Network,
			},
			Make: func(node string) string { return h.create(node, "eiffel") },
			Break: func(node string) string {
				id := h.create(node, "eiffel")
				h.crash(id)
				return id
			},
			Print: func(id, text string) {
				file := filepath.Join(h.daemon.PoolDir(), h.domain(id).Name+".console")
				f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
				h.must(err)
				_, err = f.WriteString(text)
				h.must(err)
				h.must(f.Close())
			},
			Boots: h.boots,
		}
	})
}

// TestClientKnowsTheRoom tests the client with the contract's suite on a real libvirtd.
func TestClientKnowsTheRoom(t *testing.T) {
	t.Attr("scenario", "the client knows the room of a host")
	h := newHost(t)
	stranger, there, err := h.client.find(t.Context(), h.daemonDomains()[0])
	if err != nil || !there {
		t.Fatal(there, err)
	}
	h.must(remove(h.daemon.Libvirt, stranger))
	cloudtest.TestQuota(t, cloudtest.QuotaSetup{
		Quota: h.client, Make: func(node string) { h.create(node, "another") },
		Flavor: "1x64x1", Takes: reconfigure.Use{Instances: 1, Cores: 1, RAM: 64},
		Limit: func(limit reconfigure.Use) {
			for _, n := range []*int{&limit.Instances, &limit.Cores, &limit.RAM} {
				*n = max(*n, 0)
			}
			host := &h.client.table.Hosts[0]
			host.Instances, host.Cores, host.Memory = limit.Instances, limit.Cores, limit.RAM
		},
	})
}

func (h *realHost) daemonDomains() []string {
	h.Helper()
	all, _, err := h.daemon.ConnectListAllDomains(1, 0)
	h.must(err)
	ids := make([]string, len(all))
	for i, is := range all {
		ids[i] = uuid.UUID(is.UUID).String()
	}
	return ids
}

// TestARemovedServerLeavesNoVolume removes an instance with its console, but no volumes of others.
func TestARemovedServerLeavesNoVolume(t *testing.T) {
	t.Attr("scenario", "a removed virtual machine leaves no volume")
	h := newHost(t)
	id := h.create("node1", "eiffel")
	h.must(h.client.RemoveServer(t.Context(), id, "node1", time.Now().Add(time.Hour)))
	left, err := filepath.Glob(filepath.Join(h.daemon.PoolDir(), "*"))
	h.must(err)
	if len(left) != 2 { // the image, and the other cluster's console
		t.Errorf("the pool has %v", left)
	}
}
