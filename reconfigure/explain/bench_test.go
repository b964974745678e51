package explain

import (
	"fmt"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// BenchmarkLargeRequest tells the story of a request for 4000 nodes.
func BenchmarkLargeRequest(b *testing.B) {
	const n = 4000
	at := func(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }
	var names []string
	f := Facts{Now: at(1000)}
	var events []reconfigure.Event
	for i := range n {
		node := fmt.Sprintf("n%04d", i)
		names = append(names, node)
		f.Lives = append(f.Lives, reconfigure.Life{Node: node, Instance: node, Plan: 1, Made: at(5)})
		for j, p := range []reconfigure.Phase{
			reconfigure.PhaseApply, reconfigure.PhaseBoot, reconfigure.PhaseConfigure, reconfigure.PhaseVerify,
		} {
			for k, level := range []reconfigure.Level{reconfigure.Begun, reconfigure.Done} {
				events = append(events, reconfigure.Event{
					ID: int64(len(events) + 1), Time: at(2 + 10*j + 9*k), Plan: 1, Node: node, Phase: p, Level: level,
				})
			}
		}
	}
	f.Requests = []reconfigure.Request{{ID: 1, Mode: reconfigure.Deploy, Nodes: nodeset.Of(names...), Submitted: at(1)}}
	f.Events = map[reconfigure.RequestID][]reconfigure.Event{1: events}
	for b.Loop() {
		if s := New(f, Subject{Request: 1}); len(s.Steps) > 20 {
			b.Fatal(len(s.Steps))
		}
	}
}
