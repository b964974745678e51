package terraform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// interrupted previews a plan, applies it, and interrupts it when met.
func (c *cluster) interrupted(d *Driver, p reconfigure.Plan, what string, met func() bool) reconfigure.Failures {
	c.Helper()
	preview, err := d.Preview(c.Context(), p)
	c.must(err)
	interrupt, asked := make(chan struct{}), make(chan time.Time, 1)
	go func() {
		c.until(what, met)
		asked <- time.Now()
		close(interrupt)
	}()
	failures, err := d.Apply(c.Context(), preview, c.watch, interrupt)
	c.must(err)
	c.Logf("Terraform ended %s after the interrupt", time.Since(<-asked))
	return failures
}

// active reports whether the servers of these nodes are ACTIVE.
func (c *cluster) active(nodes ...string) func() bool {
	return func() bool {
		found := c.servers()
		return !slices.ContainsFunc(nodes, func(node string) bool { return found[node].Status != "ACTIVE" })
	}
}

// ports returns the ids of the cloud's ports, by name.
func (c *cluster) ports() map[string][]string {
	c.Helper()
	client, err := openstack.NewNetworkV2(c.admin, gophercloud.EndpointOpts{})
	c.must(err)
	pages, err := ports.List(client, ports.ListOpts{}).AllPages(c.Context())
	c.must(err)
	found, err := ports.ExtractPorts(pages)
	c.must(err)
	byName := map[string][]string{}
	for _, p := range found {
		byName[p.Name] = append(byName[p.Name], p.ID)
	}
	return byName
}

// port returns the port of a server.
func (c *cluster) port(_ context.Context, server string) (string, error) {
	ports := c.ports()
	for node, s := range c.servers() {
		if s.ID == server && len(ports[node]) == 1 {
			return ports[node][0], nil
		}
	}
	return "", fmt.Errorf("server %s has no port, or several", server)
}

// listed returns the cloud's data about the servers of these nodes, in the form for Adopt.
func (c *cluster) listed(nodes ...string) map[string]reconfigure.Server {
	c.Helper()
	all := c.servers()
	found := map[string]reconfigure.Server{}
	for _, node := range nodes {
		s := all[node]
		found[node] = reconfigure.Server{
			ID: s.ID, Node: node, Status: reconfigure.ServerStatus(s.Status), Address: s.Addresses[0].String(), ImageID: s.Image,
		}
	}
	return found
}

// adopt adopts servers; none may fail.
func (c *cluster) adopt(d *Driver, desired map[string]reconfigure.Spec, nodes ...string) {
	c.Helper()
	begin := time.Now()
	adopted, failures, err := d.Adopt(c.Context(), planOf(reconfigure.Create, desired, nodes...), c.listed(nodes...))
	c.must(err)
	c.Logf("Adopt took %s", time.Since(begin))
	if len(failures) > 0 || !slices.Equal(slices.Sorted(adopted.All()), nodes) {
		c.Errorf("adopted %s, failures %v", adopted, failures)
	}
}

// entries returns a node's part of the state, by block.
func (c *cluster) entries(d *Driver, node string) map[string]string {
	c.Helper()
	state, err := d.pull(c.Context())
	c.must(err)
	found := map[string]string{}
	for _, r := range state.resources {
		for _, i := range r.at(node) {
			for name, raw := range r.instances[i] {
				found[r.block()+" "+name] = strings.Join(strings.Fields(string(raw)), "")
			}
		}
	}
	return found
}

// wantCutOff checks that the interrupt cut off exactly these nodes, before or after their change began.
func (c *cluster) wantCutOff(failures reconfigure.Failures, begun bool, nodes ...string) {
	c.Helper()
	if len(failures) != len(nodes) {
		c.Errorf("failures: %v", failures)
	}
	for _, node := range nodes {
		err := failures[node]
		if !errors.Is(err, reconfigure.ErrInterrupted) || errors.Is(err, reconfigure.ErrUntried) == begun ||
			begun && reconfigure.ClassOf(err) != reconfigure.ClassUnknown {
			c.Errorf("%s: error of class %s: %v", node, reconfigure.ClassOf(err), err)
		}
	}
}

