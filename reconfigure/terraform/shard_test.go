package terraform

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// A site's resources in the form of the module's README, for a cluster with several states.
const shardedAdditions = `
resource "terraform_data" "scratch" {
  for_each = { for name, node in local.nodes : name => node if node.group == "standard" }
  input    = "${each.key}-scratch"
}

resource "terraform_data" "attachment" {
  for_each = terraform_data.scratch
  input    = [each.value.id, openstack_compute_instance_v2.node[each.key].id]
}

resource "terraform_data" "name" {
  for_each = local.ports
  input    = openstack_networking_port_v2.node[each.key].all_fixed_ips
}

resource "terraform_data" "common" {
  count = local.shared ? 1 : 0
}
`

// TestALauncherRunsWhileOtherProgramsAreStarted fails with "text file busy" if another program inherits the launcher
// while it is open for writing.
func TestALauncherRunsWhileOtherProgramsAreStarted(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer func() { stop(); others.Wait() }()
	for range 4 {
		others.Go(func() {
			for ctx.Err() == nil {
				_ = exec.Command(program).Run()
			}
		})
	}
	dir := t.TempDir()
	for i := range 100 {
		path, err := launcher(dir, program, fmt.Sprintf("standard-%d", i), filepath.Join(dir, "none"))
		if err != nil {
			t.Fatal(err)
		}
		if err := exec.Command(path).Run(); err != nil {
			t.Fatalf("launcher %d: %v", i, err)
		}
	}
}

func TestBlocksThatEachWorkspaceWouldMake(t *testing.T) {
	const locals = `
variable "shard" {}
locals {
  shard  = terraform.workspace == "default" ? "" : terraform.workspace
  nodes  = { for n, s in var.nodes : n => s if s.shard == local.shard }
  ports  = merge(local.nodes, { for n, s in var.kept_ports : n => s if s.shard == local.shard })
  shared = local.shard == "" && length(local.ports) > 0
}
resource "base" "node" { for_each = local.nodes }
`
	const one = "resource \"x\" \"z\" { count = local.shared ? 1 : 0 }\n"
	for name, tc := range map[string]struct {
		text            string
		unsharded, kept bool
	}{
		"nodes of the shard": {`resource "x" "y" { for_each = { for n, s in local.nodes : n => s } }`, false,
			false},
		"ports of the shard":          {`resource "x" "y" { for_each = local.ports }`, false, true},
		"chained":                     {`resource "x" "y" { for_each = base.node }`, false, false},
		"module":                      {`module "y" { for_each = local.ports }`, false, true},
		"nodes of all":                {`resource "x" "y" { for_each = var.nodes }`, true, false},
		"nodes of all in a module":    {`module "y" { for_each = var.nodes }`, true, false},
		"shared":                      {`resource "x" "y" { count = local.shared ? 1 : 0 }`, false, false},
		"shared, after another":       {one + `resource "x" "y" { count = length(x.z) }`, false, false},
		"shared, but everywhere":      {`resource "x" "y" {}`, true, false},
		"shared, but often anywhere":  {`resource "x" "y" { count = 2 }`, true, false},
		"shared, for what is no node": {`resource "x" "y" { for_each = toset(["a"]) }`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := moduleOf(t, map[string]string{"main.tf": locals, "own.tf": tc.text})
			err := m.shards()
			if (err != nil) != tc.unsharded || err != nil && !strings.Contains(err.Error(), ".y") {
				t.Errorf("unsharded: %v", err)
			}
			if (len(m.kept) > 0) != tc.kept {
				t.Errorf("kept: %v", m.kept)
			}
		})
	}
}

func TestAnOlderModuleIsNotUsedInSeveralWorkspaces(t *testing.T) {
	m := moduleOf(t, map[string]string{"main.tf": `
locals { nodes = { for n, s in var.nodes : n => s if s.shard == terraform.workspace } }
resource "base" "node" { for_each = local.nodes }`})
	if err := m.shards(); err == nil || !strings.Contains(err.Error(), `variable "shard"`) {
		t.Error(err)
	}
}

