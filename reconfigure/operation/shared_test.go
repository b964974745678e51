package operation_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// sharded returns a cluster with two shards: p1 to p4 in group-0 and p5 to p8 in group-1. The nodes p1 to p6 are
// persistent.
func sharded(t *testing.T, do func(*lab)) {
	t.Helper()
	empty(t, func(l *lab) {
		c := declared()
		c.Groups[0].Min = 6
		c.Settings.NodesPerState = 4
		l.World = simulate.NewWorld(c)
		l.cluster, l.deps = c, l.Deps()
		do(l)
	})
}

// callsOf returns the calls with this beginning.
func (l *lab) callsOf(prefix string) []string {
	return slices.DeleteFunc(l.Calls(), func(call string) bool { return !strings.HasPrefix(call, prefix) })
}

func all6(first ...string) []string { return append(first, "p1", "p2", "p3", "p4", "p5", "p6") }

// Shared resources are made before the shards that refer to them, and removed after them. Shards run side by side.
func TestDeployAndDestroyOfSeveralShards(t *testing.T) {
	sharded(t, func(l *lab) {
		l.asks(reconfigure.Request{Mode: reconfigure.Deploy})
		l.wantDone(all6("ctl")...)
		l.want("first", "apply create shared, create ctl", l.callsOf("apply")[0])
		l.wantOrder("apply create shared", "apply in group-0 create p[1-4]")
		l.wantOrder("apply create shared", "apply in group-1 create p[5-6]")
		l.want(
			"runs of the playbooks", []string{"slurm.conf everywhere, configure ctl,p[1-6] of ctl,p[1-6]"},
			l.callsOf("slurm.conf"),
		)
		for _, node := range all6("ctl") {
			if n := l.Node(node); n.Instance.ID == "" || n.Instance.Tainted || n.Spec != l.Spec(node) {
				l.Errorf("%s is %+v", node, n)
			}
		}

		l.asks(reconfigure.Request{Mode: reconfigure.Destroy})
		l.wantDone(all6("ctl")...)
		calls := l.callsOf("apply")
		l.want("last", "apply delete shared, delete ctl", calls[len(calls)-1])
		l.wantOrder("apply in group-0 delete p[1-4]", "apply delete shared")
		l.wantOrder("apply in group-1 delete p[5-6]", "apply delete shared")
		l.want("instances", 0, len(l.IDs()))
	})
}

// The playbooks of a first deployment do not wait until the provider looks at the instances.
func TestFirstDeploymentDoesNotWaitForTheProvider(t *testing.T) {
	empty(t, func(l *lab) {
		l.Takes(simulate.Halting, 100*time.Millisecond)
		l.asks(reconfigure.Request{Mode: reconfigure.Deploy})
		l.wantDone("ctl", "p1", "p2")
		l.want("calls", []string{
			"apply create shared, create ctl,p[1-2]", "adopt ctl,p[1-2]", "slurm.conf everywhere, configure ctl,p[1-2] of ctl,p[1-2]",
		}, l.Calls())
		for node, took := range l.round.after {
			if took > 5*time.Second {
				l.Errorf("%s took %s", node, took)
			}
		}
	})
}

// The control node takes long. The others are made meanwhile, and configured together with it.
func TestNodesOfADeployAreMadeSideBySide(t *testing.T) {
	sharded(t, func(l *lab) {
		l.Takes(simulate.Booting, 2*time.Minute-10*time.Second, "ctl")
		l.asks(reconfigure.Request{Mode: reconfigure.Deploy})
		l.wantDone(all6("ctl")...)
		l.want("runs of the playbooks", 1, len(l.callsOf("slurm.conf")))
	})
}

