package terraform

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Administrators' resources for each node, made in the ways that the module's README describes.
const additions = `
resource "terraform_data" "scratch" {
  for_each = { for name, node in var.nodes : name => node if node.group == "standard" }
  input    = "${each.key}-scratch"
}

resource "terraform_data" "attachment" {
  for_each = terraform_data.scratch
  input    = [each.value.id, openstack_compute_instance_v2.node[each.key].id]
}

module "extra" {
  source   = "./extra"
  for_each = var.nodes
}
`

func TestOnlyTheNamedNodeChanges(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.write("terraform/openstack/additions.tf", additions)
	c.write("terraform/openstack/extra/main.tf", `resource "terraform_data" "inner" {}`)
	d := c.open()
	desired := c.deployed("node01", "node02")
	c.deploy(d, desired)
	c.wantClean(d)
	before := c.servers()
	c.wantInstances(d, before)

	// The declared image has changed; the change applies only to new instances.
	c.declare("image: debian-12\n    flavor: m1.large", "image: debian-13\n    flavor: m1.large")
	desired["node03"] = c.spec("standard", imageV2)
	delete(desired, "node02")
	mixed := planOf(reconfigure.Create, desired, "node03")
	mixed.Changes = append(mixed.Changes, planOf(reconfigure.Remove, desired, "node02").Changes...)
	if failures := c.carryOut(d, mixed); len(failures) > 0 {
		t.Fatal(failures)
	}
	c.wantClean(d)
	after := c.servers()
	c.wantInstances(d, after)
	if after["node03"].Image != imageV2 || len(after) != 3 {
		t.Errorf("after one node was removed and one was added: %+v", after)
	}
	for _, untouched := range []string{control, "node01"} {
		if diff := cmp.Diff(before[untouched], after[untouched], cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("%s was touched:\n%s", untouched, diff)
		}
	}

	everything := planOf(reconfigure.Remove, nil, slices.Sorted(maps.Keys(desired))...)
	everything.Shared = true
	if failures := c.carryOut(d, everything); len(failures) > 0 {
		t.Fatal(failures)
	}
	if left := c.servers(); len(left) > 0 {
		t.Errorf("after everything was removed: %+v", left)
	}
	c.wantClean(d)
	c.wantInstances(d, nil)
}

// wantInstances checks that the state has exactly the cloud's servers.
func (c *cluster) wantInstances(d *Driver, servers map[string]labcloud.Server) {
	c.Helper()
	got, err := d.Instances(c.Context())
	c.must(err)
	desired, err := d.Desired(c.Context())
	c.must(err)
	want := map[string]reconfigure.Instance{}
	for name, s := range servers {
		want[name] = reconfigure.Instance{Node: name, ID: s.ID, Address: s.Addresses[0].String(), Made: desired[name]}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("instances (-cloud +state):\n%s", diff)
	}
}

func TestNodeInErrorFailsAloneAndIsCleaned(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	_, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: "node02"})
	c.must(err)
	d := c.open()
	desired := c.deployed("node01", "node02", "node03")
	p := planOf(reconfigure.Create, desired, slices.Sorted(maps.Keys(desired))...)
	p.Shared = true
	failures := c.carryOut(d, p)
	if len(failures) != 1 || failures["node02"] == nil || !strings.Contains(failures["node02"].Error(), "ERROR") {
		t.Fatalf("failures: %v", failures)
	}
	found, err := d.Instances(t.Context())
	c.must(err)
	if !found["node02"].Tainted || found["node01"].Tainted || found["node03"].Tainted {
		t.Errorf("instances: %+v", found)
	}

	delete(desired, "node02")
	c.removeUnfinished(d, desired, "node02")
	c.wantClean(d)
	c.wantInstances(d, c.servers())
	if left := c.servers(); len(left) != 3 {
		t.Errorf("servers: %+v", left)
	}
}

