package usage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// at returns a time of the tests, in seconds; at(0) is the zero time.
func at(s float64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(s * float64(time.Second)))
}

// life returns the life of an instance, with the times of its steps.
func life(node, instance string, planned, made, booted, configured, registered, removed float64) reconfigure.Life {
	return reconfigure.Life{
		Node: node, Instance: instance, Plan: 1, Group: "g", Planned: at(planned), Made: at(made), Booted: at(booted),
		Configured: at(configured), Registered: at(registered), Removed: at(removed),
	}
}

func job(id int64, state, nodes string, submitted, started, ended float64) reconfigure.JobRun {
	set, err := nodeset.Parse(nodes)
	if err != nil {
		panic(err)
	}
	return reconfigure.JobRun{ID: id, User: fmt.Sprintf("u%d", id), State: state, Nodes: set, Submitted: at(submitted),
		Started: at(started), Ended: at(ended)}
}

func resume(id reconfigure.RequestID, s float64, jobs ...reconfigure.JobRun) reconfigure.Request {
	r := reconfigure.Request{ID: id, Mode: reconfigure.Resume, Submitted: at(s)}
	for _, j := range jobs {
		r.Jobs = append(r.Jobs, reconfigure.Job{ID: j.ID, Nodes: j.Nodes, Partition: "p"})
		r.Nodes = r.Nodes.Union(j.Nodes)
	}
	return r
}

func failed(s float64, node string) reconfigure.Event {
	return reconfigure.Event{Time: at(s), Node: node, Phase: reconfigure.PhaseApply, Level: reconfigure.Failed,
		Message: "no room"}
}

// words returns a job in one line: its number, the steps of its timeline, and why.
func words(j Job) string {
	var all []string
	for _, s := range j.Timeline {
		text := string(s.What)
		if s.Node != "" {
			text += " " + s.Node
		}
		all = append(all, text)
	}
	line := fmt.Sprintf("%d %s: %s", j.ID, j.State, strings.Join(all, ", "))
	if j.Why != "" {
		line += "; " + j.Why
	}
	return line
}