func TestFailedNodeDelaysNoDeployment(t *testing.T) {
	for _, fault := range []simulate.Fault{simulate.NoValidHost, simulate.NoSSH, simulate.NoPort} {
		for _, node := range []string{"p1", "p6"} {
			t.Run(string(fault)+" of "+node, func(t *testing.T) {
				sharded(t, func(l *lab) {
					l.Order(fault, node)
					l.asks(reconfigure.Request{Mode: reconfigure.Deploy})
					for name, v := range l.start().wait() {
						if want := name != node; (v.Status == reconfigure.StatusDone) != want {
							l.Errorf("%s: %+v", name, v)
						}
					}
					l.want("lost jobs", 0, len(l.Lost()))
				})
			})
		}
	}
}

// Without the shared resources, no shard begins.
func TestNothingIsMadeWithoutSharedResources(t *testing.T) {
	sharded(t, func(l *lab) {
		l.Order(simulate.StateLocked)
		l.asks(reconfigure.Request{Mode: reconfigure.Deploy})
		for name, v := range l.start().wait() {
			if v.Status != reconfigure.StatusFailed || !strings.Contains(v.Reason, "state locked") {
				l.Errorf("%s: %+v", name, v)
			}
		}
		l.want("calls", 0, len(l.callsOf("apply")))
	})
}

// A straggler delays only its own shard, and only for a short time.
func TestShardsRunSideBySide(t *testing.T) {
	sharded(t, func(l *lab) {
		l.Have(all6("ctl")...)
		l.cluster.Settings.Interrupt = false
		l.Takes(simulate.Building, simulate.Forever, "p5")
		l.Drained("reconfigure: update", "p4", "p5")
		l.wants(reconfigure.Replace, "p4", "p5")
		l.change("p5").Deadline = time.Now().Add(9 * time.Minute)
		verdicts := l.start().wait()
		l.want("p4", reconfigure.StatusDone, verdicts["p4"].Status)
		l.want("p5", reconfigure.StatusFailed, verdicts["p5"].Status)
		if took := l.round.after["p4"]; took > 25*time.Second {
			l.Errorf("p4 took %s", took)
		}
	})
}

// Ports are kept, and with them the entries of the map of nodes.
func TestRemovedNodeKeepsItsPort(t *testing.T) {
	test(t, func(l *lab) {
		l.cluster.Groups[0].KeepPorts = true
		l.Have("p3")
		l.PowersDown("p3")
		l.asks(reconfigure.Request{
			Mode: reconfigure.Suspend, Nodes: l.cluster.Nodes().Where(func(n string) bool { return n == "p3" }),
		})
		l.wantDone("p3")
		port, kept := l.Spec("p3").PortOnly()
		l.want("kept", true, kept)
		l.want("node", simulate.Node{State: "IDLE+CLOUD+POWERING_DOWN", Spec: port}, l.Node("p3"))

		l.PoweredDown("p3")
		l.PowersUp("p3")
		l.Order(simulate.PlaybookFails, "p3")
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Create, "p3")
		l.carry()
		l.want("after a failure", simulate.Node{State: back, Spec: port}, l.Node("p3"))
	})
}

// Shared resources and kept ports are no reason to ask the cloud for all instances of the cluster.
func TestSharedResourcesAskForNoServers(t *testing.T) {
	empty(t, func(l *lab) {
		c := declared()
		c.Groups[0].Min, c.Groups[0].KeepPorts = 6, true
		c.Settings.NodesPerState = 2 // the last shard has p7 and p8, which have only their ports
		l.World = simulate.NewWorld(c)
		l.cluster, l.deps = c, l.Deps()
		var all atomic.Int32
		l.deps.Cloud = countingAll{l.deps.Cloud, &all}
		l.asks(reconfigure.Request{Mode: reconfigure.Deploy})
		l.wantDone(all6("ctl")...)
		l.want("questions for all servers", int32(0), all.Load())
	})
}

// countingAll counts the questions for all servers.
type countingAll struct {
	operation.Cloud
	all *atomic.Int32
}

func (c countingAll) Servers(
	ctx context.Context, nodes nodeset.NodeSet,
) (map[string][]reconfigure.Server, error) {
	if nodes.Empty() {
		c.all.Add(1)
	}
	return c.Cloud.Servers(ctx, nodes)
}
