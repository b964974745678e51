package terraform

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/eiffel-hpc/eiffel/lab/tools"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestASiteMovesToTheNewestProvider makes nodes with the oldest admitted provider: one that runs, a stopped one and one
// that only keeps its port. `terraform init -upgrade` then selects the newest one, whose plan must be empty.
func TestASiteMovesToTheNewestProvider(t *testing.T) {
	if os.Getenv("EIFFEL_PROVIDER") != tools.NewestProviderVersion {
		t.Skip("needs EIFFEL_PROVIDER=" + tools.NewestProviderVersion + ": make test-provider")
	}
	t.Parallel()
	c := newCluster(t, nil)
	newest := c.plugins("plugins-quick")
	oldest := strings.Replace(newest, "-"+tools.NewestProviderVersion, "", 1)
	c.mirror(oldest)
	d := c.open()
	desired := c.deployed("node01", "node02", "node03")
	c.deploy(d, desired)
	stopped := with(desired, "node02", reconfigure.PowerOff)
	if failures := c.carryOut(d, planOf(reconfigure.Stop, stopped, "node02")); len(failures) > 0 {
		t.Fatal(failures)
	}
	kept := maps.Clone(stopped)
	kept["node03"] = reconfigure.Spec{Group: "standard", NetworkID: c.network}
	if failures := c.carryOut(d, planOf(reconfigure.Remove, kept, "node03")); len(failures) > 0 {
		t.Fatal(failures)
	}
	c.wantClean(d)
	c.wantProvider(tools.ProviderVersion)
	servers, ports := c.servers(), c.ports()

	c.mirror(newest)
	c.must(d.run(func(tf *tfexec.Terraform) error { return tf.Init(t.Context(), tfexec.Upgrade(true)) }))
	c.wantProvider(tools.NewestProviderVersion)
	d = c.open()
	c.wantClean(d)
	c.wantRefusal(d, kept)
	c.wantInstances(d, c.servers())
	if diff := cmp.Diff(servers, c.servers(), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("the servers were touched:\n%s", diff)
	}
	if diff := cmp.Diff(ports, c.ports()); diff != "" {
		t.Errorf("the ports were touched:\n%s", diff)
	}

	// The newest one continues with each of them.
	for _, step := range []struct {
		action reconfigure.Action
		node   string
		change func(map[string]reconfigure.Spec)
	}{
		{reconfigure.Replace, "node01", func(m map[string]reconfigure.Spec) { m["node01"] = c.spec("standard", imageV2) }},
		{reconfigure.Start, "node02", func(m map[string]reconfigure.Spec) { m["node02"] = desired["node02"] }},
		{reconfigure.Create, "node03", func(m map[string]reconfigure.Spec) { m["node03"] = desired["node03"] }},
		{reconfigure.Remove, "node01", func(m map[string]reconfigure.Spec) { delete(m, "node01") }},
	} {
		step.change(kept)
		if failures := c.carryOut(d, planOf(step.action, kept, step.node)); len(failures) > 0 {
			t.Errorf("%s %s: %v", step.action, step.node, failures)
		}
		c.wantClean(d)
	}
	if diff := cmp.Diff(ports["node03"], c.ports()["node03"]); diff != "" {
		t.Errorf("the kept port:\n%s", diff)
	}
	c.wantInstances(d, c.servers())

	// The way back.
	c.mirror(oldest)
	c.must(d.run(func(tf *tfexec.Terraform) error { return tf.Init(t.Context(), tfexec.Upgrade(true)) }))
	c.wantProvider(tools.ProviderVersion)
	d = c.open()
	c.wantClean(d)
	c.wantRefusal(d, kept)
	kept["node01"] = desired["node01"]
	if failures := c.carryOut(d, planOf(reconfigure.Create, kept, "node01")); len(failures) > 0 {
		t.Error(failures)
	}
	c.wantClean(d)
}

// wantRefusal checks that the fence refuses to start node02 as long as that would also rebuild it. For that it reads
// the plan that Terraform has saved.
func (c *cluster) wantRefusal(d *Driver, nodes map[string]reconfigure.Spec) {
	c.Helper()
	other := maps.Clone(nodes)
	other["node02"] = c.spec("standard", imageV2)
	_, err := d.Preview(c.Context(), planOf(reconfigure.Start, other, "node02"))
	if unplannable := (*reconfigure.Unplannable)(nil); !errors.As(err, &unplannable) {
		c.Errorf("a start that would also rebuild: %v", err)
	}
}

// wantProvider checks which version of the provider `terraform init` has selected.
func (c *cluster) wantProvider(version string) {
	c.Helper()
	text, err := os.ReadFile(c.cfg.Dir + "/" + lockFile)
	c.must(err)
	if !strings.Contains(string(text), `version     = "`+version+`"`) {
		c.Errorf("%s is not selected:\n%s", version, text)
	}
}
