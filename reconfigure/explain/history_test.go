package explain_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/explain"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// fixed is a journal that does not change.
type fixed struct{ explain.Facts }

func (f fixed) Requests(context.Context, int) ([]reconfigure.Request, error) { return nil, nil }

func (f fixed) RequestsSince(context.Context, time.Time) ([]reconfigure.Request, error) {
	return f.Facts.Requests, nil
}

func (f fixed) RequestsOf(context.Context, ...int64) (map[int64][]reconfigure.RequestID, error) {
	return map[int64][]reconfigure.RequestID{1: {1}, 2: {2}}, nil
}

func (f fixed) OutcomesOf(
	context.Context, ...reconfigure.RequestID,
) (map[reconfigure.RequestID]reconfigure.Outcome, error) {
	return f.Outcomes, nil
}

func (f fixed) EventsAfter(_ context.Context, after int64, _ time.Time, _ int) (all []reconfigure.Event, _ error) {
	for _, r := range f.Facts.Requests {
		for _, e := range f.Events[r.ID] {
			if e.ID > after {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

func (f fixed) Lives(context.Context, time.Time) ([]reconfigure.Life, error) {
	return f.Facts.Lives, nil
}

func (f fixed) JobRuns(context.Context, time.Time, ...int64) ([]reconfigure.JobRun, error) {
	return f.Runs, nil
}

// TestHistoryIsFiltered compares the lines of each filter.
func TestHistoryIsFiltered(t *testing.T) {
	f := hostileFacts("h1")
	f.Requests[1].Nodes, f.Requests[1].Jobs = nodeset.Of("n2"), nil
	for name, c := range map[string]struct {
		filter explain.Filter
		want   []string
	}{
		"a node":       {explain.Filter{Nodes: nodeset.Of("n2")}, []string{"submitted"}},
		"a request":    {explain.Filter{Request: 2}, []string{"submitted"}},
		"a class":      {explain.Filter{Class: reconfigure.ClassSSH}, []string{"failed", "removed"}},
		"another host": {explain.Filter{Host: "h2"}, nil},
		"a host": {
			explain.Filter{Host: "h1"},
			[]string{"begun", "made", "begun", "note", "failed", "note", "removed"},
		},
		"a job, since a time": {
			explain.Filter{Job: 4, Since: f.Now.Add(-51 * time.Second)},
			[]string{"failed", "note", "note", "removed", "ended", "rejected"},
		},
		"two": {explain.Filter{Class: reconfigure.ClassSSH, Request: 2}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := explain.NewHistory(fixed{f}, c.filter).Next(t.Context(), f.Now)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range lines {
				got = append(got, string(l.What))
			}
			if !slices.Equal(c.want, got) {
				t.Errorf("%v, not %v", got, c.want)
			}
		})
	}
}

// TestHistoryIsFollowed looks at the history every second while nodes come and fail: it has the same lines as one look
// at the end, each once.
func TestHistoryIsFollowed(t *testing.T) {
	play(t, nil, func(c *cluster) {
		history := explain.NewHistory(c.journal, explain.Filter{})
		var followed []string
		look := func() {
			lines, err := history.Next(context.Background(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range lines {
				followed = append(followed, l.String())
			}
		}
		watch := func(d time.Duration) {
			for range int(d / time.Second) {
				time.Sleep(time.Second)
				synctest.Wait()
				look()
			}
		}
		look()
		c.Order(simulate.NoValidHost, "p3")
		c.submits(4, "p2")
		watch(10 * time.Second)
		c.submits(5, "p3")
		watch(3 * time.Minute)
		c.becomes("COMPLETED", func(r *reconfigure.JobRun) { r.Started, r.Ended = time.Now(), time.Now() })
		for range 30 { // more requests between two looks than one look reads at first
			c.asks(reconfigure.Request{Mode: reconfigure.Suspend, Nodes: nodeset.Of("p9")})
		}
		watch(time.Minute)
		var all []string
		for _, l := range c.happened(explain.Filter{}) {
			all = append(all, l.String())
		}
		slices.Sort(all)
		slices.Sort(followed)
		if !slices.Equal(all, followed) {
			t.Errorf("followed:\n%s\n\nat the end:\n%s", strings.Join(followed, "\n"), strings.Join(all, "\n"))
		}
		if len(all) < 80 {
			t.Errorf("only %d lines", len(all))
		}
	})
}
