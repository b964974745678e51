package terraform

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/lab/scratch"
	"github.com/eiffel-hpc/eiffel/lab/vcenter"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/vsphere"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation/operationtest"
	"github.com/eiffel-hpc/eiffel/reconfigure/ssh"
)

// vsphereSite is a cluster directory with the root module for vSphere, real Terraform and its real provider, and a
// simulated vCenter.
type vsphereSite struct {
	*testing.T
	center *vcenter.Center
	client *vsphere.Client
	dir    string
	cfg    Config
	specs  map[int]reconfigure.Spec // the image's id by version
}

// newVSphere makes such a site. The settings, if any, replace the resource pool in the entry.
func newVSphere(t *testing.T, settings string) *vsphereSite {
	t.Helper()
	tools := needs.VSphere(t, root(t))
	s := &vsphereSite{T: t, dir: t.TempDir(), specs: map[int]reconfigure.Spec{}}
	var err error
	s.center, err = vcenter.Start(t.Context())
	s.must(err)
	t.Cleanup(s.center.Close)
	if settings == "" {
		settings = "resource_pool: " + vcenter.Pool
	}
	s.write(vsphere.File, fmt.Sprintf("clouds: {openstack: {server: %q, user: %s, password_file: password, "+
		"datacenter: %s, datastore: %s, flavors: {small: {cores: 1, memory: 64, disk: 12}}, %s}}",
		s.center.Server(), vcenter.User, vcenter.Datacenter, vcenter.Datastore, settings))
	s.write("password", vcenter.Password+"\n")
	s.write(vsphere.Certificates, string(s.center.Certificate()))
	for _, file := range []string{"main.tf", "variables.tf", "versions.tf"} {
		s.write("terraform/vsphere/"+file, repository(t, "terraform/vsphere/"+file))
	}
	s.write("group_vars/all.yml", repository(t, "group_vars/all.yml"))
	s.change("group_vars/all.yml", `public_key: ""`, `public_key: "`+publicKey+`"`)
	s.change("group_vars/all.yml", "resume_timeout: 900", "resume_timeout: 90") // the provider waits for one minute
	provider := vsphere.Provider()
	s.cfg = Config{
		Dir: filepath.Join(s.dir, "terraform", "vsphere"), PlanDir: filepath.Join(s.dir, "state", "plans"),
		Binary: tools.Terraform, Module: provider.Module, Variables: provider.Variables(s.dir),
		Keeper: keeper(t, filepath.Join(s.dir, "state")), Parallelism: 20, LockTimeout: 30 * time.Second,
		Log: slog.New(slog.DiscardHandler),
		Environ: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + scratch.Dir(t, "", "tf"),
			"TF_CLI_CONFIG_FILE=" + tools.TerraformRC,
		},
	}
	s.must(s.cfg.Keeper.(*journal.Journal).AdoptIdentity(t.Context(), clusterID))
	s.client, err = vsphere.Open(t.Context(), reconfigure.Access{
		Cloud: "openstack", Dir: s.dir, Cluster: "eiffel", Identity: reconfigure.Identity{ID: clusterID},
	})
	s.must(err)
	for version, image := range map[int]string{1: vcenter.ImageV1, 2: vcenter.ImageV2} {
		is := s.client.Resolve(t.Context(), reconfigure.Source{Image: image, Flavor: "small", Network: vcenter.Network})
		if is.Err != "" {
			t.Fatal(is.Err)
		}
		s.specs[version] = reconfigure.Spec{ImageID: is.ImageID, FlavorID: is.FlavorID, NetworkID: is.NetworkID}
	}
	return s
}

func (s *vsphereSite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *vsphereSite) write(file, text string) {
	s.Helper()
	path := filepath.Join(s.dir, file)
	s.must(os.MkdirAll(filepath.Dir(path), 0o755))
	s.must(os.WriteFile(path, []byte(text), 0o600))
}