func TestInterruptWaitsForWhatItWouldLose(t *testing.T) {
	const is = reconfigure.KindInstance
	node := instance(instanceBlock, "n1")
	changes := []reconfigure.ResourceChange{
		{Address: node, Node: "n1", Effect: reconfigure.EffectCreate, Kind: is},
		{Address: "port.n1", Node: "n1", Effect: reconfigure.EffectCreate},
		{Address: "port.n2", Node: "n2", Effect: reconfigure.EffectDelete},
		{Address: "volume.n1", Node: "n1", Effect: reconfigure.EffectUpdate},
		{Address: instance(instanceBlock, "n3"), Node: "n3", Effect: reconfigure.EffectResize, Kind: is},
		{Address: instance(instanceBlock, "n4"), Node: "n4", Effect: reconfigure.EffectRebuild, Kind: is},
	}
	for name, tc := range map[string]struct {
		events []string
		sent   bool
	}{
		"nothing is begun":          {nil, false},
		"an instance is made":       {[]string{"start " + node + " create"}, true},
		"a port is made":            {[]string{"start port.n1 create"}, false},
		"a port is made beside one": {[]string{"start " + node + " create", "start port.n1 create"}, false},
		"a port is done":            {[]string{"start port.n1 create", "done port.n1 create"}, true},
		"a port failed":             {[]string{"start port.n1 create", "errored port.n1 create"}, true},
		"a port is deleted":         {[]string{"start port.n2 delete 1"}, true},
		"a volume is changed":       {[]string{"start volume.n1 update 1"}, false},
		"an instance is resized":    {[]string{"start " + changes[4].Address + " update 1"}, false},
		"an instance is rebuilt":    {[]string{"start " + changes[5].Address + " update 1"}, true},
		"a port is done, another is begun": {
			[]string{"start port.n1 create", "start volume.n1 update 1", "done port.n1 create"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []bool{true, false} { // whether the interrupt is requested before
				sent := 0
				i := newInterrupter(changes, func() { sent++ })
				if first {
					i.ask(false)
				}
				for _, e := range script(t, tc.events...) {
					i.hear(e)
				}
				if !first {
					i.ask(false)
				}
				// If the interrupt was requested first, it may be sent before the last event.
				early := first && len(tc.events) > 1 && sent == 1
				if sent == 1 != tc.sent && !early || i.wasSent() != (sent == 1) {
					t.Errorf("asked first: %t, sent %d times", first, sent)
				}
				if i.ask(true); sent != min(1, len(tc.events)) {
					t.Errorf("after the grace it was sent %d times", sent)
				}
			}
		})
	}
}

// Terraform has no results by node if a shared resource is not complete, so no grace period ends that wait.
func TestInterruptWaitsForSharedResources(t *testing.T) {
	node := instance(instanceBlock, "n1")
	changes := []reconfigure.ResourceChange{
		{Address: node, Node: "n1", Effect: reconfigure.EffectCreate, Kind: reconfigure.KindInstance},
		{Address: "group", Effect: reconfigure.EffectCreate},
		{Address: "rule", Effect: reconfigure.EffectReplace},
		{Address: "key", Effect: reconfigure.EffectUpdate},
	}
	sent := 0
	i := newInterrupter(changes, func() { sent++ })
	i.ask(true)
	for _, e := range script(t,
		"start group create", "done group create", "start "+node+" create", "start rule delete 1", "done rule delete",
		"start rule create", "start key update 1", "done key update", "errored rule create", "start rule create",
	) {
		if i.hear(e); sent > 0 {
			t.Fatalf("it was sent at %+v", e.Hook)
		}
	}
	for _, e := range script(t, "done rule create") {
		i.hear(e)
	}
	if sent != 1 {
		t.Errorf("sent %d times after the last shared resource", sent)
	}
}

func TestInterruptIsSentAfterTheGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan struct{})
		port := reconfigure.ResourceChange{Address: "port.n1", Node: "n1", Effect: reconfigure.EffectCreate}
		i := newInterrupter([]reconfigure.ResourceChange{port}, func() { close(sent) })
		for _, e := range script(t, "start port.n1 create") {
			i.hear(e)
		}
		interrupt, ended := make(chan struct{}), make(chan struct{})
		begin := time.Now()
		go i.attend(interrupt, ended)
		close(interrupt)
		<-sent
		if waited := time.Since(begin); waited != fragileGrace {
			t.Errorf("sent after %s", waited)
		}
		close(ended)
	})
}

