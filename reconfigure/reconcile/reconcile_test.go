package reconcile

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/openstack"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const minAge = 15 * time.Minute

// example is a cluster with the persistent node n1 and the cloud nodes n2 to n4.
func example() reconfigure.Cluster {
	source := reconfigure.Source{Image: "v1", Flavor: "f", Network: "n"}
	return reconfigure.Cluster{
		Name: "eiffel", Control: reconfigure.Control{Name: "ctl", Source: source},
		Groups: []reconfigure.NodeGroup{{Name: "standard", Prefix: "n", Width: 1, Source: source, Min: 1, Max: 4}},
	}
}

// observation is a snapshot that a test builds, and the nodes of current requests.
type observation struct {
	snapshot.Snapshot
	busy Busy
}

func (o observation) compare(c reconfigure.Cluster) []Finding {
	return Compare(c, o.Snapshot, o.busy, minAge, commands())
}

func commands() reconfigure.CloudCommands { return openstack.Provider().Commands }

// unreachable makes a source unreachable.
func (o *observation) unreachable(source snapshot.System) {
	o.Missing[source] = "no route to host"
	switch source {
	case snapshot.Cloud:
		o.Servers, o.Sources = nil, nil
	case snapshot.Slurm:
		o.States = nil
	case snapshot.Terraform:
		o.Instances, o.Desired = nil, nil
	}
}

// healthy is the example cluster without requests: ctl and n1 exist, the others are powered down.
func healthy() observation {
	o := observation{Snapshot: snapshot.Snapshot{
		Time: now, Desired: map[string]reconfigure.Spec{}, Instances: map[string]reconfigure.Instance{},
		States: map[string]reconfigure.NodeState{}, Servers: map[string][]reconfigure.Server{},
		Sources: map[reconfigure.Source]reconfigure.Resolved{
			{Image: "v1", Flavor: "f", Network: "n"}: {ImageID: "image-v1", FlavorID: "f", NetworkID: "n"},
		},
		Missing: map[snapshot.System]string{},
	}}
	o.has("ctl", "control")
	o.has("n1", "standard")
	o.slurm("n1", "IDLE")
	for _, node := range []string{"n2", "n3", "n4"} {
		o.slurm(node, "IDLE CLOUD POWERED_DOWN")
	}
	return o
}

// has gives a node an instance about which Terraform and the cloud agree.
func (o *observation) has(node, group string) {
	o.Desired[node] = reconfigure.Spec{Group: group, ImageID: "image-v1", FlavorID: "f", NetworkID: "n"}
	o.Instances[node] = reconfigure.Instance{Node: node, ID: "id-" + node, Address: "192.0.2.1"}
	o.serve(node, "id-"+node, time.Hour)
}

// serve adds an instance of a certain age to the cloud.
func (o *observation) serve(node, id string, age time.Duration) {
	o.Servers[node] = append(o.Servers[node], reconfigure.Server{
		ID: id, Status: reconfigure.ServerActive, Address: "192.0.2.1", ImageID: "image-v1", Created: now.Add(-age),
	})
}

// port adds an unused port of a certain age to the cloud.
func (o *observation) port(node, id string, age time.Duration) {
	if o.Ports == nil {
		o.Ports = map[string][]reconfigure.Port{}
	}
	o.Ports[node] = append(o.Ports[node], reconfigure.Port{ID: id, Node: node, Created: now.Add(-age)})
}

func (o *observation) slurm(node, states string) {
	state := reconfigure.SlurmNode(node, strings.Fields(states)...)
	state.Busy = state.Has(reconfigure.NodeAllocated)
	o.States[node] = state
}

func (o *observation) reason(node, reason string) {
	state := o.States[node]
	state.Reason = reason
	o.States[node] = state
}

func (o *observation) taint(node string) {
	i := o.Instances[node]
	i.Tainted = true
	o.Instances[node] = i
}

