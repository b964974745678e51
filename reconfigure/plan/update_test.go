package plan_test

import (
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// The worker died after it had undrained the node, but before it wrote the outcome.
func TestAReimageThatIsDoneIsNotPlannedAgain(t *testing.T) {
	const idle = reconfigure.NodeIdle
	submitted := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	before, after := submitted.Add(-time.Hour), submitted.Add(time.Hour)
	made := reconfigure.Spec{Group: "group", ImageID: "i1", FlavorID: "f", NetworkID: "n"}
	for name, tc := range map[string]struct {
		touched bool
		image   string // in the map of nodes
		state   reconfigure.NodeState
		want    string
	}{
		"done":                     {true, "i1", reconfigure.NodeState{Flags: idle, Boot: after}, "nothing"},
		"done, and a job is there": {true, "i1", reconfigure.NodeState{Flags: idle, Boot: after, Busy: true}, "nothing"},
		"done, and another drained it": {true, "i1",
			reconfigure.NodeState{Flags: idle | reconfigure.NodeDrain, Boot: after, Reason: "memory errors"}, "nothing"},
		"not begun, and booted by itself": {false, "i1", reconfigure.NodeState{Flags: idle, Boot: after}, "drain p1"},
		"drained, and booted by itself": {true, "i1",
			reconfigure.NodeState{Flags: idle | reconfigure.NodeDrain, Boot: after, Reason: "reconfigure: update"},
			"replace p1"},
		"not booted":    {true, "i1", reconfigure.NodeState{Flags: idle, Boot: before}, "drain p1"},
		"another image": {true, "i0", reconfigure.NodeState{Flags: idle, Boot: after}, "drain p1"},
	} {
		cluster := reconfigure.Cluster{
			Control: reconfigure.Control{Name: "ctl", Source: source("v1")},
			Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source("v1"), Min: 1, Max: 1}},
		}
		is := made
		is.ImageID = tc.image
		seen := snapshot.Snapshot{
			Time:      after.Add(time.Hour),
			States:    map[string]reconfigure.NodeState{"p1": tc.state},
			Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "c"}, "p1": {Node: "p1", ID: "1"}},
			Desired:   map[string]reconfigure.Spec{"p1": is},
			Sources: map[reconfigure.Source]reconfigure.Resolved{
				source("v1"): {ImageID: "i1", FlavorID: "f", NetworkID: "n"},
			},
		}
		r := reconfigure.Request{
			ID: 1, Mode: reconfigure.Update, Nodes: nodeset.Of("p1"), Submitted: submitted, Touched: tc.touched,
			Options: reconfigure.Options{Reimage: true},
		}
		if p := plan.Compute(cluster, seen, []reconfigure.Request{r}); p.String() != tc.want || len(p.Rejected) > 0 {
			t.Errorf("%s: planned %s, rejected %v, want %s", name, p, p.Rejected, tc.want)
		}
	}
}

// An existing machine is neither reimaged nor drained for that. A plain update reboots it.
func TestAMachineThatExistsIsNotReimaged(t *testing.T) {
	source := source("existing")
	idle := reconfigure.NodeState{Flags: reconfigure.NodeIdle}
	drained := reconfigure.NodeState{
		Flags: reconfigure.NodeIdle | reconfigure.NodeDrain, Reason: "reconfigure: update",
	}
	asked := reconfigure.NodeState{
		Flags: reconfigure.NodeIdle | reconfigure.NodeRebootRequested, Reason: "reimage : reboot requested",
	}
	for name, tc := range map[string]struct {
		request  reconfigure.Request
		state    reconfigure.NodeState
		want     string
		rejected bool
	}{
		"reboot":  {reconfigure.Request{Mode: reconfigure.Update}, drained, "reboot p1", false},
		"reimage": {updating(reconfigure.Options{Reimage: true}), idle, "nothing", true},
		"image":   {updating(reconfigure.Options{Image: "v2"}), idle, "nothing", true},
		"by Slurm": {reconfigure.Request{Mode: reconfigure.Update, Options: reconfigure.Options{FromSlurm: true}}, asked,
			"nothing", true},
		"make an image": {reconfigure.Request{Mode: reconfigure.MakeImage, Options: reconfigure.Options{Image: "v2"}},
			drained, "nothing", true},
	} {
		cluster := reconfigure.Cluster{
			Existing: true, Control: reconfigure.Control{Name: "ctl", Source: source},
			Groups: []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source, Min: 1, Max: 1}},
		}
		is := reconfigure.Spec{Group: "group", ImageID: "i", FlavorID: "f", NetworkID: "n"}
		seen := snapshot.Snapshot{
			Time: time.Now(), States: map[string]reconfigure.NodeState{"p1": tc.state},
			Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "ctl"}, "p1": {Node: "p1", ID: "p1"}},
			Desired:   map[string]reconfigure.Spec{"p1": is},
			Sources:   map[reconfigure.Source]reconfigure.Resolved{source: {ImageID: "i", FlavorID: "f", NetworkID: "n"}},
		}
		tc.request.ID, tc.request.Nodes, tc.request.Submitted = 1, nodeset.Of("p1"), time.Now()
		tc.request.DrainTimeout = time.Hour
		p := plan.Compute(cluster, seen, []reconfigure.Request{tc.request})
		if p.String() != tc.want || (len(p.Rejected) == 1) != tc.rejected {
			t.Errorf("%s: planned %s, rejected %v, want %s", name, p, p.Rejected, tc.want)
		}
	}
}

func updating(o reconfigure.Options) reconfigure.Request {
	return reconfigure.Request{Mode: reconfigure.Update, Options: o}
}