func TestSharedValuesOfTheDefaultWorkspace(t *testing.T) {
	const group = `{"resources": [
		{"mode": "managed", "type": "openstack_networking_secgroup_v2", "name": "%s", "instances": [%s]}
	]}`
	for name, tc := range map[string]struct {
		state string
		want  shared
	}{
		"no state": {"", shared{}},
		"empty":    {`{"version": 4, "resources": []}`, shared{}},
		"there":    {fmt.Sprintf(group, "cluster", `{"index_key": 0, "attributes": {"id": "s"}}`), shared{"s"}},
		"another":  {fmt.Sprintf(group, "own", `{"attributes": {"id": "s"}}`), shared{}},
		"removed":  {fmt.Sprintf(group, "cluster", ""), shared{}},
	} {
		if got, err := sharedOf(kinds.Group, tc.state); got != tc.want || err != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := sharedOf(kinds.Group, "{"); err == nil {
		t.Error("text that is not a state was accepted")
	}
}

// in returns the driver of another workspace of the same cluster.
func (c *cluster) in(shard string) *Driver {
	c.Helper()
	cfg := c.cfg
	cfg.Workspace = shard
	d, err := Open(c.Context(), cfg)
	c.must(err)
	return d
}

// portsByNode returns the ids and addresses of the cloud's ports, by name.
func (c *cluster) portsByNode() map[string][2]string {
	c.Helper()
	client, err := openstack.NewNetworkV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	pages, err := ports.List(client, ports.ListOpts{NetworkID: c.network}).AllPages(c.Context())
	c.must(err)
	found, err := ports.ExtractPorts(pages)
	c.must(err)
	all := map[string][2]string{}
	for _, p := range found {
		all[p.Name] = [2]string{p.ID, p.FixedIPs[0].IPAddress}
	}
	return all
}

// wantCleanByHand checks that an administrator's plain `terraform plan` has no changes in a workspace that was selected
// by hand.
func (c *cluster) wantCleanByHand(d *Driver, shard string) {
	c.Helper()
	c.must(d.with(c.cfg.Binary, func(tf *tfexec.Terraform) error {
		if err := tf.WorkspaceSelect(c.Context(), workspace(shard)); err != nil {
			return err
		}
		changes, err := tf.Plan(c.Context())
		if changes {
			c.Errorf("a plain plan in workspace %s finds changes", workspace(shard))
		}
		return err
	}))
}

// TestKeptPortsAndShards follows nodes with kept ports in the default workspace and in two others, which work
// concurrently.
func TestKeptPortsAndShards(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.write("terraform/openstack/additions.tf", shardedAdditions)
	port := func(shard string) reconfigure.Spec {
		return reconfigure.Spec{Group: "standard", NetworkID: c.network, Shard: shard}
	}
	node := func(shard, image string) reconfigure.Spec {
		s := c.spec("standard", image)
		s.Shard = shard
		return s
	}
	all := c.deployed("node01")
	maps.Copy(all, map[string]reconfigure.Spec{
		"node02": port(""), "node11": port("standard-1"), "node12": port("standard-1"), "node21": port("standard-2"),
	})
	drivers := map[string]*Driver{"": c.open(), "standard-1": c.in("standard-1"), "standard-2": c.in("standard-2")}
	first := planOf(reconfigure.Create, all, control, "node01")
	first.Shared = true
	first.KeptPorts = true // the default workspace makes them in the same run
	preview, err := drivers[""].Preview(t.Context(), first.InShard("", func(string) string { return "" }))
	c.must(err)
	if !slices.ContainsFunc(preview.Changes, func(c reconfigure.ResourceChange) bool { return c.Node == "node02" }) {
		t.Errorf("the kept port is not among %+v", preview.Changes)
	}
	c.must(drivers[""].Discard(preview))
	for _, shard := range reconfigure.Shards(all) { // the default one makes resources that the others need
		part := first.InShard(shard, func(string) string { return "" })
		if failures := c.carryOut(drivers[shard], part); len(failures) > 0 {
			t.Fatal(failures)
		}
	}
	ports := c.portsByNode()
	if len(ports) != 6 || len(c.servers()) != 2 {
		t.Fatalf("ports %v, servers %v", ports, c.servers())
	}
	for shard, d := range drivers {
		c.wantCleanByHand(d, shard)
		state, err := d.State(t.Context())
		c.must(err)
		addresses, err := d.Addresses(t.Context(), false)
		c.must(err)
		want := map[string]string{}
		for node := range reconfigure.InShard(all, shard) {
			want[node] = ports[node][1]
		}
		if diff := cmp.Diff(want, addresses); diff != "" {
			t.Errorf("addresses of the ports in %q (-want +got):\n%s", shard, diff)
		}
		if want := map[string]int{"": 2}[shard]; len(state.Instances) != want {
			t.Errorf("%s has instances %v", shard, state.Instances)
		}
	}

	// All shards work at once: each resumes a node, and the default one also removes one.
	mixed := planOf(reconfigure.Create, c.inMap(all, "node02", node("", imageV1)), "node02")
	c.inEach(drivers, map[string]reconfigure.Plan{
		"":           both(mixed, reconfigure.Remove, "node01", port("")),
		"standard-1": planOf(reconfigure.Create, c.inMap(all, "node11", node("standard-1", imageV1)), "node11"),
		"standard-2": planOf(reconfigure.Create, c.inMap(all, "node21", node("standard-2", imageV2)), "node21"),
	})
	if diff := cmp.Diff(ports, c.portsByNode()); diff != "" {
		t.Errorf("a resume or a suspend has changed ports:\n%s", diff)
	}
	servers := c.servers()
	if len(servers) != 4 || servers["node21"].Image != imageV2 {
		t.Errorf("servers: %v", servers)
	}
	kept, _, err := c.cfg.Keeper.Nodes(t.Context())
	c.must(err)
	want := maps.Clone(all)
	maps.Copy(want, map[string]reconfigure.Spec{
		"node01": port(""), "node02": node("", imageV1), "node11": node("standard-1", imageV1),
		"node21": node("standard-2", imageV2),
	})
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("the map of nodes (-want +got):\n%s", diff)
	}
	for shard, d := range drivers {
		c.wantCleanByHand(d, shard)
		found, err := d.Instances(t.Context())
		c.must(err)
		for name, i := range found {
			if i.Address != ports[name][1] || i.Made != kept[name] || i.Tainted {
				t.Errorf("%s is %+v", name, i)
			}
		}
	}
	shards, err := drivers[""].Shards(t.Context())
	if diff := cmp.Diff([]string{"", "standard-1", "standard-2"}, shards); diff != "" || err != nil {
		t.Errorf("shards: %v\n%s", err, diff)
	}
	c.refusals(drivers, kept)
	c.dividesOlderMap(drivers, kept)

	// An undeclared node is removed with its port; then the other workspaces, and the shared resources last.
	gone := planOf(reconfigure.Remove, reconfigure.InShard(kept, "standard-1"), "node11", "node12")
	delete(gone.Desired, "node12")
	gone.Desired["node11"] = port("standard-1")
	c.inEach(drivers, map[string]reconfigure.Plan{"standard-1": gone})
	if now := c.portsByNode(); now["node11"] != ports["node11"] || len(now) != 5 {
		t.Errorf("ports: %v", now)
	}
	c.wantCleanByHand(drivers["standard-1"], "standard-1")
	for _, shard := range []string{"standard-2", "standard-1", ""} {
		end := reconfigure.Plan{Shared: true}
		for node := range reconfigure.InShard(kept, shard) {
			end.Changes = append(end.Changes, reconfigure.Change{Node: node, Action: reconfigure.Remove})
		}
		c.inEach(drivers, map[string]reconfigure.Plan{shard: end})
	}
	if len(c.servers())+len(c.portsByNode()) > 0 {
		t.Errorf("left: %v, %v", c.servers(), c.portsByNode())
	}
}

