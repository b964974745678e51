package vsphere

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/eiffel-hpc/eiffel/lab/vcenter"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/cloudtest"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

const clusterID = "11111111-2222-4333-8444-555555555555"

// site is a cluster directory for a simulated vCenter, with a client.
type site struct {
	*testing.T
	center *vcenter.Center
	client *Client
	dir    string
	made   int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, dir: t.TempDir()}
	var err error
	s.center, err = vcenter.Start(t.Context())
	s.must(err)
	t.Cleanup(s.center.Close)
	s.write(File, fmt.Sprintf(`clouds:
  lab:
    server: %s
    user: %s
    password: %s
    datacenter: %s
    datastore: %s
    resource_pool: %s
    flavors: {small: {cores: 1, memory: 64, disk: 10}, tiny: {cores: 1, memory: 64, disk: 9}}
`, s.center.Server(), vcenter.User, vcenter.Password, vcenter.Datacenter, vcenter.Datastore, vcenter.Pool))
	s.write(Certificates, string(s.center.Certificate()))
	s.client = s.open()
	return s
}

func (s *site) open() *Client {
	s.Helper()
	client, err := Open(s.Context(), reconfigure.Access{
		Cloud: "lab", Dir: s.dir, Cluster: "eiffel", Identity: reconfigure.Identity{ID: clusterID},
	})
	s.must(err)
	client.tempo = cloud.Tempo{Poll: 5 * time.Millisecond, Soft: time.Minute}
	return client
}

func (s *site) write(file, text string) {
	s.Helper()
	s.must(os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600))
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// create makes a virtual machine as the root module does, and returns its id.
func (s *site) create(node, cluster string) string {
	s.Helper()
	s.made++
	id := clusterID
	if cluster != "eiffel" {
		id = "another"
	}
	var marks []types.BaseOptionValue
	for key, value := range map[string]string{
		clusterKey: cluster, clusterIDKey: id, groupKey: "standard", nodeKey: node, imageKey: s.image(vcenter.ImageV1),
		flavorKey: "1x64x10", networkKey: "network-7",
	} {
		marks = append(marks, &types.OptionValue{Key: key, Value: value})
	}
	vm := s.clone(fmt.Sprintf("%s-%s-%d", cluster, node, s.made))
	s.await(vm.Reconfigure(s.Context(), types.VirtualMachineConfigSpec{ExtraConfig: marks, NumCPUs: 1, MemoryMB: 64}))
	s.await(vm.PowerOn(s.Context()))
	return vm.UUID(s.Context())
}

// clone makes a virtual machine of the first template, on the first host of the cluster. It has no mark.
func (s *site) clone(name string) *object.VirtualMachine {
	s.Helper()
	return s.cloneTo(name, vcenter.Pool, vcenter.Hosts()[0])
}

// cloneTo makes a virtual machine in a resource pool, on a host.
func (s *site) cloneTo(name, inPool, onHost string) *object.VirtualMachine {
	s.Helper()
	finder, err := s.center.Finder(s.Context())
	s.must(err)
	pool, err := finder.ResourcePool(s.Context(), inPool)
	s.must(err)
	folder, err := finder.DefaultFolder(s.Context())
	s.must(err)
	host, err := finder.HostSystem(s.Context(), onHost)
	s.must(err)
	source, err := s.center.Machine(s.Context(), vcenter.ImageV1)
	s.must(err)
	in, on := pool.Reference(), host.Reference()
	s.await(source.Clone(s.Context(), folder, name, types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: &in, Host: &on},
	}))
	vm, err := s.center.Machine(s.Context(), name)
	s.must(err)
	return vm
}

func (s *site) await(task *object.Task, err error) {
	s.Helper()
	if err == nil {
		err = task.Wait(s.Context())
	}
	s.must(err)
}

// image returns the id of a template.
func (s *site) image(name string) string {
	s.Helper()
	vm, err := s.center.Machine(s.Context(), name)
	s.must(err)
	return vm.UUID(s.Context()) + ",otherGuest,bios,pvscsi,10,thin"
}

