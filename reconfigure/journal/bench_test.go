package journal

import (
	"fmt"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func BenchmarkSubmit(b *testing.B) {
	j := open(b, b.TempDir())
	for b.Loop() {
		submit(b, j, "n1", "n2", "n3")
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, events := range []int{1, 100, 4000} {
		b.Run(fmt.Sprint(events, " events"), func(b *testing.B) {
			j := open(b, b.TempDir())
			all := eventsOf(begin(b, j, submit(b, j, "n1")), events)
			for b.Loop() {
				noError(b, j.Record(b.Context(), all...))
			}
		})
	}
}

// A journal of a million events: a thousand batches over a thousand nodes.
func BenchmarkMillion(b *testing.B) {
	j := open(b, b.TempDir())
	var names []string
	for _, e := range eventsOf(0, 1000) {
		names = append(names, e.Node)
	}
	var r reconfigure.Request
	for range 1000 {
		r = submit(b, j, names...)
		noError(b, j.Record(b.Context(), eventsOf(begin(b, j, r), 1000)...))
		noError(b, j.Finish(b.Context(), reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone}))
	}
	few := must(j.Submit(b.Context(), reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of(names[:2]...)}))(b)
	noError(b, j.Record(b.Context(), eventsOf(begin(b, j, few), 1000)...))

	for name, do := range map[string]func() (int, error){
		"LastEvents":  func() (int, error) { all, err := j.LastEvents(b.Context()); return len(all), err },
		"Pending":     func() (int, error) { all, err := j.Pending(b.Context()); return len(all), err },
		"Events-1000": func() (int, error) { all, err := j.Events(b.Context(), r.ID, 0); return len(all), err },
		"Events-2":    func() (int, error) { all, err := j.Events(b.Context(), few.ID, 0); return len(all), err },
	} {
		want := map[string]int{"LastEvents": 1000, "Pending": 1, "Events-1000": 1000, "Events-2": 2}[name]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n, err := do(); n != want || err != nil {
					b.Fatalf("%d of %d: %v", n, want, err)
				}
			}
		})
	}
}

func eventsOf(batch int64, n int) []reconfigure.Event {
	events := make([]reconfigure.Event, n)
	for i := range events {
		events[i] = event(batch, fmt.Sprintf("node%04d", i), "the instance is there and answers")
	}
	return events
}