func TestJobs(t *testing.T) {
	two := job(1, "COMPLETED", "n[1-2]", 1, 50, 90)
	first := job(1, "NODE_FAIL", "n1", 1, 2, 30)
	again := job(1, "COMPLETED", "n1", 30, 80, 90)
	for what, c := range map[string]struct {
		facts Facts
		want  []string
	}{
		"it ran on two new nodes": {
			Facts{
				Runs:     []reconfigure.JobRun{two},
				Lives:    []reconfigure.Life{life("n1", "a", 6, 10, 20, 30, 40, 0), life("n2", "b", 6, 11, 21, 31, 49.9, 99)},
				Requests: []reconfigure.Request{resume(7, 5, two)},
			},
			[]string{"1 COMPLETED: submitted, asked for, planned n1, planned n2, made n1, made n2, booted n1, booted n2, " +
				"configured n1, configured n2, registered n1, registered n2, started, ended, removed n2"},
		},
		"we noticed a little later that slurmd had registered": {
			Facts{
				Runs:     []reconfigure.JobRun{job(1, "COMPLETED", "n1", 1, 50, 50)},
				Lives:    []reconfigure.Life{life("n1", "a", 6, 10, 20, 51.5, 52, 60)},
				Requests: []reconfigure.Request{resume(7, 5, job(1, "", "n1", 0, 0, 0))},
			},
			[]string{"1 COMPLETED: submitted, asked for, planned n1, made n1, booted n1, configured n1, registered n1, " +
				"started, ended, removed n1"},
		},
		"it found its node up, and not the instances before and after": {
			Facts{
				Runs: []reconfigure.JobRun{job(1, "COMPLETED", "n1", 50, 51, 60)},
				Lives: []reconfigure.Life{
					life("n1", "a", 1, 2, 3, 4, 5, 20), life("n1", "b", 21, 22, 23, 24, 25, 70), life("n1", "c", 71, 72, 0, 0, 0, 0),
					life("n2", "d", 21, 22, 23, 24, 25, 70),
				},
			},
			[]string{"1 COMPLETED: made n1, booted n1, configured n1, registered n1, submitted, started, ended, removed n1"},
		},
		"its first node came on the second instance": {
			Facts{
				Runs:     []reconfigure.JobRun{job(1, "RUNNING", "n1", 1, 50, 0)},
				Lives:    []reconfigure.Life{life("n1", "a", 6, 10, 0, 0, 0, 20), life("n1", "b", 6, 25, 30, 35, 40, 0)},
				Requests: []reconfigure.Request{resume(7, 5, job(1, "", "n1", 0, 0, 0))},
			},
			[]string{"1 RUNNING: submitted, asked for, planned n1, made n1, removed n1, made n1, booted n1, " +
				"configured n1, registered n1, started"},
		},
		"its node failed, and it ran again": {
			Facts{
				Runs:     []reconfigure.JobRun{first, again},
				Lives:    []reconfigure.Life{life("n1", "a", 50, 55, 60, 65, 70, 0)},
				Requests: []reconfigure.Request{resume(7, 5, first), resume(8, 45, again)},
				Events:   map[reconfigure.RequestID][]reconfigure.Event{7: {failed(20, "n1"), failed(20, "n9")}},
			},
			[]string{
				"1 NODE_FAIL: submitted, asked for, failed n1, ended; apply: no room",
				"1 COMPLETED: submitted, asked for, planned n1, made n1, booted n1, configured n1, registered n1, started, ended",
			},
		},
		"its instance never came up": {
			Facts{
				Runs:     []reconfigure.JobRun{job(1, "NODE_FAIL", "n1", 1, 2, 30)},
				Lives:    []reconfigure.Life{life("n1", "a", 6, 10, 0, 0, 0, 31)},
				Requests: []reconfigure.Request{resume(7, 5, first)},
			},
			[]string{"1 NODE_FAIL: submitted, asked for, planned n1, made n1, ended, removed n1"},
		},
		"nothing was begun for it": {
			Facts{
				Runs:     []reconfigure.JobRun{job(1, "CONFIGURING", "n1", 1, 0, 0)},
				Requests: []reconfigure.Request{resume(7, 5, first)},
				Outcomes: map[reconfigure.RequestID]reconfigure.Outcome{7: {
					Finished: at(6),
					Verdicts: []reconfigure.Verdict{{Node: "n1", Status: reconfigure.StatusRejected, Reason: "too few"}},
				}},
			},
			[]string{"1 CONFIGURING: submitted, asked for, failed n1; rejected: too few"},
		},
		"it waits": {
			Facts{
				Runs: []reconfigure.JobRun{job(1, "CONFIGURING", "n1", 1, 0, 0)},
				Requests: []reconfigure.Request{func() reconfigure.Request {
					r := resume(7, 5, first)
					r.Deferred = []reconfigure.Deferral{{Request: 7, Reason: "no cloud"}}
					return r
				}()},
			},
			[]string{"1 CONFIGURING: submitted, asked for; no cloud"},
		},
		"Slurm has forgotten it, and numbers begin again": {
			Facts{
				Runs:     []reconfigure.JobRun{job(1, "RUNNING", "n1", 9000, 9001, 0)},
				Requests: []reconfigure.Request{resume(7, 5, first), resume(8, 15, first)},
			},
			[]string{"1 UNKNOWN: asked for, asked for", "1 RUNNING: submitted, started"},
		},
		"slurmctld's clock is ahead": {
			Facts{
				Runs:     []reconfigure.JobRun{job(1, "CONFIGURING", "n1", 100, 0, 0)},
				Requests: []reconfigure.Request{resume(7, 5, first)},
			},
			[]string{"1 CONFIGURING: asked for, submitted"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			c.facts.Now = at(10000)
			var got []string
			for _, j := range Jobs(c.facts) {
				got = append(got, words(j))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("jobs (-want +got):\n%s", d)
			}
		})
	}
}