func TestFindings(t *testing.T) {
	one := func(node string, kind Kind, fix Fix, command string) []Finding {
		return []Finding{{Node: node, Kind: kind, Fix: fix, Command: command}}
	}
	leakedPort := func(node string, fix Fix, command string) []Finding {
		return []Finding{{Node: node, Kind: LeakedPort, Port: "p", Fix: fix, Command: command}}
	}
	for name, test := range map[string]struct {
		see  func(*observation)
		want []Finding
	}{
		"nothing": {func(o *observation) {}, nil},
		"a cloud node at work": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "ALLOCATED CLOUD")
		}, nil},
		"leaked": {func(o *observation) { o.has("n2", "standard") }, one("n2", Leaked, Suspend, "")},
		"cleaned for an image": {func(o *observation) {
			o.slurm("n1", "IDLE DRAIN")
			o.reason("n1", "reconfigure: "+reconfigure.ImageReason+": no valid host")
		}, one("n1", Cleaned, None, reimaging)},
		"cleaned for an image, and made anew": {func(o *observation) {
			o.reason("n1", "reconfigure: "+reconfigure.ImageReason)
		}, nil},
		"leaked, after ResumeTimeout": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "DOWN CLOUD POWERED_DOWN")
		}, one("n2", Leaked, Suspend, "")},
		"about to be used again": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "ALLOCATED CLOUD POWERED_DOWN POWER_UP")
		}, nil},
		"leaked, and Slurm does not know it": {func(o *observation) {
			o.has("n2", "standard")
			delete(o.States, "n2")
		}, one("n2", Leaked, None, deploying)},
		"down, which Slurm ends by itself": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "DOWN CLOUD")
		}, nil},
		"powers down without a request": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "IDLE CLOUD POWERING_DOWN")
		}, one("n2", PowersDown, Suspend, "")},
		"powers down without an instance": {func(o *observation) { o.slurm("n2", "IDLE CLOUD POWERING_DOWN") }, nil},
		"powers up without a request": {
			func(o *observation) { o.slurm("n2", "ALLOCATED CLOUD POWERING_UP") }, one("n2", PowersUp, Resume, ""),
		},
		"powers up with an instance": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "ALLOCATED CLOUD POWERING_UP")
		}, one("n2", PowersUp, Resume, "")},
		"powers up, and a request is at work": {func(o *observation) {
			o.slurm("n2", "ALLOCATED CLOUD POWERING_UP")
			o.busy.Nodes = nodeset.Of("n2")
		}, nil},
		"a request for the whole cluster is at work": {func(o *observation) {
			o.has("n2", "standard")
			o.busy.Whole = true
		}, nil},
		"up without an instance": {
			func(o *observation) { o.slurm("n2", "ALLOCATED CLOUD NOT_RESPONDING") }, one("n2", Hollow, None, poweringDown),
		},
		"powered down, and not responding": {func(o *observation) {
			o.slurm("n2", "IDLE CLOUD POWERED_DOWN NOT_RESPONDING")
		}, one("n2", Forgotten, HandBack, "")},
		"powered down, and not responding, with an instance": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "IDLE CLOUD POWERED_DOWN NOT_RESPONDING")
		}, one("n2", Leaked, Suspend, "")},
		"powered down, and drained by us": {func(o *observation) {
			o.slurm("n2", "IDLE CLOUD POWERED_DOWN DRAIN")
			o.reason("n2", "reconfigure: unhealthy: health check disks failed")
		}, one("n2", Forgotten, HandBack, "")},
		"powered down, and drained by somebody": {func(o *observation) {
			o.slurm("n2", "IDLE CLOUD POWERED_DOWN DRAIN")
			o.reason("n2", "fan broken")
		}, nil},
		"DOWN since slurmctld was restarted while it booted": {func(o *observation) {
			o.slurm("n2", "DOWN CLOUD POWERED_DOWN")
			o.reason("n2", "ResumeTimeout reached")
		}, one("n2", Forgotten, HandBack, "")},
		"DOWN since slurmctld was restarted while it booted, with an instance": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "DOWN CLOUD POWERED_DOWN")
			o.reason("n2", "ResumeTimeout reached")
		}, one("n2", Leaked, Suspend, "")},
		"set DOWN by somebody, and powered down": {func(o *observation) {
			o.slurm("n2", "DOWN CLOUD POWERED_DOWN")
			o.reason("n2", "fan broken")
		}, nil},
		"powers down for ever": {func(o *observation) {
			o.slurm("n2", "IDLE CLOUD POWERING_DOWN")
			o.busy.Calm = nodeset.Of("n2")
		}, one("n2", Lingering, None, poweredDown)},
		"set DOWN by us": {func(o *observation) {
			o.slurm("n2", "DOWN CLOUD")
			o.reasoned("n2", "reconfigure: boot: no SSH")
		}, one("n2", SetDown, HandBack, "")},
		"set DOWN by us, and declared no more": {func(o *observation) {
			o.slurm("old1", "DOWN CLOUD")
			o.reasoned("old1", "reconfigure: boot: no SSH")
			o.serve("old1", "stray", time.Hour)
		}, []Finding{{Node: "old1", Kind: Orphan, Server: "stray", Command: commands().Remove + "stray"}}},
		"persistent, and rebooted by itself": {
			func(o *observation) { o.slurm("n1", "DOWN NOT_RESPONDING") }, one("n1", Silent, Resume, ""),
		},
		"persistent, and left drained by an update": {func(o *observation) {
			o.slurm("n1", "IDLE DRAIN")
			o.reason("n1", "reconfigure: update")
		}, one("n1", Drained, Update, "")},
		"left drained for an image, with a job": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "ALLOCATED CLOUD DRAIN")
			o.reason("n2", "reconfigure: image")
		}, one("n2", Drained, Update, "")},
		"left drained by a reboot that no control host accepted": {func(o *observation) {
			o.slurm("n1", "DOWN DRAIN")
			o.reason("n1", "reconfigure: control host 192.0.2.10 did not answer : reboot timed out")
		}, one("n1", Drained, Update, "")},
		"left drained, since its update failed": {func(o *observation) {
			o.slurm("n1", "DOWN DRAIN")
			o.reason("n1", "reconfigure: no-ssh: no route to host")
		}, one("n1", Drained, None, updating)},
		"drained, and a request is at work on it": {func(o *observation) {
			o.slurm("n1", "IDLE DRAIN")
			o.reason("n1", "reconfigure: update")
			o.busy.Nodes = nodeset.Of("n1")
		}, nil},
		"drained by somebody": {func(o *observation) {
			o.slurm("n1", "IDLE DRAIN")
			o.reason("n1", "update of the BIOS")
		}, nil},
		"drained for its age": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "ALLOCATED CLOUD DRAIN POWER_DOWN")
			o.reason("n2", "reconfigure: "+reconfigure.AgedReason)
		}, nil},
		"undrained, with our reason left": {func(o *observation) { o.reason("n1", "reconfigure: update") }, nil},
		"persistent, and drained before":  {func(o *observation) { o.slurm("n1", "DOWN DRAIN NOT_RESPONDING") }, nil},
		"persistent, and set DOWN":        {func(o *observation) { o.slurm("n1", "DOWN") }, nil},
		"persistent, and about to be DOWN": {
			func(o *observation) { o.slurm("n1", "IDLE NOT_RESPONDING") }, nil,
		},
		"persistent without an instance": {func(o *observation) {
			o.gone("n1")
			o.slurm("n1", "DOWN NOT_RESPONDING")
		}, one("n1", Missing, Enlarge, "")},
		"persistent without an instance, told": {func(o *observation) {
			delete(o.Instances, "n1")
			delete(o.Servers, "n1")
			o.slurm("n1", "DOWN NOT_RESPONDING")
		}, one("n1", Missing, Enlarge, "")},
		"persistent without an instance, but something answers": {
			func(o *observation) { o.gone("n1") }, one("n1", Missing, None, ""),
		},
		"persistent by an edit that nobody has asked for": {func(o *observation) {
			o.gone("n1")
			o.slurm("n1", "IDLE CLOUD POWERED_DOWN")
		}, one("n1", Missing, None, resizing)},
		"persistent, powered down": {
			func(o *observation) { o.slurm("n1", "IDLE POWERED_DOWN") }, one("n1", GivenUp, None, resizing),
		},
		"persistent without an instance, and there is an orphan too young to remove": {func(o *observation) {
			o.gone("n1")
			o.slurm("n1", "DOWN NOT_RESPONDING")
			o.serve("n1", "stray", time.Minute)
		}, one("n1", Missing, None, "")},
		"persistent without an instance, and an orphan to remove": {func(o *observation) {
			o.gone("n1")
			o.slurm("n1", "DOWN NOT_RESPONDING")
			o.serve("n1", "stray", time.Hour)
		}, []Finding{{Node: "n1", Kind: Orphan, Server: "stray", Fix: Delete}, {Node: "n1", Kind: Missing, Fix: Enlarge}}},
		"powers up, and there is an orphan that is not to be removed": {func(o *observation) {
			o.slurm("n2", "ALLOCATED CLOUD POWERING_UP")
			o.serve("n2", "stray", time.Hour)
		}, []Finding{{Node: "n2", Kind: Orphan, Server: "stray", Command: commands().Remove + "stray"},
			{Node: "n2", Kind: PowersUp}}},
		"orphan": {
			func(o *observation) { o.serve("n2", "stray", time.Hour) },
			[]Finding{{Node: "n2", Kind: Orphan, Server: "stray", Fix: Delete}},
		},
		"orphan, young":     {func(o *observation) { o.serve("n2", "stray", minAge-time.Second) }, nil},
		"orphan, of no age": {func(o *observation) { o.Servers["n2"] = []reconfigure.Server{{ID: "stray"}} }, nil},
		"set aside, and its worker has ended": {func(o *observation) {
			o.Aside = map[string][]reconfigure.Server{"n2": {{ID: "failed", Created: o.Time.Add(-time.Hour)}}}
		}, []Finding{{Node: "n2", Kind: Orphan, Server: "failed", Fix: Delete}}},
		"set aside just now": {func(o *observation) {
			o.Aside = map[string][]reconfigure.Server{"n2": {{ID: "failed", Created: o.Time.Add(time.Second - minAge)}}}
		}, nil},
		"orphan that is in use": {func(o *observation) {
			o.slurm("n2", "ALLOCATED CLOUD")
			o.serve("n2", "stray", time.Hour)
		}, []Finding{{Node: "n2", Kind: Orphan, Server: "stray"}}},
		"control node, its state was lost": {func(o *observation) {
			delete(o.Instances, "ctl")
			o.unreachable(snapshot.Slurm)
		}, []Finding{{Node: "ctl", Kind: Orphan, Server: "id-ctl"}, {Node: "ctl", Kind: Missing, Command: deploying}}},
		"orphan in ERROR of a node that is in use": {func(o *observation) {
			o.slurm("n2", "ALLOCATED CLOUD")
			o.serve("n2", "stray", time.Hour)
			o.Servers["n2"][0].Status = "ERROR"
		}, []Finding{{Node: "n2", Kind: Orphan, Server: "stray", Command: commands().Remove + "stray"}}},
		"orphan of a persistent node that is in use": {func(o *observation) {
			o.gone("n1")
			o.serve("n1", "stray", time.Hour)
		}, []Finding{
			{Node: "n1", Kind: Orphan, Server: "stray"}, {Node: "n1", Kind: Missing},
		}},
		"orphan that has no node's name": {func(o *observation) { o.serve("other", "stray", time.Hour) },
			[]Finding{{Node: "other", Kind: Orphan, Server: "stray", Command: commands().Remove + "stray"}}},
		"orphan with the control node's name": {func(o *observation) { o.serve("ctl", "stray", time.Hour) },
			[]Finding{{Node: "ctl", Kind: Doubled, Server: "stray", Command: commands().Remove + "stray"}}},
		"two of a name, one in use at an address that is not told": {func(o *observation) {
			o.serve("n1", "stray", time.Hour)
		},
			[]Finding{{Node: "n1", Kind: Doubled, Server: "stray", Command: commands().Remove + "stray"}}},
		"two of a name, one in use at another address": {func(o *observation) {
			o.serve("n1", "stray", time.Hour)
			o.Servers["n1"][1].Address = "192.0.2.2"
			o.reachedAt("n1", "192.0.2.1")
		}, []Finding{{Node: "n1", Kind: Doubled, Server: "stray", Fix: Delete}}},
		"two of a name, the wrong one in use": {func(o *observation) {
			o.serve("n1", "stray", time.Hour)
			o.Servers["n1"][1].Address = "192.0.2.2"
			o.reachedAt("n1", "192.0.2.2")
		}, []Finding{
			{Node: "n1", Kind: Doubled, Server: "stray", Command: commands().Remove + "stray"},
			{Node: "n1", Kind: Address, Command: readdressed + "192.0.2.1"},
		}},
		"lost": {func(o *observation) {
			o.has("n2", "standard")
			delete(o.Servers, "n2")
		}, one("n2", Lost, Suspend, "")},
		"lost, up": {func(o *observation) {
			o.has("n2", "standard")
			delete(o.Servers, "n2")
			o.slurm("n2", "ALLOCATED CLOUD")
		}, one("n2", Lost, None, poweringDown)},
		"lost, another one in use": {func(o *observation) {
			o.has("n2", "standard")
			delete(o.Servers, "n2")
			o.serve("n2", "stray", time.Hour)
			o.slurm("n2", "ALLOCATED CLOUD")
		}, []Finding{{Node: "n2", Kind: Orphan, Server: "stray"}, {Node: "n2", Kind: Lost}}},
		"lost, persistent": {func(o *observation) {
			delete(o.Servers, "n1")
			o.slurm("n1", "DOWN")
		}, one("n1", Lost, None, reimaging)},
		"tainted": {func(o *observation) {
			o.has("n2", "standard")
			o.taint("n2")
		}, one("n2", Tainted, Suspend, "")},
		"tainted, up": {func(o *observation) {
			o.has("n2", "standard")
			o.taint("n2")
			o.slurm("n2", "IDLE CLOUD NOT_RESPONDING")
		}, one("n2", Tainted, None, updating)},
		"tainted, in use": {func(o *observation) {
			o.has("n2", "standard")
			o.taint("n2")
			o.slurm("n2", "IDLE CLOUD")
		}, one("n2", Unadopted, Resume, "")},
		"in use, and unknown to Terraform's state": {func(o *observation) {
			o.has("n2", "standard")
			delete(o.Instances, "n2")
			o.slurm("n2", "ALLOCATED CLOUD")
		}, one("n2", Unadopted, Resume, "")},
		"in use, unknown to Terraform's state, and young": {func(o *observation) {
			o.has("n2", "standard")
			delete(o.Instances, "n2")
			o.Servers["n2"][0].Created = now.Add(-time.Second)
			o.slurm("n2", "ALLOCATED CLOUD")
		}, one("n2", Unadopted, Resume, "")},
		"in use, unknown to Terraform's state, of another image": {func(o *observation) {
			o.has("n2", "standard")
			delete(o.Instances, "n2")
			o.Servers["n2"][0].ImageID = "image-v0"
			o.slurm("n2", "ALLOCATED CLOUD")
		}, []Finding{
			{Node: "n2", Kind: Orphan, Server: "id-n2"}, {Node: "n2", Kind: Unfinished},
		}},
		"shut off": {
			func(o *observation) { o.Servers["n1"][0].Status = "SHUTOFF" }, one("n1", Stopped, None, updating),
		},
		"paused": {
			func(o *observation) { o.Servers["n1"][0].Status = "PAUSED" }, one("n1", Stopped, None, updating),
		},
		"in ERROR": {
			func(o *observation) { o.Servers["n1"][0].Status = "ERROR" }, one("n1", Stopped, None, updating),
		},
		"control in ERROR": {func(o *observation) { o.Servers["ctl"][0].Status = "ERROR" }, one("ctl", Stopped, None, "")},
		"control, shut off": {func(o *observation) {
			o.Servers["ctl"][0].Status = "SHUTOFF"
			o.unreachable(snapshot.Slurm)
		}, one("ctl", Stopped, None, "openstack server start id-ctl")},
		"leaked port":            {func(o *observation) { o.port("n2", "p", minAge) }, leakedPort("n2", Delete, "")},
		"leaked port, young":     {func(o *observation) { o.port("n2", "p", minAge-time.Second) }, nil},
		"leaked port, of no age": {func(o *observation) { o.Ports = map[string][]reconfigure.Port{"n2": {{ID: "p"}}} }, nil},
		"a port with a server":   {func(o *observation) { o.port("n2", "p", time.Hour); o.Ports["n2"][0].Server = "s" }, nil},
		"a port, and Slurm does not answer": {
			func(o *observation) { o.port("n2", "p", time.Hour); o.unreachable(snapshot.Slurm) }, leakedPort("n2", None, ""),
		},
		"a port that is to be kept, and Terraform's state has none": {func(o *observation) {
			o.Desired["n2"] = reconfigure.Spec{Group: "standard", NetworkID: "n"}
			o.port("n2", "p", time.Hour)
		}, nil},
		"a port that is kept, and another one": {func(o *observation) {
			o.Desired["n2"] = reconfigure.Spec{Group: "standard", NetworkID: "n"}
			o.StatePorts = map[string]string{"n2": "kept"}
			o.port("n2", "kept", time.Hour)
			o.port("n2", "p", time.Hour)
		}, leakedPort("n2", Delete, "")},
		"leaked port of a node that nobody declares": {
			func(o *observation) { o.port("old1", "p", time.Hour) }, leakedPort("old1", None, commands().RemovePort+"p"),
		},
		"a port that is kept": {
			func(o *observation) { o.Desired["n2"] = reconfigure.Spec{Group: "standard", NetworkID: "n"} }, nil,
		},
		"tainted, awaited": {func(o *observation) {
			o.has("n2", "standard")
			o.taint("n2")
			o.slurm("n2", "ALLOCATED CLOUD POWERING_UP")
		}, one("n2", Tainted, Resume, "")},
		"tainted, persistent": {func(o *observation) {
			o.taint("n1")
			o.slurm("n1", "DOWN")
		}, one("n1", Tainted, Enlarge, "")},
		"tainted, persistent, in use": {func(o *observation) { o.taint("n1") }, one("n1", Unadopted, Resume, "")},
		"tainted, the control node":   {func(o *observation) { o.taint("ctl") }, one("ctl", Tainted, None, "")},
		"told only": {
			func(o *observation) { o.Desired["n2"] = o.Desired["n1"] }, one("n2", Unfinished, Suspend, ""),
		},
		"interrupted removal": {
			func(o *observation) { o.has("n2", "standard"); delete(o.Desired, "n2") }, one("n2", Unfinished, Suspend, ""),
		},
		"interrupted removal, persistent": {
			func(o *observation) { delete(o.Desired, "n1") }, one("n1", Unfinished, None, updating),
		},
		"undeclared, which Slurm has powered down": {func(o *observation) {
			o.has("old1", "retired")
			o.slurm("old1", "IDLE CLOUD POWERED_DOWN")
		}, one("old1", Undeclared, Suspend, "")},
		"undeclared, in use": {func(o *observation) {
			o.has("old1", "retired")
			o.slurm("old1", "IDLE")
		}, one("old1", Undeclared, None, resizing)},
		"made of another image than told": {
			func(o *observation) { o.Servers["n1"][0].ImageID = "image-v0" }, one("n1", Image, None, updating),
		},
		"another address in the state": {
			func(o *observation) { o.Servers["n1"][0].Address = "192.0.2.9" }, one("n1", Address, None, deploying),
		},
		"another address in Slurm": {
			func(o *observation) { o.reachedAt("n1", "192.0.2.9") }, one("n1", Address, None, readdressed+"192.0.2.1"),
		},
		"a name as the address in Slurm": {func(o *observation) { o.reachedAt("n1", "n1") }, nil},
		"differs from the declaration": {func(o *observation) {
			o.Sources[example().Control.Source] = reconfigure.Resolved{ImageID: "image-v2", FlavorID: "f", NetworkID: "n"}
		}, []Finding{{Node: "ctl", Kind: Outdated}, {Node: "n1", Kind: Outdated, Command: updating}}},
		"a node of Slurm's that is not ours": {func(o *observation) { o.slurm("stranger", "ALLOCATED POWERING_UP") }, nil},
		"no cluster": {func(o *observation) {
			o.Snapshot = snapshot.Snapshot{Time: now}
		}, nil},
		"no control node": {func(o *observation) { o.gone("ctl") }, one("ctl", Missing, None, deploying)},
		"Slurm is unreachable": {func(o *observation) {
			o.has("n2", "standard")
			o.unreachable(snapshot.Slurm)
			o.gone("n1")
		}, one("n1", Missing, None, "")},
		"the cloud is unreachable": {func(o *observation) {
			o.has("n2", "standard")
			o.unreachable(snapshot.Cloud)
		}, one("n2", Leaked, None, "")},
		"Terraform is unreachable": {func(o *observation) {
			o.unreachable(snapshot.Terraform)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy()
			test.see(&seen)
			got := seen.compare(example())
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(Finding{}, "Detail")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, f := range got {
				if f.Detail == "" {
					t.Errorf("%s at %s has no message", f.Kind, f.Node)
				}
			}
		})
	}
}

