package reconcile

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

// TestThePlannerDoesWhatAFixSays checks that each fix that is a request is planned, with the action that the fix
// announces, and that no other node is changed.
func TestThePlannerDoesWhatAFixSays(t *testing.T) {
	does := map[Fix][]reconfigure.Action{
		Suspend: {reconfigure.Remove},
		Resume:  {reconfigure.Create, reconfigure.Replace, reconfigure.Reboot},
		Enlarge: {reconfigure.Create, reconfigure.Replace},
		Renew:   {reconfigure.Drain},
		Update:  {reconfigure.Reboot, reconfigure.Replace},
	}
	rapid.Check(t, func(t *rapid.T) {
		cluster, seen := drawn(t)
		for _, f := range seen.compare(cluster) {
			requests := Requests([]Finding{f})
			if len(requests) == 0 {
				continue
			}
			requests[0].ID, requests[0].Submitted = 1, now
			p := plan.Compute(cluster, seen.Snapshot, requests)
			change, planned := p.Of(f.Node)
			wanted := does[f.Fix]
			switch {
			case f.Kind == Unadopted:
				wanted = []reconfigure.Action{reconfigure.Adopt}
			case f.Kind == Silent:
				wanted = []reconfigure.Action{reconfigure.Configure}
			case f.Kind == Drained && seen.States[f.Node].Running():
				if len(p.Changes) == 0 && len(p.Deferred) == 1 && p.Deferred[0].Kind == reconfigure.WaitsForJobs {
					continue
				}
			}
			if !planned || !slices.Contains(wanted, change.Action) || len(p.Changes) > 1 || p.Everywhere {
				t.Fatalf("%+v, but planned is %s, everywhere %t, rejected %v", f, p, p.Everywhere, p.Rejected)
			}
		}
	})
}
