package terraform

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// with returns a map of nodes with another power state of a node.
func with(nodes map[string]reconfigure.Spec, node string, power reconfigure.Power) map[string]reconfigure.Spec {
	nodes = maps.Clone(nodes)
	spec := nodes[node]
	spec.Power = power
	nodes[node] = spec
	return nodes
}

// TestStopIsInterruptedAndAdopted interrupts Terraform when the cloud has stopped, started, shelved and unshelved an
// instance. The provider writes the planned power state to the state, even if it is interrupted.
func TestStopIsInterruptedAndAdopted(t *testing.T) {
	t.Parallel()
	c := newLagging(t)
	d := c.open()
	all := c.deployed("n1")
	c.deploy(d, all)
	before := c.servers()["n1"]
	for _, power := range []reconfigure.Power{reconfigure.PowerOff, "", reconfigure.Shelved, ""} {
		action := reconfigure.Start
		if power != "" {
			action = reconfigure.Stop
		}
		all = with(all, "n1", power)
		failures := c.interrupted(d, planOf(action, all, "n1"), string(all["n1"].Status()), func() bool {
			return c.servers()["n1"].Status == string(all["n1"].Status())
		})
		c.wantCutOff(failures, true, "n1")
		c.adopt(d, all, "n1")
		state, err := d.State(t.Context())
		c.must(err)
		is := state.Instances["n1"]
		if is.Made.Power != power || is.ID != before.ID || is.Tainted || is.Address != before.Addresses[0].String() {
			t.Errorf("after %s the state has %+v", all["n1"].Status(), is)
		}
		if diff := cmp.Diff(all, state.Desired); diff != "" {
			t.Errorf("the map of nodes (-want +got):\n%s", diff)
		}
	}
	c.wantClean(d)
}

// A killed Terraform does not write what the cloud has done. The state must not stay behind it.
func TestAKilledStopIsAdopted(t *testing.T) {
	t.Parallel()
	c := newLagging(t)
	d := c.open()
	all := c.deployed("n1")
	c.deploy(d, all)
	for _, power := range []reconfigure.Power{reconfigure.PowerOff, ""} {
		action := reconfigure.Start
		if power != "" {
			action = reconfigure.Stop
		}
		all = with(all, "n1", power)
		preview, err := d.Preview(t.Context(), planOf(action, all, "n1"))
		c.must(err)
		go func() {
			c.until(string(all["n1"].Status()), func() bool { return c.servers()["n1"].Status == string(all["n1"].Status()) })
			c.killTerraforms()
		}()
		if _, err := d.Apply(t.Context(), preview, c.watch, nil); !errors.Is(err, errKilled) {
			t.Fatalf("apply: %v", err)
		}
		c.adopt(d, all, "n1")
		state, err := d.State(t.Context())
		c.must(err)
		if is := state.Instances["n1"]; is.Made.Power != power || is.Tainted {
			t.Errorf("after %s the state has %+v", all["n1"].Status(), is)
		}
		c.wantClean(d)
	}
}

// TestAnInstanceThatDiffersOtherwiseIsNotStopped changes a site's module, so that Terraform would change existing
// instances in place. Other nodes must still be made.
func TestAnInstanceThatDiffersOtherwiseIsNotStopped(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	all := c.deployed("n1", "n2")
	c.deploy(d, all)
	const power = "power_state = each.value.power_state"
	main := repository(t, "terraform/openstack/main.tf")
	c.write("terraform/openstack/main.tf", strings.Replace(main, power, power+"\n  tags = [\"site\"]", 1))
	all["n3"] = c.spec("standard", imageV1)
	stop := with(all, "n1", reconfigure.PowerOff)
	p := planOf(reconfigure.Stop, stop, "n1")
	p.Changes = append(p.Changes, planOf(reconfigure.Create, stop, "n3").Changes...)
	_, err := d.Preview(t.Context(), p)
	bad, refusal := (*reconfigure.Unplannable)(nil), (*reconfigure.Refusal)(nil)
	if !errors.As(err, &bad) || len(bad.Failures) != 1 || !errors.As(bad.Failures["n1"], &refusal) ||
		len(refusal.Changes) != 1 || refusal.Changes[0].Effect != reconfigure.EffectUpdate {
		t.Fatalf("error %v", err)
	}
	if failures := c.carryOut(d, planOf(reconfigure.Create, all, "n3")); len(failures) > 0 {
		t.Errorf("n3: %v", failures)
	}
	if s := c.servers()["n1"]; s.Status != string(reconfigure.ServerActive) {
		t.Errorf("n1 is %s", s.Status)
	}
}

// An edit of resume_timeout changes how long Terraform waits for an instance. Existing instances do not differ by that:
// they can still be stopped and started, and neither a deploy nor a plan by hand changes them.
func TestAnotherTimeoutIsNoDifference(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	all := c.deployed("n1")
	c.deploy(d, all)
	c.declare("resume_timeout: 900", "resume_timeout: 1200")
	c.wantClean(d)
	deploy := reconfigure.Plan{Desired: all, Shared: true, Changes: []reconfigure.Change{
		{Node: control, Action: reconfigure.Configure}, {Node: "n1", Action: reconfigure.Configure},
	}}
	preview, err := d.Preview(t.Context(), deploy)
	if err != nil || len(preview.Changes) > 0 {
		t.Errorf("a deploy: %+v, %v", preview.Changes, err)
	}
	for _, power := range []reconfigure.Power{reconfigure.PowerOff, ""} {
		action := reconfigure.Start
		if power != "" {
			action = reconfigure.Stop
		}
		all = with(all, "n1", power)
		if failures := c.carryOut(d, planOf(action, all, "n1")); len(failures) > 0 {
			t.Errorf("%s: %v", action, failures)
		}
		if is := c.servers()["n1"].Status; is != string(all["n1"].Status()) {
			t.Errorf("after %s it is %s", action, is)
		}
	}
	c.wantClean(d)
}
