package plan_test

import (
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// TestABootForTheRequestIsTakenUp has a finished instance of p1, and the journal's data about the operation of a worker
// that has ended.
func TestABootForTheRequestIsTakenUp(t *testing.T) {
	submitted := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	resume := reconfigure.Request{ID: 4, Mode: reconfigure.Resume, Nodes: nodeset.Of("p1"), Submitted: submitted}
	newer := resume
	newer.ID, newer.Submitted = 5, submitted.Add(time.Minute)
	update := resume
	update.Mode = reconfigure.Update
	is := reconfigure.Life{Node: "p1", Instance: "1", ImageID: "v1"}
	of := func(image string) reconfigure.Life {
		l := is
		l.ImageID = image
		return l
	}
	another := is
	another.Instance = "0"
	failed := is
	failed.Failed = "no-ssh: it did not answer in time"
	answered := failed
	answered.Booted = submitted
	anotherFailed := failed
	anotherFailed.Instance = "0"
	for name, tc := range map[string]struct {
		requests []reconfigure.Request
		reached  reconfigure.Phase // for request 4
		life     reconfigure.Life  // of p1
		power    reconfigure.Power // in the map of nodes
		want     string
		at       reconfigure.Phase
	}{
		"no operation has begun":    {life: is, want: "reboot p1"},
		"it waits for SSH":          {reached: reconfigure.PhaseBoot, life: is, want: "boot p1", at: reconfigure.PhaseBoot},
		"the playbooks run":         {reached: reconfigure.PhaseConfigure, life: is, want: "boot p1", at: reconfigure.PhaseConfigure},
		"slurmd was started":        {reached: reconfigure.PhaseVerify, life: is, want: "boot p1", at: reconfigure.PhaseVerify},
		"the reboot was to begin":   {reached: reconfigure.PhaseApply, life: is, want: "reboot p1"},
		"Terraform made it":         {reached: reconfigure.PhaseApply, want: "boot p1", at: reconfigure.PhaseApply},
		"Terraform replaced it":     {reached: reconfigure.PhaseApply, life: another, want: "boot p1", at: reconfigure.PhaseApply},
		"Terraform rebuilt it":      {reached: reconfigure.PhaseApply, life: of("v0"), want: "boot p1", at: reconfigure.PhaseApply},
		"its life has no image":     {reached: reconfigure.PhaseApply, life: of(""), want: "reboot p1"},
		"it was drained":            {reached: reconfigure.PhaseDrain, want: "reboot p1"},
		"it is to be started":       {life: is, power: reconfigure.PowerOff, want: "start p1"},
		"it may be started already": {reached: reconfigure.PhaseApply, power: reconfigure.PowerOff, want: "start p1", at: reconfigure.PhaseApply},
		"Slurm has called again since": {
			requests: []reconfigure.Request{resume, newer}, reached: reconfigure.PhaseBoot, life: is, want: "reboot p1",
		},
		"it waits for SSH, in an update": {
			requests: []reconfigure.Request{update}, reached: reconfigure.PhaseBoot, life: is, want: "boot p1",
			at: reconfigure.PhaseBoot,
		},
		"it has never answered, and is updated": {
			requests: []reconfigure.Request{update}, life: failed, want: "replace p1",
		},
		"it has answered before it failed": {
			requests: []reconfigure.Request{update}, life: answered, want: "reboot p1",
		},
		"another one has never answered": {requests: []reconfigure.Request{update}, life: anotherFailed, want: "reboot p1"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := reconfigure.Spec{Group: "group", ImageID: "v1", FlavorID: "f", NetworkID: "n"}
			seen := snapshot.Snapshot{
				Time: submitted.Add(2 * time.Minute),
				Instances: map[string]reconfigure.Instance{
					"ctl": {Node: "ctl", ID: "c"}, "p1": {Node: "p1", ID: "1", Made: spec},
				},
				Lives: map[string]reconfigure.Life{"p1": tc.life},
				Sources: map[reconfigure.Source]reconfigure.Resolved{
					source("v1"): {ImageID: "v1", FlavorID: "f", NetworkID: "n"},
				},
				Reached: map[reconfigure.RequestID]map[string]reconfigure.Phase{4: {"p1": tc.reached}},
			}
			spec.Power = tc.power
			seen.Desired = map[string]reconfigure.Spec{"p1": spec}
			requests, least := tc.requests, 0
			if requests == nil {
				requests = []reconfigure.Request{resume}
			}
			seen.States = map[string]reconfigure.NodeState{"p1": reconfigure.SlurmNode("p1", "CLOUD", "POWERING_UP")}
			if requests[0].Mode == reconfigure.Update {
				least, seen.States = 1, map[string]reconfigure.NodeState{"p1": reconfigure.SlurmNode("p1", "DOWN")}
			}
			cluster := reconfigure.Cluster{
				Control: reconfigure.Control{Name: "ctl", Source: source("v1")},
				Groups: []reconfigure.NodeGroup{{
					Name: "group", Prefix: "p", Width: 1, Source: source("v1"), Min: least, Max: 1,
				}},
				Slurm: reconfigure.Timing{ResumeTimeout: 10 * time.Minute},
			}
			p := plan.Compute(cluster, seen, requests)
			if p.String() != tc.want || len(p.Rejected) > 0 || len(p.Changes) != 1 || p.Changes[0].At != tc.at {
				t.Errorf("planned %+v, rejected %v; want %s at %q", p.Changes, p.Rejected, tc.want, tc.at)
			}
		})
	}
}
