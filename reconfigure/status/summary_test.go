package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// failing is a busy cluster in which one group cools down and the other does not boot.
func failing() (reconfigure.Cluster, snapshot.Snapshot, Journal) {
	c := threeGroups
	c.Settings = reconfigure.Settings{CoolDown: 2 * time.Minute, Breaker: 3}
	c.Slurm.ResumeTimeout = 10 * time.Minute
	seen, known := busy()
	known.Time = utcNoon
	known.Health = map[string]reconfigure.Health{
		"standard": {
			Failures: 2, // too few to be reported
			Full: reconfigure.Setback{
				Node:   "node07",
				Class:  reconfigure.ClassCapacity,
				Reason: "No valid\nhost was found",
				Time:   utcNoon.Add(-30 * time.Second),
			},
		},
		"gpu": reconfigure.Health{
			Failures: 4, Since: utcNoon.Add(-time.Hour),
			Last: reconfigure.Setback{
				Node:   "gpu2",
				Class:  reconfigure.ClassSSH,
				Reason: "it does not answer",
				Time:   utcNoon.Add(-10 * time.Minute),
			},
			Full: reconfigure.Setback{
				Node:   "gpu1",
				Class:  reconfigure.ClassQuota,
				Reason: "too long ago",
				Time:   utcNoon.Add(-2 * time.Minute),
			},
		}.Trying("gpu1", utcNoon.Add(-time.Minute)),
	}
	return c, seen, known
}

func TestStatusOfGroupsWithFailures(t *testing.T) {
	declared, seen, known := failing()
	var text strings.Builder
	write := func(title string, f Filter) {
		r := New(declared, seen, known, reconcile.Look{}).Only(f)
		fmt.Fprintf(&text, "=== %s\n", title)
		r.writeGroups(&text, Layout{Now: utcNoon, Width: TableWidth})
		groups, err := json.MarshalIndent(r.Groups, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s\n", groups)
	}
	write("both", Filter{})
	known.Health["gpu"] = known.Health["gpu"].Trying("", time.Time{})
	write("no node tries it now", Filter{Groups: []string{"gpu"}})
	known.Time = utcNoon.Add(90 * time.Second)
	write("it has cooled down", Filter{Groups: []string{"standard"}})
	golden(t, "fares.txt", text.String())
}

func TestContinuedGroupIsToldWhatIsForgotten(t *testing.T) {
	for want, d := range map[string]Continued{
		"gpu: nothing had failed":                  {Group: "gpu"},
		"gpu: forgotten: 3 boot failures in a row": {Group: "gpu", Failures: 3},
		"gpu: forgotten: the lack of room": {
			Group: "gpu", Full: "No valid host was found",
		},
		"gpu: forgotten: 3 boot failures in a row, and the lack of room": {
			Group: "gpu", Failures: 3, Full: "No valid host was found",
		},
	} {
		if got := d.String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