// A quota allows the port but not the instance: only a part of the node exists.
func TestPartOfANodeIsReplacedOrRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	desired := c.deployed()
	c.deploy(d, desired)
	_, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.QuotaExceeded, Server: "node0[12]", Count: 2})
	c.must(err)
	maps.Copy(desired, c.deployed("node01", "node02"))
	failures := c.carryOut(d, planOf(reconfigure.Create, desired, "node01", "node02"))
	for _, node := range []string{"node01", "node02"} {
		if err := failures[node]; err == nil || !strings.Contains(err.Error(), "Quota exceeded") {
			t.Errorf("%s: Nova's words are not in %v", node, err)
		}
	}
	found, err := d.Instances(t.Context())
	c.must(err)
	if diff := cmp.Diff(reconfigure.Instance{Node: "node01", Tainted: true}, found["node01"]); diff != "" {
		t.Errorf("a node with only a port:\n%s", diff)
	}

	delete(desired, "node02")
	p := planOf(reconfigure.Replace, desired, "node01")
	p.Changes = append(p.Changes, planOf(reconfigure.Remove, desired, "node02").Changes...)
	if failures := c.carryOut(d, p); len(failures) > 0 {
		t.Fatal(failures)
	}
	c.wantClean(d)
	c.wantInstances(d, c.servers())
}

// Replace promises a new disk. If Terraform sees no change, it must be told to replace.
func TestReplaceRenewsAnInstanceThatDoesNotDiffer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	desired := c.deployed("node01", "node02")
	c.deploy(d, desired)
	before := c.servers()
	desired["node02"] = c.spec("standard", imageV2)
	if failures := c.carryOut(d, planOf(reconfigure.Replace, desired, "node01", "node02")); len(failures) > 0 {
		t.Fatal(failures)
	}
	after := c.servers()
	if after["node01"].ID == before["node01"].ID {
		t.Error("node01, whose map entry did not change, still has the same instance")
	}
	if after["node02"].ID != before["node02"].ID || after["node02"].Image != imageV2 {
		t.Errorf("node02, which gets another image, is not rebuilt in place: %+v", after["node02"])
	}
	c.wantClean(d)
}

// removeUnfinished removes an instance in ERROR or BUILD. If Nova is slow, this takes two attempts.
func (c *cluster) removeUnfinished(d *Driver, desired map[string]reconfigure.Spec, node string) {
	c.Helper()
	failures := c.carryOut(d, planOf(reconfigure.Remove, desired, node))
	if err := failures[node]; err != nil && reconfigure.ClassOf(err).Passing() {
		c.until("Nova has deleted it", func() bool { _, there := c.servers()[node]; return !there })
		failures = c.carryOut(d, planOf(reconfigure.Remove, desired, node))
	}
	if _, there := c.servers()[node]; there || len(failures) > 0 {
		c.Fatalf("%s still exists: %t; failures %v", node, there, failures)
	}
}

// The provider still finds ERROR, and gives up. Nova continues, and a second attempt finds nothing to remove.
func TestRemovalThatNovaHasNotCompletedMayBeRetried(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(cfg *labcloud.Config) { cfg.Timings.Delete = 2 * time.Second })
	_, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: "node01"})
	c.must(err)
	d := c.open()
	desired := c.deployed("node01")
	p := planOf(reconfigure.Create, desired, control, "node01")
	p.Shared = true
	if failures := c.carryOut(d, p); len(failures) != 1 {
		t.Fatalf("failures: %v", failures)
	}
	delete(desired, "node01")
	failures := c.carryOut(d, planOf(reconfigure.Remove, desired, "node01"))
	if class := reconfigure.ClassOf(failures["node01"]); len(failures) != 1 || !class.Passing() {
		t.Errorf("failures of class %s: %v", class, failures)
	}
	c.until("Nova has deleted it", func() bool { return len(c.servers()) == 1 })
	if failures := c.carryOut(d, planOf(reconfigure.Remove, desired, "node01")); len(failures) > 0 {
		t.Errorf("the second attempt: %v", failures)
	}
	c.wantInstances(d, c.servers())
}

func TestSharedResourcesChangeOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	desired := c.deployed()
	c.deploy(d, desired)
	c.declare("cluster_name: eiffel", "cluster_name: tower")
	maps.Copy(desired, c.deployed("node01"))
	_, err := d.Preview(t.Context(), planOf(reconfigure.Create, desired, "node01"))
	var refused *reconfigure.Refusal
	if !errors.As(err, &refused) || !strings.Contains(err.Error(),
		"shared: would update openstack_networking_secgroup_v2.cluster[0] (description, name)") {
		t.Fatalf("preview: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(c.cfg.PlanDir, previewPrefix+"*")); len(left) > 0 {
		t.Errorf("a refused preview leaves %q", left)
	}
	if was, err := d.Desired(t.Context()); err != nil || len(was) != 1 {
		t.Errorf("a refused preview wrote the map of nodes: %v, %v", was, err)
	}
}

func TestLockedErrorNamesTheOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	hang, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.Hang, Call: "POST servers"})
	c.must(err)
	d := c.open()
	desired := c.deployed()
	p := planOf(reconfigure.Create, desired, control)
	p.Shared = true
	preview, err := d.Preview(t.Context(), p)
	c.must(err)
	applied := make(chan error, 1)
	go func() {
		_, err := d.Apply(context.WithoutCancel(t.Context()), preview, func(string, string) {}, nil)
		applied <- err
	}()
	c.until("the call hangs", func() bool { return c.cloud.Faults().List()[0].Hits > 0 })

	c.cfg.LockTimeout = time.Hour // the owner is named much earlier
	other := c.open()
	soon, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	_, err = other.Preview(soon, p)
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Errorf("preview of a locked state: %v", err)
	} else if host, _ := os.Hostname(); locked.ID == "" || locked.Created == "" ||
		!strings.HasSuffix(locked.Who, "@"+host) || locked.Operation != "OperationTypeApply" {
		t.Errorf("locked by %+v", locked)
	} else if reconfigure.ClassOf(err) != reconfigure.ClassLocked ||
		!strings.Contains(err.Error(), "`terraform force-unlock "+locked.ID+"`") {
		t.Errorf("%s: %v", reconfigure.ClassOf(err), err)
	}
	c.cloud.Faults().Clear(hang)
	c.must(<-applied)
}

func TestKilledTerraformHasNoResultsByNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(cfg *labcloud.Config) { cfg.Timings.Build = time.Hour })
	d := c.open()
	p := planOf(reconfigure.Create, c.deployed(), control)
	p.Shared = true
	preview, err := d.Preview(t.Context(), p)
	c.must(err)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		c.until("an instance is being made", func() bool { return len(c.servers()) > 0 })
		c.killTerraforms()
	}()
	failures, err := d.Apply(t.Context(), preview, c.watch, nil)
	<-killed
	if !errors.Is(err, errKilled) || failures != nil {
		t.Errorf("apply: %v, %v", failures, err)
	}
}

// Nothing was changed, so the caller may try again.
func TestAKilledPlanMayBeRepeated(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	desired := c.deployed("node01")
	c.deploy(d, desired)
	desired["node01"] = c.spec("standard", imageV2)
	p := planOf(reconfigure.Replace, desired, "node01")
	hang, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.Hang, Call: "GET servers/{id}"})
	c.must(err)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		c.until("the provider asks for the server", func() bool { return c.cloud.Faults().List()[0].Hits > 0 })
		c.killTerraforms()
	}()
	_, err = d.Preview(t.Context(), p)
	if !errors.Is(err, errKilled) || !reconfigure.ClassOf(err).Passing() {
		t.Errorf("preview: %v, of class %s", err, reconfigure.ClassOf(err))
	}
	<-killed
	c.cloud.Faults().Clear(hang)
	if failures := c.carryOut(d, p); len(failures) > 0 {
		t.Errorf("the second preview and its apply: %v", failures)
	}
	c.wantClean(d)
}

func TestCancelledApplyEndsTerraformGracefully(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(cfg *labcloud.Config) { cfg.Timings.Build = time.Hour })
	d := c.open()
	p := planOf(reconfigure.Create, c.deployed(), control)
	p.Shared = true
	preview, err := d.Preview(t.Context(), p)
	c.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		c.until("an instance is being made", func() bool { return len(c.servers()) > 0 })
		cancel()
	}()
	if _, err := d.Apply(ctx, preview, c.watch, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("apply: %v", err)
	}
	found, err := d.Instances(t.Context())
	c.must(err)
	if i := found[control]; !i.Tainted || i.ID != c.servers()[control].ID {
		t.Errorf("the state lacks the unfinished resources: %+v", i)
	}
}

// until polls a condition for which there is no event.
func (c *cluster) until(what string, met func() bool) {
	for range 600 {
		if met() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.Errorf("after a minute still not: %s", what)
}

// killTerraforms kills the processes of terraforms.
func (c *cluster) killTerraforms() {
	for _, pid := range c.terraforms() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
	}
}

// terraforms returns the processes that run in the module's folder.
func (c *cluster) terraforms() []int {
	var found []int
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if dir, err := os.Readlink(link); err == nil && dir == c.cfg.Dir {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
				found = append(found, pid)
			}
		}
	}
	return found
}