func TestVerdictsOfAnInterruptedRun(t *testing.T) {
	changes := []reconfigure.ResourceChange{
		{Address: "i.a", Node: "a", Effect: reconfigure.EffectCreate},
		{Address: "i.b", Node: "b", Effect: reconfigure.EffectDelete},
		{Address: "p.b", Node: "b", Effect: reconfigure.EffectDelete},
		{Address: "i.c", Node: "c", Effect: reconfigure.EffectCreate},
		{Address: "group", Effect: reconfigure.EffectUpdate},
	}
	const (
		cut    = "error i.a Error waiting for instance (1) to become ready: context canceled"
		halted = "error - execution halted"
	)
	for name, tc := range map[string]struct {
		events  []string
		want    map[string]string
		unclear bool
	}{
		"cut off, done, and not begun": {
			[]string{"done group update", "start i.a create", "done i.c create", "errored i.a create", cut, halted,
				halted},
			map[string]string{"a": "cut off", "b": "not begun"}, false,
		},
		"everything is done": {
			[]string{"done group update", "done i.a create", "done i.b delete", "done p.b delete", "done i.c create",
				halted},
			map[string]string{}, false,
		},
		"half of a node is begun": {
			[]string{
				"done group update", "done i.a create", "done i.c create", "start i.b delete 2", "errored i.b delete",
				"error - Error waiting for instance (2) to Delete:  context canceled", halted,
			},
			map[string]string{"b": "cut off"}, false,
		},
		"one has a reason of its own": {
			[]string{
				"done group update", "start i.a create", "errored i.a create", "error i.a no valid host",
				"done i.c create", halted,
			},
			map[string]string{"a": "no valid host", "b": "not begun"}, false,
		},
		"what is shared is not done": {[]string{"done i.a create", halted}, nil, true},
		"an error without a resource": {
			[]string{"done group update", halted, "error - failed to write the state"}, nil, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			failures, all := classes.cutOff(changes, script(t, tc.events...))
			if all == tc.unclear {
				t.Fatalf("accounts for everything: %t, %v", all, failures)
			}
			if tc.unclear {
				return
			}
			got := map[string]string{}
			for node, err := range failures {
				switch {
				case errors.Is(err, reconfigure.ErrUntried) && errors.Is(err, reconfigure.ErrInterrupted):
					got[node] = "not begun"
				case errors.Is(err, reconfigure.ErrInterrupted):
					got[node] = "cut off"
				default:
					got[node] = err.Error()
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestServersOfAnInterruptedApplyAreAdopted(t *testing.T) {
	t.Parallel()
	c := newLagging(t)
	d := c.open()
	desired := c.deployed("node01")
	c.deploy(d, desired)
	maps.Copy(desired, c.deployed("node02", "node03"))
	create := planOf(reconfigure.Create, desired, "node02", "node03")
	failures := c.interrupted(d, create, "both are ACTIVE", c.active("node02", "node03"))
	c.wantCutOff(failures, true, "node02", "node03")
	before := c.servers()
	found, err := d.Instances(t.Context())
	c.must(err)
	for _, node := range []string{"node02", "node03"} {
		if i := found[node]; !i.Tainted || i.ID != before[node].ID {
			t.Errorf("%s is to be tainted in the state: %+v", node, i)
		}
	}

	// An entry that differs from the declaration is restored; the other instance is adopted nevertheless.
	was := c.entries(d, "node03")
	wrong := maps.Clone(desired)
	wrong["node03"] = c.spec("standard", imageV2)
	create.Desired = wrong
	adopted, failures, err := d.Adopt(t.Context(), create, c.listed("node02", "node03"))
	c.must(err)
	if adopted.String() != "node02" || len(failures) != 1 || failures["node03"] == nil ||
		!strings.Contains(failures["node03"].Error(), "Terraform would update "+instance(instanceBlock, "node03")) {
		t.Errorf("adopted %s, failures %v", adopted, failures)
	}
	if diff := cmp.Diff(was, c.entries(d, "node03")); diff != "" {
		t.Errorf("node03 is not as it was:\n%s", diff)
	}

	c.adopt(d, desired, "node02", "node03")
	c.wantClean(d)
	c.wantInstances(d, before)
	if diff := cmp.Diff(before, c.servers(), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("the servers were touched:\n%s", diff)
	}
}

// The interrupt comes before any resource exists, while a port is made, and before Nova has answered.
func TestInterruptLosesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(cfg *labcloud.Config) { cfg.Timings.Build = 2 * time.Second })
	c.provider("plugins") // with its fixed wait, which is interrupted
	d := c.open()
	desired := c.deployed()
	c.deploy(d, desired)
	maps.Copy(desired, c.deployed("node01"))
	create := planOf(reconfigure.Create, desired, "node01")
	c.wantCutOff(c.interrupted(d, create, "nothing", func() bool { return true }), false, "node01")
	if left := c.ports()["node01"]; len(left) > 0 {
		t.Errorf("ports after an apply that was interrupted at once: %v", left)
	}

	// From here on the answer to the POST of a server comes after the interrupt.
	hang, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.Hang, Call: "POST servers"})
	c.must(err)
	var posted atomic.Bool
	go func() {
		c.until("a server is posted", func() bool { return c.cloud.Faults().List()[0].Hits > 0 })
		posted.Store(true)
		// There is no event for the receipt of the signal. If this is too short, the test is only less strict.
		time.Sleep(500 * time.Millisecond)
		c.cloud.Faults().Clear(hang)
	}()

	// The interrupt comes during the wait for the port, or later on a busy machine.
	failures := c.interrupted(d, create, "there is a port", func() bool { return len(c.ports()["node01"]) > 0 })
	port := c.ports()["node01"]
	if c.servers()["node01"].Status == "ACTIVE" && len(failures) == 0 {
		// The provider's framework forgets a stop that comes just before a request (terraform-plugin-sdk v2,
		// Stop): then it completes the server, and nothing is lost either.
		c.Log("the interrupt came between the port and the server, without effect")
		return
	}
	if !posted.Load() {
		if !errors.Is(failures["node01"], reconfigure.ErrInterrupted) {
			t.Errorf("failures: %v", failures)
		}
		found, err := d.Instances(t.Context())
		c.must(err)
		if _, known := found["node01"]; !known || len(port) != 1 {
			t.Fatalf("the state does not know the port: %+v, the cloud has %v", found["node01"], port)
		}
		failures = c.interrupted(d, create, "the call hangs", posted.Load)
	}
	c.wantCutOff(failures, true, "node01")
	switch s := c.servers()["node01"]; s.Status {
	case "BUILD", "ACTIVE": // ACTIVE if Terraform has taken long to end
	case "": // provider 3.4.0 has cancelled the call, so the cloud makes nothing
		if failures := c.carryOut(d, create); len(failures) > 0 {
			t.Errorf("the second creation: %v", failures)
		}
		c.wantClean(d)
		return
	default:
		t.Fatalf("the server is to be built: %+v", s)
	}

	// It cannot be adopted before it is ACTIVE.
	unready := map[string]reconfigure.Server{"node01": {ID: c.servers()["node01"].ID, Status: "BUILD"}}
	adopted, failures, err := d.Adopt(t.Context(), create, unready)
	if err != nil || !adopted.Empty() || failures["node01"] == nil {
		t.Errorf("adopted %s, failures %v, error %v", adopted, failures, err)
	}
	c.until("it is ACTIVE", c.active("node01"))
	before := c.servers()
	c.adopt(d, desired, "node01")
	c.wantClean(d)
	c.wantInstances(d, before)
	if now := c.ports()["node01"]; !slices.Equal(now, port) {
		t.Errorf("port %v became %v", port, now)
	}
}

func TestServersThatAKilledApplyLeftUnknownAreAdopted(t *testing.T) {
	t.Parallel()
	c := newLagging(t)
	d := c.open()
	desired := c.deployed("node01")
	c.deploy(d, desired)
	maps.Copy(desired, c.deployed("node02", "node03"))
	preview, err := d.Preview(t.Context(), planOf(reconfigure.Create, desired, "node02", "node03"))
	c.must(err)
	go func() {
		c.until("both are ACTIVE", c.active("node02", "node03"))
		c.killTerraforms()
	}()
	if _, err := d.Apply(t.Context(), preview, c.watch, nil); !errors.Is(err, errKilled) {
		t.Fatalf("apply: %v", err)
	}
	before := c.servers()
	found, err := d.Instances(t.Context())
	c.must(err)
	for _, node := range []string{"node02", "node03"} {
		if i := found[node]; i.ID != "" {
			t.Fatalf("the state knows %s: %+v", node, i)
		}
	}
	// A backend that is not a file may not have learned of the port either.
	state, err := d.pull(t.Context())
	c.must(err)
	state.of(portBlock).put("node03", nil)
	c.must(d.push(t.Context(), state))
	was := map[string]map[string]string{"node02": c.entries(d, "node02"), "node03": c.entries(d, "node03")}

	// A server with another port than in the state, and one that was made from another source.
	servers := c.listed("node02", "node03")
	other := servers["node02"]
	other.PortID = c.ports()["node03"][0]
	wrong := maps.Clone(desired)
	wrong["node03"] = c.spec("standard", imageV2)
	adopted, failures, err := d.Adopt(t.Context(), planOf(reconfigure.Create, wrong, "node02", "node03"),
		map[string]reconfigure.Server{"node02": other, "node03": servers["node03"]})
	if err != nil || !adopted.Empty() || len(failures) != 2 {
		t.Errorf("adopted %s, failures %v, error %v", adopted, failures, err)
	}
	for node, was := range was {
		if diff := cmp.Diff(was, c.entries(d, node)); diff != "" {
			t.Errorf("%s is not as it was:\n%s", node, diff)
		}
	}

	c.adopt(d, desired, "node02", "node03")
	c.wantClean(d)
	c.wantInstances(d, before)
	if diff := cmp.Diff(before, c.servers(), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("the servers were touched:\n%s", diff)
	}
	// The new entries equal those of a creation, except for properties that are specific to a node.
	want, got := c.entries(d, "node01"), c.entries(d, "node03")
	for _, own := range []string{instanceBlock, portBlock} {
		for _, name := range []string{" attributes", " index_key"} {
			delete(want, own+name)
			delete(got, own+name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("beside the attributes (-created +entered):\n%s", diff)
	}
	// Terraform can remove an adopted instance.
	delete(desired, "node03")
	if failures := c.carryOut(d, planOf(reconfigure.Remove, desired, "node03")); len(failures) > 0 {
		t.Errorf("removal: %v", failures)
	}
	c.wantClean(d)
}

func TestInterruptedRebuildAndRemovalAreCompleted(t *testing.T) {
	t.Parallel()
	c := newLagging(t)
	d := c.open()
	desired := c.deployed("node01", "node02")
	c.deploy(d, desired)
	before := c.servers()
	desired["node01"] = c.spec("standard", imageV2)
	c.wantCutOff(c.interrupted(d, planOf(reconfigure.Replace, desired, "node01"), "it is rebuilt", func() bool {
		now := c.servers()["node01"]
		return now.Image == imageV2 && now.Status == "ACTIVE" && now.Task == ""
	}), true, "node01")
	c.adopt(d, desired, "node01")
	c.wantClean(d)
	found, err := d.Instances(t.Context())
	c.must(err)
	if i := found["node01"]; i.Tainted || i.ID != before["node01"].ID || i.Made != desired["node01"] {
		t.Errorf("after the rebuild: %+v", i)
	}

	delete(desired, "node02")
	remove := planOf(reconfigure.Remove, desired, "node02")
	gone := func() bool { _, there := c.servers()["node02"]; return !there }
	c.wantCutOff(c.interrupted(d, remove, "it is gone", gone), true, "node02")
	found, err = d.Instances(t.Context())
	c.must(err)
	if i := found["node02"]; i.ID != before["node02"].ID {
		t.Errorf("an instance whose removal was not observed must stay in the state: %+v", i)
	}
	begin := time.Now()
	if failures := c.carryOut(d, remove); len(failures) > 0 {
		t.Errorf("the second removal: %v", failures)
	}
	t.Logf("the second removal took %s", time.Since(begin))
	c.wantClean(d)
	c.wantInstances(d, c.servers())
	if left := c.ports()["node02"]; len(left) > 0 {
		t.Errorf("ports of a removed node: %v", left)
	}
}