// TestAFindingSaysHowAnUnknownInstanceInUseEnds: Slurm powers a cloud node down, and never a persistent one.
func TestAFindingSaysHowAnUnknownInstanceInUseEnds(t *testing.T) {
	seen := healthy()
	seen.gone("n1")
	seen.serve("n1", "stray1", time.Hour)
	seen.slurm("n2", "ALLOCATED CLOUD")
	seen.serve("n2", "stray2", time.Hour)
	want := map[string]string{"n1": "drain it", "n2": "when Slurm has powered the node down"}
	for _, f := range seen.compare(example()) {
		if f.Kind == Orphan && !strings.Contains(f.Detail, want[f.Node]) {
			t.Errorf("%s: %s", f.Node, f.Detail)
		}
	}
}

// gone removes a node from Terraform and the cloud.
func (o *observation) gone(node string) {
	delete(o.Desired, node)
	delete(o.Instances, node)
	delete(o.Servers, node)
}

func (o *observation) reachedAt(node, address string) {
	s := o.States[node]
	s.Address = address
	o.States[node] = s
}

func TestAFaultIsPartOfAFinding(t *testing.T) {
	for _, taint := range []bool{false, true} {
		seen := healthy()
		seen.Servers["n1"][0].Status, seen.Servers["n1"][0].Fault.Words = "ERROR", "No valid host was found."
		if taint {
			seen.taint("n1")
		}
		found := seen.compare(example())
		if len(found) != 1 || !strings.Contains(found[0].Detail, "ERROR: No valid host was found.") {
			t.Errorf("%+v", found)
		}
	}
}

func TestConfirmWantsTheSameTwice(t *testing.T) {
	a := Finding{Node: "a", Kind: Leaked, Fix: Suspend, Detail: "then"}
	again := a
	again.Detail = "now"
	b := Finding{Node: "b", Kind: PowersUp, Fix: Resume}
	other := Finding{Node: "a", Kind: Orphan, Server: "1"}
	if got := Confirm([]Finding{{Kind: LeakedPort, Port: "1"}}, []Finding{{Kind: LeakedPort, Port: "2"}}); len(got) > 0 {
		t.Errorf("another port is taken for the one before: %v", got)
	}
	if diff := cmp.Diff(
		[]Finding{again},
		Confirm([]Finding{a, {Node: "b", Kind: Leaked}, {Node: "a", Kind: Orphan, Server: "2"}}, []Finding{again, b, other}),
	); diff != "" {
		t.Error(diff)
	}
}
