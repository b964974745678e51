package journal

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/journaltest"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// TestTheJournalInMemoryAgreesWithTheRealOne calls random methods of both, as two processes, and compares the results.
func TestTheJournalInMemoryAgreesWithTheRealOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		memory := memory.New()
		var pairs []*pair
		for range 2 {
			real := must(Open(t.Context(), dir))(t)
			defer real.Close()
			pairs = append(pairs, &pair{real: real, memory: memory.Open()})
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			pairs[rapid.IntRange(0, 1).Draw(rt, "process")].step(t, rt)
			pairs[0].compare(t, rt)
		}
		for _, p := range pairs {
			p.release(rt)
		}
	})
}

// pair is one process that has opened both journals.
type pair struct {
	real, memory journaltest.Journal
	releases     []func() error // of the lease that it has on both
}

// each calls do with both journals and compares the errors. It reports whether there is none.
func (p *pair) each(rt *rapid.T, what string, do func(journaltest.Journal) error) bool {
	real, memory := do(p.real), do(p.memory)
	if class(real) != class(memory) {
		rt.Fatalf("%s: the real journal returns %v, the one in memory %v", what, real, memory)
	}
	return real == nil
}

// class is what callers test an error for.
func class(err error) string {
	for _, known := range []error{ErrFinished, ErrBegun, ErrPaused, ErrLeaseLost, reconfigure.ErrCampaign,
		reconfigure.ErrNoCampaign} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "another error"
	}
	return ""
}

func (p *pair) step(t *testing.T, rt *rapid.T) {
	ctx := t.Context()
	ids := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) reconfigure.RequestID {
		return reconfigure.RequestID(rapid.IntRange(1, 6).Draw(rt, "id"))
	}), 1, 3)
	nodes := rapid.SliceOfN(rapid.SampledFrom([]string{"n1", "n2", "n3"}), 0, 2)
	outcomes := func(of []reconfigure.RequestID) (all []reconfigure.Outcome) {
		for _, id := range of {
			wait := reconfigure.Deferral{Request: id, Kind: reconfigure.CannotPlan, Reason: "no cloud"}
			all = append(all, reconfigure.Outcome{
				Request: id, Code: reconfigure.CodeDone, Finished: time.Unix(int64(id), 0).UTC(),
				Verdicts: []reconfigure.Verdict{{Node: "n1"}}, Deferred: []reconfigure.Deferral{wait},
			})
		}
		return all
	}
	switch what := rapid.SampledFrom([]string{
		"submit", "submit", "begin", "begin", "undo", "defer", "finish", "cancel", "record", "record", "pause",
		"continue",
		"acquire", "release", "prune", "start", "advance", "live", "live", "job",
	}).Draw(rt, "what"); what {
	case "submit":
		r := reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of(nodes.Draw(rt, "nodes")...)}
		p.each(rt, what, func(j journaltest.Journal) error { _, err := j.Submit(ctx, r); return err })
	case "begin":
		of := ids.Draw(rt, "ids")
		p.each(rt, what, func(j journaltest.Journal) error { _, err := j.Begin(ctx, of); return err })
	case "undo":
		of, undone := ids.Draw(rt, "ids"), outcomes(ids.Draw(rt, "undone"))
		p.each(rt, what, func(j journaltest.Journal) error { _, err := j.Begin(ctx, of, undone...); return err })
	case "defer":
		of := outcomes(ids.Draw(rt, "ids"))
		p.each(rt, what, func(j journaltest.Journal) error { return j.Defer(ctx, of...) })
	case "finish":
		of := outcomes(ids.Draw(rt, "ids"))
		p.each(rt, what, func(j journaltest.Journal) error { return j.Finish(ctx, of...) })
	case "cancel":
		id := ids.Draw(rt, "ids")[0]
		p.each(rt, what, func(j journaltest.Journal) error { return j.Cancel(ctx, id) })
	case "record":
		plan, node := rapid.Int64Range(1, 5).Draw(rt, "plan"),
			rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(rt, "node")
		events := []reconfigure.Event{event(plan, node, "a"), event(plan, "n3", "b")}
		p.each(rt, what, func(j journaltest.Journal) error { return j.Record(ctx, events...) })
	case "live":
		moment := rapid.Custom(func(rt *rapid.T) time.Time {
			return time.Unix(rapid.Int64Range(1, 9).Draw(rt, "at"), 0).UTC()
		})
		l := reconfigure.Life{
			Node: rapid.SampledFrom([]string{"n1", "n2"}).Draw(rt, "node"), Made: moment.Draw(rt, "made"),
			Instance: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "instance"),
			Plan:     rapid.Int64Range(1, 2).Draw(rt, "plan"), Continues: rapid.Bool().Draw(rt, "continues"),
		}
		if l.Instance == "" || rapid.IntRange(0, 3).Draw(rt, "ends") == 0 {
			l.Removed = moment.Draw(rt, "removed")
		}
		p.each(rt, what, func(j journaltest.Journal) error { return j.Record(ctx, reconfigure.Event{Life: &l}) })
	case "job":
		r := reconfigure.JobRun{
			ID: rapid.Int64Range(0, 2).Draw(rt, "job"), State: rapid.SampledFrom([]string{"X", "Y"}).Draw(rt, "state"),
			Submitted: time.Unix(rapid.Int64Range(1, 2).Draw(rt, "submitted"), 0).UTC(),
		}
		if rapid.Bool().Draw(rt, "ended") {
			r.Ended = time.Unix(rapid.Int64Range(1, 6).Draw(rt, "end"), 0).UTC()
		}
		p.each(rt, what, func(j journaltest.Journal) error { return j.KeepJobRuns(ctx, r.ID, r) })
	case "pause":
		p.each(rt, what, func(j journaltest.Journal) error { return j.Pause(ctx, "why", "anna") })
	case "continue":
		p.each(rt, what, func(j journaltest.Journal) error { return j.Continue(ctx) })
	case "acquire":
		p.acquire(t, rt)
	case "release":
		p.release(rt)
	case "start":
		c := reconfigure.Campaign{State: reconfigure.CampaignRunning, Reserved: "r"}
		p.each(rt, what, func(j journaltest.Journal) error { _, err := j.StartCampaign(ctx, c); return err })
	case "advance":
		id := reconfigure.CampaignID(rapid.IntRange(1, 3).Draw(rt, "campaign"))
		states := []reconfigure.CampaignState{reconfigure.CampaignPaused, reconfigure.CampaignDone}
		state, mode := rapid.SampledFrom(states).Draw(rt, "state"), reconfigure.Update
		if rapid.IntRange(0, 9).Draw(rt, "bad") == 0 {
			mode = ""
		}
		r := reconfigure.Request{Mode: mode, Nodes: nodeset.Of(nodes.Draw(rt, "nodes")...)}
		p.each(rt, what, func(j journaltest.Journal) error {
			_, err := j.AdvanceCampaign(ctx, id,
				func(c reconfigure.Campaign) (reconfigure.Campaign, []reconfigure.Request, error) {
					c.State = state
					return c, []reconfigure.Request{r}, nil
				})
			return err
		})
	case "prune":
		before := time.Unix(rapid.Int64Range(1, 6).Draw(rt, "before"), 0)
		p.each(rt, what, func(j journaltest.Journal) error { return j.Prune(ctx, before) })
	}
}

