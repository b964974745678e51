package terraform

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/lab/postgres"
	"github.com/eiffel-hpc/eiffel/lab/scratch"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// parallel is the default number of tests that run at a time. The tests mostly wait, so Go's default, the number of
// processors, does not suit them.
const parallel = "10"

func TestMain(m *testing.M) {
	postgres.KeepIfAsked()
	chosen := false
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", parallel); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

const (
	imageV1 = "11111111-0000-4000-8000-000000000001"
	imageV2 = "11111111-0000-4000-8000-000000000002"
	small   = "flavor-small"
	big     = "flavor-big"
	control = "eiffel-control" // in the form of group_vars/all.yml
)

const clusterID = "01234567-89ab-4cde-8f01-23456789abcd"

// publicKey is useless: its private half was deleted.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIpIBPyqOgkM2XD5O5rIfkRy/kyCQjwPK9r2xHg0yCkC nobody"

// cluster is a cluster directory with the real root module, real Terraform, the real provider, and the lab's cloud
// without machines.
type cluster struct {
	*testing.T
	cloud            *labcloud.Cloud
	dir              string // of the cluster
	cfg              Config
	network, storage string // ids of the cloud's networks
	admin            *gophercloud.ProviderClient
}

// newCluster makes a cluster from the repository's module and declaration. change may alter the cloud before it starts.
func newCluster(t *testing.T, change func(*labcloud.Config)) *cluster {
	t.Helper()
	cfg := labcloud.Config{
		Project: "lab", User: "operator", Password: "secret",
		Networks: []labcloud.Network{
			{Name: "cluster", CIDR: netip.MustParsePrefix("10.60.0.0/16"), Gateway: netip.MustParseAddr("10.60.0.1")},
			{Name: "storage", CIDR: netip.MustParsePrefix("10.61.0.0/16")},
			{Name: "public", CIDR: netip.MustParsePrefix("192.0.2.0/24"), External: true},
		},
		Flavors: []labcloud.Flavor{{ID: small, Name: "small", VCPUs: 1, RAM: 512, Disk: 1},
			{ID: big, Name: "big", VCPUs: 8, RAM: 16384, Disk: 1}},
		Images: []labcloud.Image{{ID: imageV1, Name: "v1"}, {ID: imageV2, Name: "v2"}},
	}
	if change != nil {
		change(&cfg)
	}
	cloud, err := labcloud.New(cfg, labcloud.Null{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(func() {
		if err := cloud.Close(context.Background()); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	c := &cluster{T: t, cloud: cloud, dir: t.TempDir()}
	c.login(cfg, server.URL)
	c.network, c.storage = c.networkID("cluster"), c.networkID("storage")
	c.write("clouds.yaml", string(cloud.CloudsYAML("openstack", server.URL)))
	c.provider("plugins-quick")
	for _, file := range []string{"main.tf", "variables.tf", "versions.tf"} {
		c.write("terraform/openstack/"+file, repository(t, "terraform/openstack/"+file))
	}
	c.write("group_vars/all.yml", repository(t, "group_vars/all.yml"))
	c.declare(`public_key: ""`, `public_key: "`+publicKey+`"`)
	c.declare(`floating_ip_network: ""`, `floating_ip_network: public`)
	c.cfg = Config{
		Dir: filepath.Join(c.dir, "terraform", "openstack"), PlanDir: filepath.Join(c.dir, "state", "plans"),
		Binary: tool(t, "EIFFEL_TERRAFORM", "quick/terraform"),
		Module: kinds, Variables: map[string]string{"OS_CLIENT_CONFIG_FILE": filepath.Join(c.dir, "clouds.yaml")},
		Keeper: keeper(t, filepath.Join(c.dir, "state")), Parallelism: 20, LockTimeout: 30 * time.Second,
		Log: slog.New(slog.DiscardHandler), Port: c.port,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "TMPDIR=" + scratch.Dir(t, "", "tf"),
			"TF_CLI_CONFIG_FILE=" + filepath.Join(c.dir, "terraformrc")},
	}
	t.Cleanup(c.killTerraforms) // a provider that has just started outlives a killed Terraform
	c.must(c.cfg.Keeper.(*journal.Journal).AdoptIdentity(c.Context(), clusterID))
	return c
}

// newLagging returns a cluster whose Terraform sees a change later than the cloud has made it: each change takes the
// cloud half a second, and the provider with its own waits looks first after ten seconds (1.54.1), or at once and then
// every three seconds (3.4.0). Terraform checks the provider, and the two use TLS, as with any administrator.
func newLagging(t *testing.T) *cluster {
	c := newCluster(t, func(cfg *labcloud.Config) {
		const change = time.Second / 2
		cfg.Timings = labcloud.Timings{
			Build: change, Rebuild: change, Reboot: change, Resize: change, Delete: change, Power: change,
		}
	})
	c.provider("plugins")
	c.cfg.Binary = tool(t, "EIFFEL_TERRAFORM", "bin/terraform")
	return c
}

// provider selects a build of the provider by its folder among the tools.
func (c *cluster) provider(folder string) {
	c.Helper()
	c.mirror(c.plugins(folder))
}

// mirror makes a folder the only source of providers.
func (c *cluster) mirror(folder string) {
	c.Helper()
	c.write("terraformrc", fmt.Sprintf(
		"provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", folder))
}

// plugins returns the folder of a build of the provider. EIFFEL_PLUGINS names the folder of the usual build, else
// EIFFEL_PROVIDER its version; the others are beside it.
func (c *cluster) plugins(folder string) string {
	c.Helper()
	usual := "plugins"
	if version := os.Getenv("EIFFEL_PROVIDER"); version != "" {
		usual += "-" + version
	}
	path := tool(c.T, "EIFFEL_PLUGINS", usual) + strings.TrimPrefix(folder, "plugins")
	if _, err := os.Stat(path); err != nil {
		c.Fatal(err)
	}
	return path
}

// keeper is a journal.
func keeper(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// login logs in to the cloud as an administrator would, without Terraform.
func (c *cluster) login(cfg labcloud.Config, url string) {
	c.Helper()
	var err error
	c.admin, err = openstack.AuthenticatedClient(c.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: url + "/identity/v3", Username: cfg.User, Password: cfg.Password, DomainName: "Default",
		TenantName: cfg.Project,
	})
	c.must(err)
}

func (c *cluster) networkID(name string) string {
	c.Helper()
	client, err := openstack.NewNetworkV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	pages, err := networks.List(client, networks.ListOpts{Name: name}).AllPages(c.Context())
	c.must(err)
	found, err := networks.ExtractNetworks(pages)
	if err != nil || len(found) != 1 {
		c.Fatalf("network %s: %v, %v", name, found, err)
	}
	return found[0].ID
}

// removeServer deletes a server behind Terraform's back.
func (c *cluster) removeServer(name string) {
	c.Helper()
	client, err := openstack.NewComputeV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	c.must(servers.Delete(c.Context(), client, c.servers()[name].ID).ExtractErr())
	c.until(name+" is gone", func() bool { _, there := c.servers()[name]; return !there })
}

func (c *cluster) stopServer(name string) {
	c.Helper()
	client, err := openstack.NewComputeV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	c.must(servers.Stop(c.Context(), client, c.servers()[name].ID).ExtractErr())
	c.until(name+" is stopped", func() bool { return c.servers()[name].Status == "SHUTOFF" })
}

func (c *cluster) rebuildServer(name, image string) {
	c.Helper()
	client, err := openstack.NewComputeV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	_, err = servers.Rebuild(c.Context(), client, c.servers()[name].ID, servers.RebuildOpts{ImageRef: image}).Extract()
	c.must(err)
	c.until(name+" is rebuilt", func() bool { return c.servers()[name].Status == "ACTIVE" })
}

// tool finds a tool that `make tools` installs. The test fails if it is missing.
func tool(t *testing.T, variable, below string) string {
	t.Helper()
	needs.Lab(t)
	path := os.Getenv(variable)
	if path == "" {
		path = filepath.Join(root(t), ".tools", below)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("this test needs Terraform and the provider: run `make tools`, or set %s (%s)", variable, err)
	}
	return path
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func repository(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) write(file, text string) {
	c.Helper()
	path := filepath.Join(c.dir, file)
	c.must(os.MkdirAll(filepath.Dir(path), 0o755))
	c.must(os.WriteFile(path, []byte(text), 0o600))
}

// declare changes group_vars/all.yml.
func (c *cluster) declare(was, is string) {
	c.Helper()
	path := filepath.Join(c.dir, "group_vars", "all.yml")
	text, err := os.ReadFile(path)
	c.must(err)
	if !strings.Contains(string(text), was) {
		c.Fatalf("group_vars/all.yml has no %q", was)
	}
	c.write("group_vars/all.yml", strings.Replace(string(text), was, is, 1))
}

func (c *cluster) open() *Driver {
	c.Helper()
	d, err := Open(c.Context(), c.cfg)
	c.must(err)
	return d
}

func (c *cluster) spec(group, image string) reconfigure.Spec {
	return reconfigure.Spec{Group: group, ImageID: image, FlavorID: small, NetworkID: c.network}
}

// deployed is a map of the control node and some nodes, all with the same Spec.
func (c *cluster) deployed(nodes ...string) map[string]reconfigure.Spec {
	all := map[string]reconfigure.Spec{control: c.spec(reconfigure.ControlGroup, imageV1)}
	for _, node := range nodes {
		all[node] = c.spec("standard", imageV1)
	}
	return all
}

// planOf returns a plan that changes some nodes; the map is the one after the changes.
func planOf(action reconfigure.Action, desired map[string]reconfigure.Spec, nodes ...string) reconfigure.Plan {
	p := reconfigure.Plan{Desired: maps.Clone(desired)}
	for _, node := range nodes {
		p.Changes = append(p.Changes, reconfigure.Change{Node: node, Action: action, Spec: desired[node],
			Reason: "test"})
	}
	return p
}

// deploy makes all nodes of a map and the shared resources.
func (c *cluster) deploy(d *Driver, desired map[string]reconfigure.Spec) {
	c.Helper()
	p := reconfigure.Plan{Shared: true}
	for node := range desired {
		p.Changes = append(p.Changes, planOf(reconfigure.Create, desired, node).Changes...)
	}
	p.Desired = desired
	if failures := c.carryOut(d, p); len(failures) > 0 {
		c.Fatalf("deploy: %v", failures)
	}
}

// carryOut previews and applies.
func (c *cluster) carryOut(d *Driver, p reconfigure.Plan) reconfigure.Failures {
	c.Helper()
	preview, err := d.Preview(c.Context(), p)
	c.must(err)
	c.wantAsSaved(d, preview)
	failures, err := d.Apply(c.Context(), preview, c.watch, nil)
	c.must(err)
	return failures
}

// wantAsSaved checks that a preview has exactly the changes of the saved plan, also if they were read from events.
func (c *cluster) wantAsSaved(d *Driver, p reconfigure.Preview) {
	c.Helper()
	if p.File == "" {
		return // Terraform has no changes
	}
	m, err := readModule(c.cfg.Dir)
	m.kinds = kinds
	c.must(err)
	saved, err := d.show(c.Context(), filepath.Dir(p.File))
	c.must(err)
	want, err := fence(saved, p.Plan, m)
	c.must(err)
	byAddress := cmpopts.SortSlices(func(a, b reconfigure.ResourceChange) bool { return a.Address < b.Address })
	if diff := cmp.Diff(want, p.Changes, byAddress, cmpopts.EquateEmpty()); diff != "" {
		c.Errorf("the preview is not of the saved plan (-saved +preview):\n%s", diff)
	}
}

func (c *cluster) watch(node, message string) { c.Logf("%s: %s", node, message) }

// wantClean checks that an administrator's plain `terraform plan` has no changes.
func (c *cluster) wantClean(d *Driver) {
	c.Helper()
	c.must(d.run(func(tf *tfexec.Terraform) error {
		changes, err := tf.Plan(c.Context())
		if changes {
			c.Errorf("a plain plan finds changes")
		}
		return err
	}))
}

// servers returns the cloud's servers by name, without properties that change by themselves.
func (c *cluster) servers() map[string]labcloud.Server {
	all := map[string]labcloud.Server{}
	for _, s := range c.cloud.Servers() {
		all[s.Name] = s
	}
	return all
}
