package plan

import (
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// TestThePortOfAnAdoptedInstanceKeepsItsSecurityGroups plans for a node whose port somebody else has made: n2 has an
// instance, n3 only the port. If a plan changed a port's groups, Terraform would update it, and the fence refuses that.
func TestThePortOfAnAdoptedInstanceKeepsItsSecurityGroups(t *testing.T) {
	own := reconfigure.Source{Image: "v1", Flavor: "small", Network: "n"}
	c := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: own},
		Groups:  []reconfigure.NodeGroup{{Name: "g", Prefix: "n", Width: 1, Source: own, Max: 9, KeepPorts: true}},
	}
	groups := reconfigure.MakeList([]string{"b", "a"})
	adopted := reconfigure.Spec{Group: "g", ImageID: "v1", FlavorID: "small", NetworkID: "n", SecurityGroups: groups}
	port, _ := adopted.PortOnly()
	change := func(network string, mode reconfigure.Mode, node string, state reconfigure.NodeState) reconfigure.Plan {
		seen := snapshot.Snapshot{
			Time: time.Now(), Desired: map[string]reconfigure.Spec{"ctl": {ImageID: "v1"}, "n2": adopted, "n3": port},
			Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "0"}, "n2": {Node: "n2", ID: "2"}},
			Sources:   map[reconfigure.Source]reconfigure.Resolved{own: {ImageID: "v1", FlavorID: "small", NetworkID: network}},
			States:    map[string]reconfigure.NodeState{node: state},
		}
		return Compute(c, seen, []reconfigure.Request{
			{ID: 1, Mode: mode, Nodes: nodeset.Of(node), Submitted: time.Now(), Options: reconfigure.Options{Reimage: true}},
		})
	}
	drained := reconfigure.NodeState{Flags: reconfigure.NodeIdle | reconfigure.NodeDrain, Reason: "reconfigure: update"}
	waits := reconfigure.NodeState{Flags: reconfigure.NodePoweringUp}
	off := reconfigure.NodeState{Flags: reconfigure.NodePoweringDown}
	for name, tc := range map[string]struct {
		plan   reconfigure.Plan
		node   string
		action reconfigure.Action
		want   reconfigure.List
	}{
		"a reimage":         {change("n", reconfigure.Update, "n2", drained), "n2", reconfigure.Replace, groups},
		"a boot":            {change("n", reconfigure.Resume, "n2", waits), "n2", reconfigure.Reboot, groups},
		"a new instance":    {change("n", reconfigure.Resume, "n3", waits), "n3", reconfigure.Create, groups},
		"a removal":         {change("n", reconfigure.Suspend, "n2", off), "n2", reconfigure.Remove, groups},
		"another network":   {change("m", reconfigure.Update, "n2", drained), "n2", reconfigure.Replace, ""},
		"a kept port there": {change("m", reconfigure.Resume, "n3", waits), "n3", reconfigure.Create, ""},
	} {
		if did, _ := tc.plan.Of(tc.node); did.Action != tc.action || tc.plan.Desired[tc.node].SecurityGroups != tc.want {
			t.Errorf("%s: %s, %+v", name, tc.plan, tc.plan.Desired[tc.node])
		}
	}
}
