package plan_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// TestAConfigurationThatEndsJobsIsRefused plans a deploy and an enlargement of one group while slurm.conf changes for
// another one.
func TestAConfigurationThatEndsJobsIsRefused(t *testing.T) {
	cpus := reconfigure.Danger{Nodes: nodeset.Of("b1", "b2"), What: "CPUs=8 instead of CPUs=4"}
	idle, busy := reconfigure.SlurmNode("b1", "IDLE"), reconfigure.SlurmNode("b1", "ALLOCATED")
	busy.Busy = true
	silent := map[snapshot.System]string{snapshot.Slurm: "no answer"}
	for name, test := range map[string]struct {
		conf    *reconfigure.SlurmConf
		b1      reconfigure.NodeState
		missing map[snapshot.System]string
		deploy  string // a part of the reason for the rejection; empty: it is not rejected
		enlarge string
	}{
		"not compared":            {nil, busy, nil, "", ""},
		"no danger":               {&reconfigure.SlurmConf{}, busy, nil, "", ""},
		"no job on the nodes":     {dangers(cpus), idle, nil, "", ""},
		"no job in the partition": {dangers(reconfigure.Danger{Partition: "p"}), busy, nil, "", ""},
		"a job on a node": {dangers(cpus), busy, nil,
			"the jobs on b1: of b[1-2], CPUs=8 instead of CPUs=4. Drain it (`scontrol update nodename=b1 ",
			"would end the jobs on b1"},
		"a job that waits for a node to power up": {&reconfigure.SlurmConf{Dangers: []reconfigure.Danger{cpus}},
			reconfigure.SlurmNode("b1", "IDLE", "CLOUD", "POWERING_UP"), nil, "the jobs on b1", "the jobs on b1"},
		"jobs in a partition": {
			dangers(reconfigure.Danger{Partition: "p", Jobs: 3, What: "gone"}), idle, nil,
			"the 3 job(s) of partition p, running and waiting: gone. Set it DOWN", "the 3 job(s) of partition p"},
		"a setting that was never tried, and a job": {dangers(reconfigure.Danger{Nodes: nodeset.Of("b1", "b2"),
			What: "SwitchType is a instead of b", Unsure: true}), busy, nil,
			"slurm.conf may end the jobs on b1: SwitchType is a instead of b, and it is unknown whether", "may end the jobs"},
		"a setting that was never tried, and no job": {dangers(reconfigure.Danger{Nodes: nodeset.Of("b1", "b2"),
			What: "SwitchType is a instead of b", Unsure: true}), idle, nil, "", ""},
		"Slurm does not answer": {dangers(cpus), idle, silent,
			"may end jobs on b[1-2]: CPUs=8 instead of CPUs=4, and Slurm does not answer: no answer", "Slurm does not answer"},
		"it cannot be compared": {&reconfigure.SlurmConf{Err: "no file"}, busy, nil,
			"cannot be compared with the one that slurmctld runs with: no file", "no file"},
		"it cannot be compared, and to be fixed": {&reconfigure.SlurmConf{Err: "no file"}, busy, silent, "",
			"Slurm does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := reconfigure.Cluster{Control: reconfigure.Control{Name: "ctl"}, Groups: []reconfigure.NodeGroup{
				{Name: "a", Prefix: "a", Width: 1, Min: 1, Max: 2}, {Name: "b", Prefix: "b", Width: 1, Min: 1, Max: 2}}}
			seen := snapshot.Snapshot{Conf: test.conf, Missing: test.missing,
				Instances: map[string]reconfigure.Instance{}, Desired: map[string]reconfigure.Spec{},
				Sources: map[reconfigure.Source]reconfigure.Resolved{{}: {ImageID: "i", FlavorID: "f", NetworkID: "n"}},
				States: map[string]reconfigure.NodeState{"a1": reconfigure.SlurmNode("a1", "IDLE"),
					"a2": reconfigure.SlurmNode("a2", "IDLE", "CLOUD", "POWERED_DOWN"), "b1": test.b1,
					"b2": reconfigure.SlurmNode("b2", "IDLE", "CLOUD", "POWERED_DOWN")}}
			for _, node := range []string{"ctl", "a1", "b1"} {
				seen.Instances[node] = reconfigure.Instance{Node: node, ID: node}
				seen.Desired[node] = reconfigure.Spec{Group: node[:1], ImageID: "i", FlavorID: "f", NetworkID: "n"}
			}
			deploy := plan.Compute(cluster, seen, []reconfigure.Request{{ID: 1, Mode: reconfigure.Deploy}})
			refusedFor(t, deploy, test.deploy)
			if !deploy.Everywhere && test.deploy == "" || deploy.Everywhere && deploy.Conf != test.conf {
				t.Errorf("everywhere is %v, with %v", deploy.Everywhere, deploy.Conf)
			}
			enlarge := reconfigure.Request{ID: 1, Mode: reconfigure.Enlarge, Nodes: nodeset.Of("a1", "a2")}
			refusedFor(t, plan.Compute(cluster.WithMin("a", 2), seen, []reconfigure.Request{enlarge}), test.enlarge)
		})
	}
}

func dangers(all ...reconfigure.Danger) *reconfigure.SlurmConf {
	return &reconfigure.SlurmConf{Dangers: all}
}

func refusedFor(t *testing.T, p reconfigure.Plan, reason string) {
	t.Helper()
	switch {
	case reason == "" && len(p.Rejected) > 0:
		t.Errorf("rejected: %+v", p.Rejected)
	case reason != "" && (len(p.Rejected) == 0 || !strings.Contains(p.Rejected[0].Reason, reason) ||
		len(p.Changes) > 0 || p.Everywhere):
		t.Errorf("the plan is %s, rejected %+v, and not for %q", p, p.Rejected, reason)
	}
}
