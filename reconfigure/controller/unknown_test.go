package controller_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Slurm's key may name any nodes. A call with very many that nobody knows leaves one verdict for them, and begins no
// operation for any of them; the nodes that are declared get what was asked for.
func TestNodesThatNobodyKnowsShareAVerdict(t *testing.T) {
	many, err := nodeset.Parse("x[1-300]", "p2")
	if err != nil {
		t.Fatal(err)
	}
	unknown := reconfigure.Verdict{
		Node: "x[1-300]", Status: reconfigure.StatusRejected, Phase: reconfigure.PhasePlan,
		Reason: "no node group declares it",
	}
	for mode, want := range map[reconfigure.Mode][]reconfigure.Verdict{
		reconfigure.Resume:  {{Node: "p2", Action: reconfigure.Create, Status: reconfigure.StatusDone}, unknown},
		reconfigure.Suspend: {{Node: "p2", Status: reconfigure.StatusUnchanged}, unknown},
		reconfigure.Update:  {{Node: "p2", Status: reconfigure.StatusUnchanged}, unknown},
	} {
		t.Run(string(mode), func(t *testing.T) {
			test(t, nil, func(l *lab) {
				if mode == reconfigure.Resume {
					l.PowersUp("p2")
				}
				l.submit(reconfigure.Request{Mode: mode, Nodes: many})
				l.work()
				o, _ := l.outcome(1)
				if diff := cmp.Diff(want, o.Verdicts); diff != "" {
					t.Errorf("verdicts (-want +got):\n%.2000s", diff)
				}
				if o.Code != partial {
					t.Errorf("the code is %s", o.Code)
				}
				events, err := l.journal.Events(t.Context(), 1, 0)
				text, _ := json.Marshal([]any{o, events})
				if err != nil || len(text) > 10_000 {
					t.Errorf("the journal has %d bytes more, %v", len(text), err)
				}
			})
		})
	}
}

// A node that is no longer declared, but that Slurm knows, is handed back to Slurm.
func TestANodeThatOnlySlurmKnowsIsHandedBack(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p9")
		c := declared()
		c.Groups[0].Max = 8
		l.lock.Lock()
		l.cluster = c // Slurm has still the old slurm.conf
		l.lock.Unlock()
		l.submit(ask(reconfigure.Resume, "p9"))
		l.work()
		l.wantEnds(codes{1: failed})
		pass(time.Minute)
		if state := l.Node("p9").State; state == "ALLOCATED+CLOUD+POWERING_UP" {
			t.Errorf("Slurm waits for it: %s", state)
		}
	})
}