// change changes a file of the cluster directory.
func (s *vsphereSite) change(file, was, is string) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, file))
	s.must(err)
	if !strings.Contains(string(text), was) {
		s.Fatalf("%s has no %q", file, was)
	}
	s.write(file, strings.Replace(string(text), was, is, 1))
}

func (s *vsphereSite) open() *Driver {
	s.Helper()
	d, err := Open(s.Context(), s.cfg)
	s.must(err)
	return d
}

// spec returns the spec of a node in a version.
func (s *vsphereSite) spec(node string, version int) reconfigure.Spec {
	spec := s.specs[version]
	spec.Group = "standard"
	if node == control {
		spec.Group = reconfigure.ControlGroup
	}
	return spec
}

// servers returns vCenter's instances of the cluster.
func (s *vsphereSite) servers() map[string]reconfigure.Server {
	s.Helper()
	all, err := s.client.Servers(s.Context(), nodeset.NodeSet{})
	s.must(err)
	found := map[string]reconfigure.Server{}
	for node, servers := range all {
		if len(servers) > 1 {
			s.Errorf("%s has %d instances", node, len(servers))
		}
		found[node] = servers[0]
	}
	return found
}

// TestDriverIsAProvisionerForVSphere tests real Terraform, with its provider for vSphere, with the suite of the
// contract on which operations rely. Its instances are neither stopped nor adopted.
func TestDriverIsAProvisionerForVSphere(t *testing.T) {
	t.Attr("scenario", "the driver passes the checks of provisioners, as with OpenStack")
	t.Parallel()
	operationtest.TestProvisioner(t, func(t *testing.T, _ bool) operationtest.ProvisionerSetup {
		s := newVSphere(t, "")
		return operationtest.ProvisionerSetup{
			Provisioner: s.open(), Control: control, Nodes: []string{"node01", "node02", "node03"},
			NoPower: true, NoAdoption: true,
			Spec: s.spec, Servers: s.servers,
			FailCreate: func(node string) { s.center.Mute("eiffel-" + node) },
			Vanish: func(node string) {
				s.must(s.client.RemoveServer(t.Context(), s.servers()[node].ID, node, time.Now().AddDate(1, 0, 0)))
			},
			Stray: func() { // a shared resource on which all instances depend
				const instance = "resource \"vsphere_virtual_machine\" \"node\" {\n"
				s.change("terraform/vsphere/main.tf", instance,
					"resource \"terraform_data\" \"stray\" {}\n\n"+instance+"  depends_on = [terraform_data.stray]\n")
			},
		}
	})
}

