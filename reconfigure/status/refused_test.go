package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestRefusedCallsOfTheLastDayAreShown(t *testing.T) {
	call := func(ago time.Duration, count int, why string) reconfigure.RefusedCall {
		return reconfigure.RefusedCall{Time: utcNoon.Add(-ago), Peer: "192.0.2.7", Why: why, Command: `"x"`, Count: count}
	}
	calls := refusedCalls([]reconfigure.KeyUse{
		{Key: "node node01", Refused: []reconfigure.RefusedCall{
			call(30*time.Hour, 100, "old"), call(2*time.Hour, 3, "no verb"), call(time.Minute, 2, "too many calls"),
		}},
		{Key: "node node02", Refused: []reconfigure.RefusedCall{call(25*time.Hour, 1, "old")}},
		{Key: "node node03"},
		{Key: "slurm", Refused: []reconfigure.RefusedCall{call(time.Second, 1, "no verb")}},
	})
	want := []string{
		`Refused calls with the key of node node01: 5, the last one 1m00s ago from 192.0.2.7: too many calls: "x"`,
		`Refused calls with the key of slurm: 1, the last one 1s ago from 192.0.2.7: no verb: "x"`,
	}
	if diff := cmp.Diff(want, refusals(calls, utcNoon)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(calls) != 5 {
		t.Errorf("%d calls in JSON, want 5", len(calls))
	}
}