func (p *pair) acquire(t *testing.T, rt *rapid.T) {
	var got []bool
	for _, j := range []journaltest.Journal{p.real, p.memory} {
		release, ok, err := j.Acquire(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		if got = append(got, ok); ok {
			p.releases = append(p.releases, release)
		}
	}
	if got[0] != got[1] {
		rt.Fatalf("the real one is acquired: %v, the one in memory: %v", got[0], got[1])
	}
}

func (p *pair) release(rt *rapid.T) {
	for _, release := range p.releases {
		if err := release(); err != nil {
			rt.Fatal(err)
		}
	}
	p.releases = nil
}

// compare compares all that can be read, without times.
func (p *pair) compare(t *testing.T, rt *rapid.T) {
	ctx := t.Context()
	view := func(j journaltest.Journal) map[string]any {
		all := map[string]any{}
		put := func(what string, value any, err error) {
			if all[what] = value; err != nil {
				rt.Fatalf("%s: %v", what, err)
			}
		}
		requests, err := j.Requests(ctx, 100)
		for i := range requests {
			requests[i].Submitted = time.Time{}
			outcome, ok, err := j.Outcome(ctx, requests[i].ID)
			outcome.Finished = time.Time{}
			put(fmt.Sprint("outcome ", requests[i].ID, ok), outcome, err)
		}
		put("requests", requests, err)
		pending, err := j.Pending(ctx)
		put("pending", len(pending), err)
		events, err := j.EventsOf(ctx, 1, 2, 3, 4, 5, 6)
		put("events", events, err)
		moves, err := j.LastMoves(ctx)
		put("moves", moves, err)
		_, paused, err := j.Paused(ctx)
		put("paused", paused, err)
		c, ok, err := j.Campaign(ctx)
		c.Started = time.Time{}
		put(fmt.Sprint("campaign ", ok), c, err)
		lives, err := j.Lives(ctx, time.Unix(3, 0))
		put("lives", lives, err)
		runs, err := j.JobRuns(ctx, time.Unix(3, 0))
		put("jobs", runs, err)
		position, err := j.JobPosition(ctx)
		put("position", position, err)
		put("lease", j.Holder(ctx) != "", nil)
		return all
	}
	times := cmpopts.IgnoreFields(reconfigure.Event{}, "Time")
	if d := cmp.Diff(view(p.real), view(p.memory), times, cmpopts.EquateEmpty()); d != "" {
		rt.Fatalf("(-real +in memory):\n%s", d)
	}
}
