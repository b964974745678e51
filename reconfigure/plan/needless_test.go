package plan_test

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// A suspend waits behind the resume of its node, which is planned again after its worker has died.
func TestANodeThatSlurmHasSuspendedSinceIsNotBooted(t *testing.T) {
	suspended := reconfigure.Suspended{Nodes: nodeset.Of("p1")}
	again := reconfigure.Suspended{Nodes: nodeset.Of("p1"), Again: nodeset.Of("p1")}
	for name, tc := range map[string]struct {
		since   reconfigure.Suspended
		flags   string
		missing bool // Slurm does not answer
		want    string
	}{
		"Slurm powers it down":      {since: suspended, flags: "POWERING_DOWN", want: "nothing"},
		"Slurm has powered it down": {since: suspended, flags: "POWERED_DOWN", want: "nothing"},
		"Slurm powers it up":        {since: suspended, flags: "POWERING_UP", want: "create p1"},
		"Slurm powers it up again":  {since: again, flags: "POWERING_UP", want: "nothing"},
		"nobody has suspended it":   {flags: "POWERING_DOWN", want: "create p1"},
		"Slurm does not answer":     {since: suspended, flags: "POWERING_DOWN", missing: true, want: "create p1"},
	} {
		cluster := reconfigure.Cluster{
			Control: reconfigure.Control{Name: "ctl", Source: source("v1")},
			Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source("v1"), Max: 1}},
		}
		seen := snapshot.Snapshot{
			States:    map[string]reconfigure.NodeState{"p1": reconfigure.SlurmNode("p1", "IDLE", "CLOUD", tc.flags)},
			Instances: map[string]reconfigure.Instance{"ctl": {Node: "ctl", ID: "c"}},
			Sources: map[reconfigure.Source]reconfigure.Resolved{
				source("v1"): {ImageID: "v1", FlavorID: "f", NetworkID: "n"},
			},
		}
		if tc.missing {
			seen.States, seen.Missing = nil, map[snapshot.System]string{snapshot.Slurm: "no answer"}
		}
		r := reconfigure.Request{ID: 1, Mode: reconfigure.Resume, Nodes: nodeset.Of("p1"), Suspended: tc.since}
		p := plan.Compute(cluster, seen, []reconfigure.Request{r})
		if given := len(p.Rejected) == 1 && !p.Rejected[0].Awaited; p.String() != tc.want || given != (tc.want == "nothing") {
			t.Errorf("%s: planned %s, rejected %+v", name, p, p.Rejected)
		}
	}
}
