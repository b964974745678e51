package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestWhatCannotBeTakenBackIsExplained(t *testing.T) {
	deferred := func(kind reconfigure.DeferralKind, node, reason string) []reconfigure.Deferral {
		return []reconfigure.Deferral{{Node: node, Request: 7, Kind: kind, Reason: reason}}
	}
	jobs := deferred(reconfigure.WaitsForJobs, "node02", "its jobs have to end first")
	unplanned := deferred(reconfigure.CannotPlan, "", "find cloud\n\"x\"")
	cloud := deferred(reconfigure.CloudUnreachable, "node02", "no route to host")
	slurm := deferred(reconfigure.SlurmUnreachable, "node02", "Slurm does not answer")
	var text strings.Builder
	for _, p := range []Request{
		{State: Waits, Request: reconfigure.Request{Mode: reconfigure.Deploy}},
		{State: AtWork, Request: reconfigure.Request{Mode: reconfigure.Resume}},
		{State: AtWork, Request: reconfigure.Request{Mode: reconfigure.Suspend}},
		{State: Interrupted, Request: reconfigure.Request{Mode: reconfigure.Destroy}},
		{State: WaitsForJobs, Request: reconfigure.Request{Mode: reconfigure.Update, Deferred: jobs}},
		{State: WaitsForJobs, Request: reconfigure.Request{Mode: reconfigure.Shrink, Deferred: jobs}},
		{State: CannotBePlanned, Request: reconfigure.Request{Mode: reconfigure.Suspend, Deferred: unplanned}},
		{State: WaitsForCloud, Request: reconfigure.Request{Mode: reconfigure.Update, Deferred: cloud}},
		{State: WaitsForSlurm, Request: reconfigure.Request{Mode: reconfigure.Suspend, Deferred: slurm}},
	} {
		p.ID, p.Nodes = 7, nodeset.Of("node02", "node03")
		fmt.Fprintf(&text, "%s, %s: it %s\n", p.Mode, p.State, p.BegunWords())
	}
	golden(t, "begun.txt", text.String())
}