// dividesOlderMap uses a cluster directory in which an earlier version left the nodes of all shards in one file.
func (c *cluster) dividesOlderMap(drivers map[string]*Driver, kept map[string]reconfigure.Spec) {
	c.Helper()
	m := drivers[""].nodes()
	now, _, err := m.readFile("")
	c.must(err)
	m.putOlder(c.T, kept, m.comment(), now.Shared)
	f, _, err := m.readFile("")
	c.must(err)
	f.ClusterID = now.ClusterID
	c.must(writeFile(m.path(), f))
	c.wantCleanByHand(drivers[""], "")
	err = drivers[""].with(c.cfg.Binary, func(tf *tfexec.Terraform) error {
		c.must(tf.WorkspaceSelect(c.Context(), "standard-1"))
		_, err := tf.Plan(c.Context())
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "nodes/standard-1.json") {
		c.Errorf("a workspace whose nodes are unknown is planned: %v", err)
	}
	c.must(m.Adopt(c.Context()))
	for shard, d := range drivers {
		c.wantCleanByHand(d, shard)
	}
}

// inMap returns a map of nodes with a different entry of one node.
func (c *cluster) inMap(
	all map[string]reconfigure.Spec, node string, spec reconfigure.Spec,
) map[string]reconfigure.Spec {
	part := reconfigure.InShard(all, spec.Shard)
	part[node] = spec
	return part
}

// both adds a change of one node to a plan.
func both(p reconfigure.Plan, action reconfigure.Action, node string, entry reconfigure.Spec) reconfigure.Plan {
	p.Desired[node] = entry
	p.Changes = append(p.Changes, reconfigure.Change{Node: node, Action: action})
	return p
}

// inEach carries out a plan for each shard, concurrently.
func (c *cluster) inEach(drivers map[string]*Driver, plans map[string]reconfigure.Plan) {
	c.Helper()
	var wait sync.WaitGroup
	for shard, p := range plans {
		wait.Go(func() {
			preview, err := drivers[shard].Preview(c.Context(), p)
			if err != nil {
				c.Errorf("%s: %v", shard, err)
				return
			}
			failures, err := drivers[shard].Apply(context.WithoutCancel(c.Context()), preview, c.watch, nil)
			if err != nil || len(failures) > 0 {
				c.Errorf("%s: %v, %v", shard, failures, err)
			}
		})
	}
	wait.Wait()
	if c.Failed() {
		c.FailNow()
	}
}

// refusals checks that invalid plans of a cluster with several states are rejected.
func (c *cluster) refusals(drivers map[string]*Driver, kept map[string]reconfigure.Spec) {
	c.Helper()
	here := reconfigure.InShard(kept, reconfigure.DefaultShard)
	for name, tc := range map[string]struct {
		shard, want string
		plan        reconfigure.Plan
	}{
		"another shard's node": {"", "to the workspace standard-1",
			planOf(reconfigure.Remove, here, "node11")},
		"the shared resources, too early": {"", "they must be removed first", reconfigure.Plan{Shared: true}},
	} {
		if _, err := drivers[tc.shard].Preview(c.Context(), tc.plan); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			c.Errorf("%s: %v", name, err)
		}
	}
	own := "terraform/openstack/own.tf"
	c.write(own, `resource "terraform_data" "own" { for_each = var.nodes }`)
	_, err := drivers[""].Preview(c.Context(), planOf(reconfigure.Create, here, "node02"))
	if err == nil || !strings.Contains(err.Error(), "local.nodes") {
		c.Errorf("a resource of each workspace's own: %v", err)
	}
	c.must(os.Remove(filepath.Join(c.dir, own)))
}

// A quota for ports does not prevent an instance from coming up.
func TestAPortThatCannotBeKeptIsNoNodesFailure(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	_, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.QuotaExceeded, Call: "POST ports", Skip: 2})
	c.must(err)
	all := c.deployed("node01")
	for _, node := range []string{"node02", "node03"} {
		all[node] = reconfigure.Spec{Group: "standard", NetworkID: c.network}
	}
	p := planOf(reconfigure.Create, all, control, "node01")
	p.Shared = true
	if failures := c.carryOut(d, p); len(failures) > 0 {
		t.Errorf("failures: %v", failures)
	}
	if ports := c.portsByNode(); len(ports) != 3 {
		t.Errorf("ports: %v", ports)
	}
	again := reconfigure.Plan{Shared: true, Desired: all}
	if failures := c.carryOut(d, again); len(failures) > 0 {
		t.Errorf("failures: %v", failures)
	}
	if ports := c.portsByNode(); len(ports) != 4 {
		t.Errorf("ports after the next deploy: %v", ports)
	}
	c.wantClean(d)
}
