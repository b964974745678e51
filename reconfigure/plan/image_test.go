package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

func TestImageIsPlanned(t *testing.T) {
	const idle, drain, cloud = reconfigure.NodeIdle, reconfigure.NodeDrain, reconfigure.NodeCloud
	const ours, unfit = "reconfigure: image", "reconfigure: " + reconfigure.ImageReason
	submitted := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	before, after := submitted.Add(-time.Hour), submitted.Add(time.Hour)
	state := func(flags reconfigure.NodeFlags, reason string, boot time.Time) reconfigure.NodeState {
		return reconfigure.NodeState{Flags: flags, Reason: reason, Boot: boot}
	}
	busy := state(idle|drain, ours, before)
	busy.Busy = true
	for name, tc := range map[string]struct {
		node    string // p1 is persistent, p2 a cloud node; p3 is no longer declared
		touched bool
		state   reconfigure.NodeState
		change  func(*snapshot.Snapshot)
		want    string // the plan; with an asterisk, the instance is removed
	}{
		"in use": {node: "p1",
			state: state(idle, "", before),
			want:  "drain p1, 1 deferred"},
		"drained, with a job": {node: "p1", touched: true,
			state: busy,
			want:  "nothing, 1 deferred"},
		"drained": {node: "p1", touched: true,
			state: state(idle|drain, ours, before),
			want:  "capture p1"},
		"a cloud node": {node: "p2",
			state: state(idle|drain|cloud, ours, before),
			want:  "capture p2 *"},
		"of somebody else": {node: "p2",
			state: state(idle|drain|cloud, "disk is full", before),
			want:  "capture p2"},
		"powered down": {node: "p2",
			state: state(idle|cloud|reconfigure.NodePoweringDown, "", before),
			want:  "nothing, 1 rejected"},
		"no instance": {node: "p2",
			state: state(idle|cloud|reconfigure.NodePoweredDown, "", before), change: gone,
			want: "nothing, 1 rejected"},
		"not declared": {node: "p3",
			state: state(idle|drain, ours, before),
			want:  "nothing, 1 rejected"},
		"Slurm is silent": {node: "p1", change: silent, want: "nothing, 1 rejected"},
		"Slurm is silent by now": {node: "p1", touched: true, change: silent,
			want: "nothing, 1 deferred"},
		"booted since": {node: "p1", touched: true,
			state: state(idle, "", after),
			want:  "capture p1"},
		"cleaned": {node: "p1", touched: true,
			state: state(idle|drain, unfit, before),
			want:  "capture p1"},
		"cleaned, and powered down": {node: "p2", touched: true,
			state: state(idle|drain|cloud|reconfigure.NodePoweringDown, unfit, before),
			want:  "capture p2 *"},
		"cleaned, and powered down since": {
			node: "p2", touched: true, state: state(idle|cloud|reconfigure.NodePoweringDown, unfit, before),
			want: "capture p2 *",
		},
		"cleaned, and powered up again": {
			node: "p2", touched: true, state: state(idle|cloud|reconfigure.NodePoweringUp, "", before), want: "capture p2 *",
		},
		"cleaned, and not declared": {node: "p3", touched: true,
			state: state(idle|drain, unfit, before),
			want:  "capture p3 *"},
		"cleaned, and removed": {node: "p2", touched: true,
			state: state(idle|drain|cloud, unfit, before), change: gone,
			want: "capture p2 *"},
		"no instance by now": {node: "p1", touched: true,
			state: state(reconfigure.NodeDown, "", before), change: gone,
			want: "capture p1"},
		"the cluster is destroyed": {node: "p1", touched: true, change: nothing,
			want: "nothing, 1 rejected"},
		"cleaned for another request": {node: "p1",
			state: state(idle|drain, unfit, before),
			want:  "capture p1"},
		"powered down with the reason": {node: "p2",
			state: state(idle|cloud|reconfigure.NodePoweredDown, unfit, before),
			want:  "nothing, 1 rejected"},
	} {
		cluster := reconfigure.Cluster{
			Control: reconfigure.Control{Name: "ctl", Source: source("v1")},
			Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source("v1"), Min: 1, Max: 2}},
		}
		spec := reconfigure.Spec{Group: "group", ImageID: "i0", FlavorID: "f", NetworkID: "n"}
		seen := snapshot.Snapshot{
			Time: after, States: map[string]reconfigure.NodeState{tc.node: tc.state},
			Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "c"}, tc.node: {Node: tc.node, ID: "1"}},
			Desired:   map[string]reconfigure.Spec{tc.node: spec},
			Sources: map[reconfigure.Source]reconfigure.Resolved{
				source("v1"): {ImageID: "i1", FlavorID: "f", NetworkID: "n"},
			},
		}
		if tc.change != nil {
			tc.change(&seen)
		}
		r := reconfigure.Request{
			ID: 1, Mode: reconfigure.MakeImage, Nodes: nodeset.Of(tc.node), Submitted: submitted, Touched: tc.touched,
			Options: reconfigure.Options{Image: "fresh"},
		}
		p := plan.Compute(cluster, seen, []reconfigure.Request{r})
		got := p.String()
		if c, ok := p.Of(tc.node); ok && c.Action == reconfigure.Capture {
			if c.Image != "fresh" || c.Spec != spec {
				t.Errorf("%s: planned %+v", name, c)
			}
			if _, stays := p.Desired[tc.node]; stays == c.HandOver {
				t.Errorf("%s: the entry stays: %t", name, stays)
			}
			if c.HandOver {
				got += " *"
			}
		}
		if n := len(p.Deferred); n > 0 {
			got += fmt.Sprintf(", %d deferred", n)
		}
		if n := len(p.Rejected); n > 0 {
			got += fmt.Sprintf(", %d rejected", n)
		}
		if got != tc.want {
			t.Errorf("%s: planned %s, want %s; rejected %v", name, got, tc.want, p.Rejected)
		}
	}
}

// gone removes the instances of nodes.
func gone(seen *snapshot.Snapshot) {
	for node := range seen.Instances {
		if node != "ctl" {
			delete(seen.Instances, node)
		}
	}
}

// the whole cluster is gone.
func nothing(seen *snapshot.Snapshot) {
	seen.Instances, seen.Desired, seen.States = nil, nil, nil
	silent(seen)
}

func silent(seen *snapshot.Snapshot) {
	seen.Missing = map[snapshot.System]string{snapshot.Slurm: "no route"}
}
