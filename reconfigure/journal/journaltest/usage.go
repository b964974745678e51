package journaltest

import (
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// minute returns a time for the rules below.
func minute(m int) time.Time { return time.Date(2026, 1, 1, 12, m, 0, 0, time.UTC) }

func lifeOf(node, instance string, plan int64, made int) reconfigure.Life {
	return reconfigure.Life{Node: node, Instance: instance, Plan: plan, Group: "standard", Made: minute(made)}
}

func removedAt(l reconfigure.Life, m int) reconfigure.Life {
	l.Removed = minute(m)
	return l
}

// gone returns a life which records that the node no longer has an instance.
func gone(node string, m int) reconfigure.Life {
	return reconfigure.Life{Node: node, Removed: minute(m)}
}

func (j journalRule) recordLives(lives ...reconfigure.Life) {
	j.Helper()
	for _, l := range lives {
		j.noError(j.Record(j.Context(), reconfigure.Event{Node: l.Node, Life: &l}))
	}
}

func (j journalRule) wantLives(since int, want ...reconfigure.Life) {
	j.Helper()
	got, err := j.Lives(j.Context(), minute(since))
	j.noError(err)
	j.equal("lives", want, got)
}

func (j journalRule) lifeComesBack() {
	known := reconfigure.Life{
		Node: "n1", Instance: "i1", Plan: 3, Group: "standard", ImageID: "image-1", FlavorID: "flavor-1", Image: "debian",
		Flavor: "small", Host: "h1", Planned: minute(0), Made: minute(1).Add(time.Nanosecond), Booted: minute(2),
		Configured: minute(3), Registered: minute(4), Failed: "no SSH\x00",
	}
	plan := j.begin(j.submit("n1"))
	with := moved(plan, "n1", "up")
	with.Life = &known
	j.noError(j.Record(j.Context(), with))
	known.Failed = "no SSH\uFFFD"
	got, err := j.Lives(j.Context(), minute(0))
	j.noError(err)
	if len(got) == 1 && got[0].Failed == "no SSH\x00" { // a journal may store it
		got[0].Failed = known.Failed
	}
	j.equal("lives", []reconfigure.Life{known}, got)
	if events := j.eventsOf(j.find(1)); len(events) != 1 || events[0].Life != nil {
		j.Errorf("the events are %+v", events)
	}
	known.Failed, known.Host = "", "h2"
	other := lifeOf("n2", "i2", 1, 0)
	j.recordLives(known, other)
	j.wantLives(0, other, known)
	if events := j.eventsOf(j.find(1)); len(events) != 1 {
		j.Errorf("a life alone is among the events: %+v", events)
	}
	j.recordLives(removedAt(known, 7), known)
	j.wantLives(7, other, removedAt(known, 7)) // not open again; its end is still before minute 7
	j.wantLives(8, other)
}

func (j journalRule) oneLifeAtATime() {
	first, second, other := lifeOf("n1", "i1", 1, 1), lifeOf("n1", "i2", 1, 3), lifeOf("n2", "i3", 1, 1)
	rebuilt := lifeOf("n1", "i2", 2, 5)
	j.recordLives(first, other, second)
	j.wantLives(0, removedAt(first, 3), other, second)
	j.recordLives(rebuilt)
	j.wantLives(0, removedAt(first, 3), other, removedAt(second, 5), rebuilt)
	j.recordLives(gone("n1", 4)) // an end before its start
	j.wantLives(5, other, removedAt(second, 5), rebuilt)
	j.recordLives(gone("n1", 9), gone("n1", 10), gone("n3", 9))
	j.wantLives(6, other, removedAt(rebuilt, 9))
}

func (j journalRule) lifeGoesOn() {
	first, old := lifeOf("n1", "i1", 2, 1), lifeOf("n1", "i1", 1, 0)
	first.Host, first.Planned = "h1", minute(0)
	j.recordLives(old, first)
	adopted := lifeOf("n1", "i1", 5, 4)
	adopted.Continues, adopted.Booted = true, minute(6)
	j.recordLives(adopted)
	adopted.Booted, adopted.Registered = minute(8), minute(9)
	j.recordLives(adopted)
	first.Booted, first.Registered = minute(6), minute(9) // known values stay
	j.wantLives(0, removedAt(old, 1), first)
	unknown := lifeOf("n2", "i2", 5, 4)
	unknown.Continues = true
	j.recordLives(unknown)
	unknown.Continues = false
	j.wantLives(2, first, unknown)
}

func (j journalRule) livesAllOrNone() {
	good, bad := lifeOf("n1", "i1", 1, 1), reconfigure.Life{Node: "n2", Instance: "i2"}
	if err := j.Record(j.Context(), reconfigure.Event{Life: &good}, reconfigure.Event{Life: &bad}); err == nil {
		j.Error("a life without the time when it was made was kept")
	}
	release := j.acquire()
	j.setup.Lose(j)
	j.wantError(reconfigure.ErrLeaseLost, j.Record(j.Context(), reconfigure.Event{Life: &good}))
	_ = release()
	j.wantLives(0)
}

func (j journalRule) timelines() {
	first, second, other := lifeOf("n2", "i1", 1, 1), lifeOf("n2", "i2", 1, 5), lifeOf("n1", "i3", 1, 2)
	first.Host, second.Host, other.Host = "h1", "h2", "h1"
	first.Failed, second.Image, other.Image = "no-ssh: no answer", "v2", "v1"
	j.recordLives(first, other, second, gone("n1", 4))
	first, other = removedAt(first, 5), removedAt(other, 4)
	window := func(since, until int) reconfigure.LifeFilter {
		return reconfigure.LifeFilter{Since: minute(since), Until: minute(until)}
	}
	want := func(f reconfigure.LifeFilter, lives ...reconfigure.Life) {
		j.Helper()
		got, err := j.LivesOf(j.Context(), f)
		j.noError(err)
		j.equal("lives", lives, got)
	}
	want(window(0, 9), other, first, second)
	want(window(0, 1), first)
	want(window(6, 9), second)
	want(window(0, 0))
	f := window(0, 9)
	f.Nodes = []string{"n1", "n3"}
	want(f, other)
	f = window(0, 9)
	f.Host = "h1"
	want(f, other, first)
	f.Image = "v1"
	want(f, other)
	for _, c := range []struct {
		since, until int
		want         []string
	}{{0, 9, []string{"n1", "n2"}}, {0, 1, []string{"n2"}}, {5, 9, []string{"n2"}}, {0, 0, nil}} {
		got, err := j.NodesWithLives(j.Context(), minute(c.since), minute(c.until))
		j.noError(err)
		j.equal("nodes", c.want, got)
	}
	j.timelineFailures()
	run := func(id int64, from, to int) reconfigure.JobRun {
		return reconfigure.JobRun{ID: id, State: "X", Submitted: minute(from), Ended: minute(to)}
	}
	open := reconfigure.JobRun{ID: 3, State: "RUNNING", Submitted: minute(3)}
	j.noError(j.KeepJobRuns(j.Context(), 1, run(1, 0, 2), run(2, 1, 4), open))
	for _, c := range []struct {
		since, until, limit int
		want                []reconfigure.JobRun
		all                 bool
	}{
		{0, 9, 3, []reconfigure.JobRun{run(1, 0, 2), run(2, 1, 4), open}, true}, {0, 9, 2, nil, false},
		{3, 9, 2, []reconfigure.JobRun{run(2, 1, 4), open}, true}, {0, 0, 1, []reconfigure.JobRun{run(1, 0, 2)}, true},
	} {
		got, all, err := j.RunsBetween(j.Context(), minute(c.since), minute(c.until), c.limit)
		j.noError(err)
		j.equal("runs", c.want, got)
		j.equal("completeness", c.all, all)
	}
}

func (j journalRule) timelineFailures() {
	plan := j.begin(j.submit("n1", "n2"))
	event := func(node string, m int, level reconfigure.Level) reconfigure.Event {
		return reconfigure.Event{
			Time: minute(m), Plan: plan, Node: node, Phase: reconfigure.PhaseBoot, Level: level, Message: "no-ssh: x",
		}
	}
	j.noError(j.Record(j.Context(), event("n1", 1, reconfigure.Begun), event("n1", 2, reconfigure.Failed),
		event("n2", 3, reconfigure.Failed), event("", 3, reconfigure.Failed), event("n1", 9, reconfigure.Failed)))
	for _, c := range []struct {
		since, until int
		nodes, want  []string
	}{{0, 9, nil, []string{"n1", "n2", "n1"}}, {3, 8, nil, []string{"n2"}}, {0, 9, []string{"n1"}, []string{"n1", "n1"}}} {
		all, err := j.FailuresOf(j.Context(), minute(c.since), minute(c.until), c.nodes...)
		j.noError(err)
		var got []string
		for _, e := range all {
			got = append(got, e.Node)
		}
		j.equal("failures", c.want, got)
	}
}

func (j journalRule) pulse() {
	last := ""
	changed := func(what string, want bool) {
		j.Helper()
		now, err := j.Pulse(j.Context())
		j.noError(err)
		if (now != last) != want {
			j.Errorf("after %s the pulse is %q, and was %q", what, now, last)
		}
		last = now
	}
	changed("nothing", true)
	r := j.submit("n1")
	changed("a request", true)
	plan := j.begin(r)
	j.noError(j.Record(j.Context(), moved(plan, "n1", "up")))
	changed("an event", true)
	j.noError(j.Finish(j.Context(), done(r)))
	changed("an outcome", true)
	changed("nothing more", false)
}

func (j journalRule) jobRunComesBack() {
	waits := reconfigure.JobRun{ID: 7, User: "anna", Partition: "main", State: "CONFIGURING",
		Nodes: nodeset.Of("n1", "n2"), Submitted: minute(1)}
	ended := waits
	ended.State, ended.Started, ended.Ended = "COMPLETED", minute(3), minute(5)
	again := reconfigure.JobRun{ID: 7, User: "anna", State: "PENDING", Submitted: minute(5)}
	large := reconfigure.JobRun{ID: 1 << 60, State: "RUNNING", Nodes: nodeset.Of("n3"), Submitted: minute(0)}
	want := func(since int, runs []reconfigure.JobRun, jobs ...int64) {
		j.Helper()
		got, err := j.JobRuns(j.Context(), minute(since), jobs...)
		j.noError(err)
		j.equal("runs", runs, got)
	}
	before := j.token()
	j.noError(j.KeepJobRuns(j.Context(), 10, large, waits))
	want(0, []reconfigure.JobRun{waits, large})
	j.noError(j.KeepJobRuns(j.Context(), 20, ended, again))
	j.noError(j.KeepJobRuns(j.Context(), 30, waits)) // a late answer
	want(0, []reconfigure.JobRun{ended, again, large})
	want(5, []reconfigure.JobRun{ended, again}, 7, 8)
	want(6, []reconfigure.JobRun{again}, 7)
	want(0, nil, 8)
	if err := j.KeepJobRuns(j.Context(), 40, again, reconfigure.JobRun{}); err == nil {
		j.Error("a job without a number was kept")
	}
	position, err := j.JobPosition(j.Context())
	if j.noError(err); position != 30 {
		j.Errorf("the position is %d", position)
	}
	if j.token() != before {
		j.Error("a job woke up the holder of the lease")
	}
}

func (j journalRule) requestsForJobs() {
	request := func(nodes string, jobs ...int64) reconfigure.Request {
		r := reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodeset.Of(nodes)}
		for _, id := range jobs {
			r.Jobs = append(r.Jobs, reconfigure.Job{ID: id, Nodes: nodeset.Of(nodes)})
		}
		return j.submitted(r)
	}
	first, second := request("n1", 7, 8, 7), request("n2", 1<<60, 8)
	j.submit("n3")
	for _, c := range []struct {
		jobs []int64
		want []reconfigure.Request
	}{
		{[]int64{7}, []reconfigure.Request{first}},
		{[]int64{8}, []reconfigure.Request{first, second}},
		{[]int64{1 << 60, 7, 7}, []reconfigure.Request{first, second}},
		{[]int64{9}, nil},
		{nil, nil},
	} {
		got, err := j.RequestsFor(j.Context(), c.jobs...)
		j.noError(err)
		j.equal("requests", c.want, got)
	}
	o := done(first)
	o.Finished = minute(1)
	j.noError(j.Finish(j.Context(), o))
	j.noError(j.Prune(j.Context(), minute(2)))
	got, err := j.RequestsFor(j.Context(), 7, 8)
	j.noError(err)
	j.equal("requests after the first is pruned", []reconfigure.Request{second}, got)
}