func (s *site) vm(id string) *object.VirtualMachine {
	s.Helper()
	found, err := object.NewSearchIndex(s.center.Client().Client).FindByUuid(s.Context(), nil, id, true, nil)
	s.must(err)
	return object.NewVirtualMachine(s.center.Client().Client, found.Reference())
}

// disconnect makes vCenter report that it cannot read the files of a virtual machine.
func (s *site) disconnect(id string) {
	s.Helper()
	s.center.Change(s.vm(id).Reference(), types.PropertyChange{
		Name: "runtime.connectionState", Val: types.VirtualMachineConnectionStateInaccessible,
	})
}

// say makes a guest publish more text.
func (s *site) say(id, text string) {
	s.Helper()
	m, err := s.client.must(s.Context(), id)
	s.must(err)
	before, err := base64.StdEncoding.DecodeString(m.settings[saidKey])
	s.must(err)
	s.await(s.vm(id).Reconfigure(s.Context(), types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{
		&types.OptionValue{Key: saidKey, Value: base64.StdEncoding.EncodeToString(append(before, text...))},
	}}))
}

// TestClientIsACloud tests the client with the contract's suite on the simulator, which always has a machine of another
// cluster and one without a mark.
func TestClientIsACloud(t *testing.T) {
	cloudtest.TestCloud(t, func(t *testing.T) cloudtest.CloudSetup {
		s := newSite(t)
		s.create("node1", "another")
		s.clone("eiffel-node1")
		network := s.client.Resolve(t.Context(), reconfigure.Source{
			Image: vcenter.ImageV1, Flavor: "small", Network: vcenter.Network,
		}).NetworkID
		if !strings.HasPrefix(network, "network-") {
			t.Errorf("the network's id is %q", network)
		}
		return cloudtest.CloudSetup{
			Cloud:    s.client,
			Source:   reconfigure.Source{Image: vcenter.ImageV1, Flavor: "small", Network: vcenter.Network},
			Resolved: reconfigure.Resolved{ImageID: s.image(vcenter.ImageV1), FlavorID: "1x64x10", NetworkID: network},
			Make:     func(node string) string { return s.create(node, "eiffel") },
			Break: func(node string) string {
				id := s.create(node, "eiffel")
				s.disconnect(id)
				return id
			},
			Print: s.say,
			Boots: func(id string) int { return s.center.Starts(s.vm(id).Reference()) - 1 },
		}
	})
}

// TestClientKnowsTheRoom tests the client with the contract's suite on the simulator, for a resource pool and for a
// table of hosts. Machines elsewhere do not count.
func TestClientKnowsTheRoom(t *testing.T) {
	for name, change := range map[string]func(*Table, reconfigure.Use){
		"a resource pool": func(t *Table, limit reconfigure.Use) {
			t.Cores, t.Memory, t.Instances = limit.Cores, limit.RAM, limit.Instances
		},
		"a table of hosts": func(t *Table, limit reconfigure.Use) {
			t.Hosts = []Host{{Name: "/DC0/host/DC0_C0/" + vcenter.Hosts()[0]}}
			t.Hosts[0].Cores, t.Hosts[0].Memory, t.Hosts[0].Instances = limit.Cores, limit.RAM, limit.Instances
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			other := vcenter.OtherHosts()[0]
			s.cloneTo("elsewhere", other+"/Resources", other)
			change(&s.client.table, reconfigure.Use{})
			cloudtest.TestQuota(t, cloudtest.QuotaSetup{
				Quota: s.client, Make: func(node string) { s.create(node, "another") },
				Flavor: "1x64x10", Takes: reconfigure.Use{Instances: 1, Cores: 1, RAM: 64},
				Limit: func(limit reconfigure.Use) {
					for _, n := range []*int{&limit.Instances, &limit.Cores, &limit.RAM} {
						*n = max(*n, 0)
					}
					change(&s.client.table, limit)
				},
			})
		})
	}
}

// TestAnEndedSessionIsBegunAgain ends the client's session, as vCenter does when a session is idle.
func TestAnEndedSessionIsBegunAgain(t *testing.T) {
	s := newSite(t)
	id := s.create("node1", "eiffel")
	for range 2 {
		if fault, err := s.client.Fault(t.Context(), id); err != nil || fault.Words != "" {
			t.Fatal(fault, err)
		}
		s.must(s.center.EndSessions(t.Context()))
	}
}

