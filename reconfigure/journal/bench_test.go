package journal

import (
	"fmt"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// both runs a benchmark with each database.
func both(b *testing.B, bench func(b *testing.B, place places)) {
	b.Run("SQLite", func(b *testing.B) { bench(b, func(t testing.TB) string { return t.TempDir() }) })
	b.Run("PostgreSQL", func(b *testing.B) { bench(b, startServer(b).database) })
}

// BenchmarkOpen measures how long a call of the tool takes to open and close the journal.
func BenchmarkOpen(b *testing.B) {
	both(b, func(b *testing.B, place places) {
		at := place(b)
		open(b, at)
		for b.Loop() {
			noError(b, must(openAt(b.Context(), at))(b).Close())
		}
	})
}

func BenchmarkSubmit(b *testing.B) {
	both(b, func(b *testing.B, place places) {
		j := open(b, place(b))
		for b.Loop() {
			submit(b, j, "n1", "n2", "n3")
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	both(b, func(b *testing.B, place places) {
		for _, events := range []int{1, 100, 4000} {
			b.Run(fmt.Sprint(events, " events"), func(b *testing.B) {
				j := open(b, place(b))
				all := eventsOf(begin(b, j, submit(b, j, "n1")), events)
				for b.Loop() {
					noError(b, j.Record(b.Context(), all...))
				}
			})
		}
	})
}

// BenchmarkChanged measures what a waiting controller calls four times a second.
func BenchmarkChanged(b *testing.B) {
	both(b, func(b *testing.B, place places) {
		j := open(b, place(b))
		for b.Loop() {
			must(j.Changed(b.Context()))(b)
		}
	})
}

// BenchmarkEventsOf reads the events of 620 pending requests, and those of one request: once with a plan for each, once
// with one plan for all. Each request has ten events. The metric is the ratio of the times.
func BenchmarkEventsOf(b *testing.B) {
	both(b, func(b *testing.B, place places) {
		for name, atOnce := range map[string]int{"a plan each": 1, "one plan": 620} {
			b.Run(name, func(b *testing.B) {
				j := open(b, place(b))
				ids := underWay(b, j, 620, atOnce)
				var took [2]time.Duration
				for b.Loop() {
					for i, some := range [][]reconfigure.RequestID{ids[:1], ids} {
						start := time.Now()
						if of := must(j.EventsOf(b.Context(), some...))(b); len(of) != len(some) ||
							len(of[some[0]]) != 10 {
							b.Fatalf("events of %d requests of %d", len(of), len(some))
						}
						took[i] += time.Since(start)
					}
				}
				b.ReportMetric(float64(took[1])/float64(took[0]), "620/1")
				b.ReportMetric(float64(took[1].Microseconds())/float64(b.N)/1000, "ms/620")
			})
		}
	})
}

// underWay submits requests, each with ten events of its node. Each plan is for atOnce of them.
func underWay(b *testing.B, j *Journal, count, atOnce int) (ids []reconfigure.RequestID) {
	for len(ids) < count {
		var (
			together []reconfigure.Request
			events   []reconfigure.Event
		)
		for range atOnce {
			r := submit(b, j, fmt.Sprint("node", len(ids)))
			ids, together = append(ids, r.ID), append(together, r)
		}
		plan := begin(b, j, together...)
		for _, r := range together {
			for range 10 {
				events = append(events, event(plan, r.Nodes.String(), "the instance is there and answers"))
			}
		}
		noError(b, j.Record(b.Context(), events...))
	}
	return ids
}

// BenchmarkGrowth compares a journal of a million events with one of a thousand, both over a hundred nodes: each
// operation's metric is the ratio of the times. Both return the same amount of data.
func BenchmarkGrowth(b *testing.B) {
	both(b, func(b *testing.B, place places) {
		small, large := grown(b, place(b), 1e3), grown(b, place(b), 1e6)
		for name, do := range growthOperations() {
			b.Run(name, func(b *testing.B) {
				var took [2]time.Duration
				for b.Loop() {
					for i, g := range []growth{small, large} { // alternating, so that other load affects both
						start := time.Now()
						do(b, g)
						took[i] += time.Since(start)
					}
				}
				b.ReportMetric(float64(took[1])/float64(took[0]), "large/small")
			})
		}
	})
}

func growthOperations() map[string]func(testing.TB, growth) {
	count := func(b testing.TB, want int) func(int, error) {
		return func(n int, err error) {
			if n != want || err != nil {
				b.Fatalf("%d of %d: %v", n, want, err)
			}
		}
	}
	return map[string]func(testing.TB, growth){
		"LastMoves": func(b testing.TB, g growth) {
			all, err := g.LastMoves(b.Context())
			count(b, 100)(len(all), err)
		},
		"Pending": func(b testing.TB, g growth) { all, err := g.Pending(b.Context()); count(b, 1)(len(all), err) },
		"Requests": func(b testing.TB, g growth) {
			all, err := g.Requests(b.Context(), 10)
			count(b, 10)(len(all), err)
		},
		"Events": func(b testing.TB, g growth) {
			all, err := g.Events(b.Context(), g.done, 0)
			count(b, 100)(len(all), err)
		},
		"EventsOf": func(b testing.TB, g growth) {
			all, err := g.EventsOf(b.Context(), g.done)
			count(b, 100)(len(all[g.done]), err)
		},
		"Changed": func(b testing.TB, g growth) { must(g.Changed(b.Context()))(b) },
		"Record":  func(b testing.TB, g growth) { noError(b, g.Record(b.Context(), event(g.plan, "n0", ""))) },
	}
}

// growth is a journal of many events. Its last request has begun in the plan; done is the previous request.
type growth struct {
	*Journal
	done reconfigure.RequestID
	plan int64
}

func grown(b testing.TB, place string, events int) growth {
	g := growth{Journal: open(b, place), done: reconfigure.RequestID(events / 100)}
	const count = ` WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < $1 - 1) SELECT `
	for _, fill := range []struct {
		statement string
		rows      int
	}{
		{`INSERT INTO requests (mode, nodes, reason, caller, jobs, submitted, options, finished, code, error,
			verdicts)` + count +
			`'resume', 'n[0-99]', '', '', 'null', i, '{}', i, 'done', '', '[]' FROM n`, events / 100},
		{`INSERT INTO plans (begun)` + count + `i FROM n`, events / 100},
		{`INSERT INTO plan_requests (request, plan)` + count + `i + 1, i + 1 FROM n`, events / 100},
		{`INSERT INTO events (time, plan, node, phase, level, message)` + count +
			`i, i / 100 + 1, 'n' || (i % 100), 'boot', 'done', 'the instance is there and answers' FROM n`, events},
	} {
		if _, err := g.db.ExecContext(b.Context(), fill.statement, fill.rows); err != nil {
			b.Fatal(err)
		}
	}
	if _, ok := g.store.(postgresStore); ok { // the server would do this later by itself
		must(g.db.ExecContext(b.Context(), `ANALYZE`))(b)
	}
	g.plan = begin(b, g.Journal, submit(b, g.Journal, "n1"))
	return g
}

func eventsOf(plan int64, n int) []reconfigure.Event {
	events := make([]reconfigure.Event, n)
	for i := range events {
		events[i] = event(plan, fmt.Sprintf("node%04d", i), "the instance is there and answers")
	}
	return events
}