func TestHours(t *testing.T) {
	now := at(100)
	lives := []reconfigure.Life{
		life("n1", "a", 1, 10, 12, 15, 20, 80),
		life("n2", "b", 1, 10, 0, 0, 0, 30),
		life("n3", "c", 1, 90, 0, 0, 0, 0),
		{Node: "n4", Instance: "d", Group: "h", Made: at(1)},
	}
	asked := job(1, "COMPLETED", "n[1-2]", 1, 20, 40)
	runs := []reconfigure.JobRun{asked, job(2, "COMPLETED", "n1", 25, 30, 50), job(3, "RUNNING", "n4", 60, 61, 0)}
	requests := []reconfigure.Request{resume(1, 2, asked)}
	r := NewReport(Facts{Now: now, Runs: runs, Lives: lives, Requests: requests}, at(5), "")
	s := time.Second
	want := map[string]Hours{
		"g": {Used: 30 * s, Idle: 30 * s, Booting: 20 * s, Wasted: 20 * s},
		"h": {Used: 39 * s, Idle: 56 * s},
	}
	if d := cmp.Diff(want, r.Groups); d != "" {
		t.Errorf("groups (-want +got):\n%s", d)
	}
	users := map[string]Hours{
		"u1": {Used: 15 * s, Booting: 10 * s, Wasted: 20 * s}, "u2": {Used: 15 * s}, "u3": {Used: 39 * s},
		Nobody: {Idle: 86 * s, Booting: 10 * s},
	}
	if d := cmp.Diff(users, r.Users); d != "" {
		t.Errorf("users (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]int{"g": 3, "h": 1}, r.Instances); d != "" {
		t.Error(d)
	}
	if only := NewReport(Facts{Now: now, Runs: runs, Lives: lives}, at(5), "h"); len(only.Groups) != 1 {
		t.Errorf("only h: %+v", only)
	}
}

// drawFacts draws facts, including impossible ones.
func drawFacts(rt *rapid.T) Facts {
	moment := drawMoment()
	node := rapid.SampledFrom([]string{"n1", "n2"})
	f := Facts{Now: at(50)}
	for i := range rapid.IntRange(0, 6).Draw(rt, "lives") {
		l := reconfigure.Life{
			Node: node.Draw(rt, "node"), Instance: fmt.Sprint(i), Plan: rapid.Int64Range(0, 2).Draw(rt, "plan"),
			Group: rapid.SampledFrom([]string{"g", "h"}).Draw(rt, "group"), Made: moment.Draw(rt, "made"),
			Registered: moment.Draw(rt, "registered"), Removed: moment.Draw(rt, "removed"),
		}
		if l.Made.IsZero() {
			l.Made = at(1)
		}
		f.Lives = append(f.Lives, l)
	}
	for i := range rapid.IntRange(0, 6).Draw(rt, "jobs") {
		r := job(int64(i/2+1), "X", node.Draw(rt, "node"), 1, 0, 0)
		r.Submitted, r.Started, r.Ended = moment.Draw(rt, "submitted"), moment.Draw(rt, "started"), moment.Draw(rt, "ended")
		f.Runs = append(f.Runs, r)
		if rapid.Bool().Draw(rt, "asked") {
			f.Requests = append(f.Requests, resume(reconfigure.RequestID(i+1), 1, r))
			f.Requests[len(f.Requests)-1].Submitted = moment.Draw(rt, "asked at")
		}
	}
	return f
}

func drawMoment() *rapid.Generator[time.Time] {
	return rapid.Custom(func(rt *rapid.T) time.Time { return at(float64(rapid.IntRange(0, 120).Draw(rt, "s")) / 2) })
}

// TestCandidatesSuffice draws failures of all requests, and passes only those of the candidates.
func TestCandidatesSuffice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := drawFacts(rt)
		all := map[reconfigure.RequestID][]reconfigure.Event{}
		for _, r := range f.Requests {
			if rapid.Bool().Draw(rt, "failed") {
				all[r.ID] = []reconfigure.Event{failed(float64(rapid.IntRange(1, 60).Draw(rt, "at")), r.Nodes.Names()[0])}
			}
		}
		pick := Filter{Since: drawMoment().Draw(rt, "since")}
		if rapid.Bool().Draw(rt, "by number") {
			pick.IDs = []int64{1, 3}
		}
		if rapid.Bool().Draw(rt, "by node") {
			pick.Nodes = nodeset.Of("n1")
		}
		pick.Instance = rapid.SampledFrom([]string{"", "", "0", "3"}).Draw(rt, "instance")
		f.Events = all
		want := pick.Select(Jobs(f))
		candidates := pick.Candidates(f)
		f.Events = map[reconfigure.RequestID][]reconfigure.Event{}
		for _, id := range candidates.Requests() {
			f.Events[id] = all[id]
		}
		if d := cmp.Diff(want, pick.Select(candidates.Jobs(f))); d != "" {
			rt.Errorf("(-all +candidates):\n%s", d)
		}
	})
}

// TestHoursAddUp compares the sums with the lives of the instances, for any facts, including impossible ones.
func TestHoursAddUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := drawFacts(rt)
		since := drawMoment().Draw(rt, "since")
		r := NewReport(f, since, "")
		var want, groups, users time.Duration
		for _, l := range f.Lives {
			from, to := l.Made, f.Now
			if from.Before(since) {
				from = since
			}
			if l.Ended() && l.Removed.Before(to) {
				to = l.Removed
			}
			want += max(to.Sub(from), 0)
		}
		for _, h := range r.Groups {
			groups += h.Total()
		}
		for _, h := range r.Users {
			users += h.Total()
			if min(h.Used, h.Idle, h.Booting, h.Wasted) < 0 {
				rt.Errorf("%+v", h)
			}
		}
		if groups != want || users != want {
			rt.Errorf("the instances existed for %s; the groups have %s, the users %s", want, groups, users)
		}
	})
}