// TestVCenterIsTrustedByItsCertificateOnly logs in without the certificate, and with a wrong password: each is a
// different error.
func TestVCenterIsTrustedByItsCertificateOnly(t *testing.T) {
	s := newSite(t)
	s.client.table.Password = "wrong"
	_, err := s.client.Clock(t.Context())
	if err == nil || !strings.Contains(err.Error(), "log in as operator") {
		t.Errorf("with a wrong password: %v", err)
	}
	s.must(os.Remove(filepath.Join(s.dir, Certificates)))
	_, err = s.open().Clock(t.Context())
	if err == nil || !strings.Contains(err.Error(), "x509") || reconfigure.ClassOf(err) != reconfigure.ClassCloud {
		t.Errorf("without the certificate: %v, of class %s", err, reconfigure.ClassOf(err))
	}
	insecure := s.open()
	insecure.table.Insecure = true
	if now, err := insecure.Clock(t.Context()); err != nil || time.Since(now).Abs() > time.Hour {
		t.Errorf("insecure: %s, error %v", now, err)
	}
}

// TestSourcesThatNoNodeCanBeMadeOfAreNamed resolves an image whose disk is larger than the flavor's.
func TestSourcesThatNoNodeCanBeMadeOfAreNamed(t *testing.T) {
	s := newSite(t)
	source := reconfigure.Source{Image: vcenter.ImageV1, Flavor: "tiny", Network: vcenter.Network}
	if got := s.client.Resolve(t.Context(), source); !strings.Contains(got.Err, "its disk has 9 GiB") ||
		got.Class != reconfigure.ClassMissing {
		t.Errorf("resolves to %+v", got)
	}
	s.client.table.Clone = "linked"
	if got := s.client.Resolve(t.Context(), source); got.Err != "" {
		t.Errorf("a linked clone has its template's disk: %+v", got)
	}
	images, err := s.client.Images(t.Context())
	if err != nil || len(images) != 2 || images[0].ID == images[1].ID {
		t.Errorf("images %+v, error %v", images, err)
	}
}

// TestOtherInstancesAreNamedAsOthers lists instances that do not belong to the cluster.
func TestOtherInstancesAreNamedAsOthers(t *testing.T) {
	s := newSite(t)
	ours := s.create("node1", "eiffel")
	s.create("node1", "another")
	s.clone("by-hand")
	all, err := s.client.ProjectServers(t.Context())
	s.must(err)
	found := map[string]reconfigure.ProjectServer{}
	for _, p := range all {
		found[p.Cluster] = p
	}
	if len(all) != 3 || !found["eiffel"].Ours || found["eiffel"].ID != ours || found["another"].Ours ||
		found[""].Name != "by-hand" {
		t.Errorf("there are %+v", all)
	}
	servers, err := s.client.Servers(t.Context(), nodeset.NodeSet{})
	s.must(err)
	if host := servers["node1"][0].Host; host != vcenter.Hosts()[0] {
		t.Errorf("node1 is on %q", host)
	}
	s.client.access.Identity.ID = "new"
	others, err := s.client.Namesakes(t.Context())
	if err != nil || len(others) != 1 || len(others[clusterID]) != 1 {
		t.Errorf("of the same name are %+v, error %v", others, err)
	}
}

// TestAGuestThatDoesNotShutDownIsSwitchedOff reboots a guest that ignores the request.
func TestAGuestThatDoesNotShutDownIsSwitchedOff(t *testing.T) {
	s := newSite(t)
	id := s.create("node1", "eiffel")
	s.client.tempo.Soft = 0
	s.center.Change(s.vm(id).Reference(), types.PropertyChange{
		Name: "guest.toolsRunningStatus", Val: string(types.VirtualMachineToolsRunningStatusGuestToolsNotRunning),
	})
	s.must(s.client.Reboot(context.Background(), id))
	if starts := s.center.Starts(s.vm(id).Reference()); starts != 2 {
		t.Errorf("started %d times", starts)
	}
}