// TestVSphereInstanceIsWhatItsSpecSays makes a linked clone in the workspace of the second host, and reads it from the
// state, from vCenter, and as the guest gets it.
func TestVSphereInstanceIsWhatItsSpecSays(t *testing.T) {
	t.Attr("scenario", "a virtual machine is made as declared, on the declared host")
	t.Parallel()
	hosts := vcenter.OtherHosts()
	s := newVSphere(t, fmt.Sprintf("clone: linked, hosts: [{name: %s}, {name: %s}]", hosts[0], hosts[1]))
	s.cfg.Workspace = "host-1"
	d := s.open()
	spec := s.spec("node01", 1)
	spec.Shard = s.cfg.Workspace
	plan := planOf(reconfigure.Create, map[string]reconfigure.Spec{"node01": spec}, "node01")
	preview, err := d.Preview(t.Context(), plan)
	s.must(err)
	failures, err := d.Apply(t.Context(), preview, func(string, string) {}, nil)
	if err != nil || len(failures) > 0 {
		t.Fatalf("failures %v, error %v", failures, err)
	}
	state, err := d.State(t.Context())
	s.must(err)
	made, server := state.Instances["node01"], s.servers()["node01"]
	if made.ID != server.ID || made.Address != server.Address || made.Address == "" || made.Made.Group != "standard" ||
		made.Made.ImageID != spec.ImageID || made.Made.FlavorID != spec.FlavorID || made.Made.NetworkID != spec.NetworkID {
		t.Errorf("the state has %+v, and vCenter %+v", made, server)
	}
	if server.Host != hosts[1] || !server.Active() || server.Group != "standard" || server.ImageID != spec.ImageID ||
		server.FlavorID != spec.FlavorID || time.Since(server.Created).Abs() > time.Hour {
		t.Errorf("vCenter has %+v", server)
	}
	var vm mo.VirtualMachine
	is, err := s.center.Machine(t.Context(), "eiffel-node01")
	s.must(err)
	s.must(s.center.Client().RetrieveOne(t.Context(), is.Reference(), []string{"config"}, &vm))
	guest := map[string]string{}
	for _, option := range vm.Config.ExtraConfig {
		guest[option.GetOptionValue().Key] = fmt.Sprint(option.GetOptionValue().Value)
	}
	metadata, userdata := decoded(t, guest["guestinfo.metadata"]), decoded(t, guest["guestinfo.userdata"])
	if metadata["local-hostname"] != "node01" || metadata["instance-id"] == "" ||
		fmt.Sprint(userdata["ssh_authorized_keys"]) != "["+publicKey+"]" {
		t.Errorf("the guest gets %v and %v", metadata, userdata)
	}
	s.sayHostKeys(userdata["runcmd"])
	clean, err := d.Preview(t.Context(), plan)
	if err != nil || len(clean.Changes) > 0 {
		t.Errorf("the same again: %+v, error %v", clean.Changes, err)
	}
}

// decoded reads YAML in base64, as cloud-init does.
func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	var is map[string]any
	if err := yaml.Unmarshal(plain, &is); err != nil {
		t.Fatalf("%s: %v", plain, err)
	}
	return is
}

// sayHostKeys runs the command with which a guest publishes its host keys, for keys in a temporary folder, and reads
// them from vCenter.
func (s *vsphereSite) sayHostKeys(runcmd any) {
	s.Helper()
	commands, _ := runcmd.([]any)
	if len(commands) != 1 {
		s.Fatalf("the guest runs %v", runcmd)
	}
	command, _ := commands[0].([]any)
	if len(command) != 3 || command[0] != "sh" || command[1] != "-c" {
		s.Fatalf("the guest runs %v", command)
	}
	s.write("ssh/ssh_host_ed25519_key.pub", publicKey+"\n")
	s.write("bin/vmware-rpctool", "#!/bin/sh\nprintf %s \"$1\" >"+s.dir+"/said\n")
	s.must(os.Chmod(filepath.Join(s.dir, "bin", "vmware-rpctool"), 0o755))
	run := exec.CommandContext(s.Context(), "sh", "-c",
		strings.ReplaceAll(fmt.Sprint(command[2]), "/etc/ssh", filepath.Join(s.dir, "ssh")))
	run.Env = []string{"PATH=" + filepath.Join(s.dir, "bin") + ":" + os.Getenv("PATH")}
	if out, err := run.CombinedOutput(); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	said, err := os.ReadFile(filepath.Join(s.dir, "said"))
	s.must(err)
	setting, value, _ := strings.Cut(strings.TrimPrefix(string(said), "info-set "), " ")
	vm, err := s.center.Machine(s.Context(), "eiffel-node01")
	s.must(err)
	task, err := vm.Reconfigure(s.Context(), types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{
		&types.OptionValue{Key: setting, Value: value},
	}})
	if err == nil {
		err = task.Wait(s.Context())
	}
	s.must(err)
	console, err := s.client.Console(s.Context(), s.servers()["node01"].ID, 0)
	s.must(err)
	keys, ok := ssh.ParseConsole(console)
	if !ok || len(keys) != 1 || !strings.Contains(publicKey, base64.StdEncoding.EncodeToString(keys[0].Marshal())) {
		s.Errorf("the guest has said %q: %v", console, keys)
	}
}