func (j journalRule) usageIsPruned() {
	lives, old := lifeOf("n1", "i1", 1, 1), removedAt(lifeOf("n2", "i2", 1, 1), 4)
	young := removedAt(lifeOf("n3", "i3", 1, 1), 5)
	j.recordLives(lives, old, young)
	run := func(id int64, ended time.Time) reconfigure.JobRun {
		return reconfigure.JobRun{ID: id, State: "X", Submitted: minute(0), Ended: ended}
	}
	j.noError(j.KeepJobRuns(j.Context(), 1, run(1, minute(4)), run(2, minute(5)), run(3, time.Time{})))
	for range 2 {
		j.noError(j.Prune(j.Context(), minute(5)))
		j.wantLives(0, lives, young)
		runs, err := j.JobRuns(j.Context(), time.Time{})
		j.noError(err)
		j.equal("runs", []reconfigure.JobRun{run(2, minute(5)), run(3, time.Time{})}, runs)
	}
	j.noError(j.Prune(j.Context(), time.Now().Add(time.Hour)))
	j.wantLives(0, lives)
	runs, err := j.JobRuns(j.Context(), time.Time{})
	j.noError(err)
	j.equal("runs", []reconfigure.JobRun(nil), runs) // Slurm last listed the third run too long ago
}
