package batch_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
)

func TestNext(t *testing.T) {
	const resume, suspend, update, deploy = reconfigure.Resume, reconfigure.Suspend, reconfigure.Update, reconfigure.Deploy
	now := time.Now()
	passed := func(ago time.Duration, r reconfigure.Request) reconfigure.Request {
		r.Passed = now.Add(-ago)
		return r
	}
	held := request(1, resume, "a")
	held.Held = true
	type list = []reconfigure.RequestID
	for name, tc := range map[string]struct {
		waiting      []reconfigure.Request
		want, undone list
	}{
		"what a job waits for goes before what tidies up": {waiting: []reconfigure.Request{request(1, suspend, "a"), request(2, resume, "b"), request(3, suspend, "c")}, want: list{2}},
		"other modes are not kept back":                   {waiting: []reconfigure.Request{request(1, update, "a"), request(2, resume, "b")}, want: list{1, 2}},
		"nor is anything where no job waits":              {waiting: []reconfigure.Request{request(1, suspend, "a"), request(2, update, "b")}, want: list{1, 2}},
		"nor for a resume that was tried already":         {waiting: []reconfigure.Request{held, request(2, suspend, "b")}, want: list{1, 2}},
		"nobody is passed over for longer than a minute": {
			waiting: []reconfigure.Request{passed(time.Minute, request(1, suspend, "a")), passed(time.Minute-1, request(2, suspend, "b")), request(3, resume, "c")}, want: list{1, 3},
		},
		"a clock that is ahead starves nobody": {waiting: []reconfigure.Request{passed(-time.Hour, request(1, suspend, "a")), request(2, resume, "b")}, want: list{1, 2}},
		"what the node's own resume waits for is not kept back": {
			waiting: []reconfigure.Request{request(1, suspend, "a"), request(2, suspend, "b"), request(3, resume, "a"), request(4, resume, "c")}, want: list{1, 4},
		},
		"nor what is in the way of that": {
			waiting: []reconfigure.Request{request(1, suspend, "a"), request(2, update, "a", "b"), request(3, resume, "b"), request(4, resume, "c")}, want: list{1, 4},
		},
		"nobody overtakes what was kept back": {
			waiting: []reconfigure.Request{request(1, suspend, "a"), passed(time.Hour, request(2, suspend, "a", "b")), request(3, resume, "c")}, want: list{3},
		},
		"a resume behind the whole cluster keeps nobody back": {waiting: []reconfigure.Request{request(1, suspend, "a"), request(2, deploy), request(3, resume, "b")}, want: list{1}},
		"what is undone goes with what undoes it":             {waiting: []reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a")}, want: list{2}, undone: list{1}},
		"and stands until that begins": {
			waiting: []reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a"), request(3, resume, "b")}, want: list{3},
		},
		"the third one's wish comes after both": {
			waiting: []reconfigure.Request{request(1, resume, "a"), request(2, suspend, "a"), request(3, resume, "a")}, want: list{2}, undone: list{1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := batch.Next(tc.waiting, nil, now)
			if diff := cmp.Diff(tc.want, ids(next.Together)); diff != "" {
				t.Errorf("together (-want +got):\n%s", diff)
			}
			var undone []reconfigure.RequestID
			for _, o := range next.Undone {
				undone = append(undone, o.Request)
				if o.Code != reconfigure.CodeCancelled || o.Error == "" {
					t.Errorf("outcome %+v", o)
				}
			}
			if diff := cmp.Diff(tc.undone, undone); diff != "" {
				t.Errorf("undone (-want +got):\n%s", diff)
			}
		})
	}
}

// Batch after batch, with more or less time between, every request is carried once, or undone when what undoes it is; for each node in order, and nobody starves.
func TestBatchAfterBatchEndsAllInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waiting, now := drawn(t), time.Now()
		for i := range waiting {
			waiting[i].Touched = false
		}
		for len(waiting) > 0 {
			next := batch.Next(waiting, nil, now)
			if len(next.Together) == 0 {
				t.Fatalf("of %+v none is next", waiting)
			}
			ended := ids(next.Together)
			for _, o := range next.Undone {
				ended = append(ended, o.Request)
			}
			inOrder(t, waiting, ended)
			nobodyStarves(t, waiting, next.Together, now)
			waiting = slices.DeleteFunc(slices.Clone(waiting), func(r reconfigure.Request) bool { return slices.Contains(ended, r.ID) })
			for i := range waiting {
				if waiting[i].Passed.IsZero() {
					waiting[i].Passed = now
				}
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
		}
	})
}

// inOrder tells that no request ends before an earlier one that names one of its nodes, but for resumes, of which it does not matter which comes first.
func inOrder(t *rapid.T, waiting []reconfigure.Request, ended []reconfigure.RequestID) {
	for i, r := range waiting {
		if !slices.Contains(ended, r.ID) {
			continue
		}
		for _, earlier := range waiting[:i] {
			same := earlier.Mode == reconfigure.Resume && r.Mode == reconfigure.Resume
			if meet(earlier, r) && !same && !slices.Contains(ended, earlier.ID) {
				t.Errorf("of %+v end %v: %s overtakes %s", waiting, ended, r.ID, earlier.ID)
			}
		}
	}
}

// nobodyStarves tells that what was passed over for a minute is not kept back for the sake of others, and that nobody is where no job waits.
func nobodyStarves(t *rapid.T, waiting, together []reconfigure.Request, now time.Time) {
	undone := batch.Undone(waiting)
	rest := slices.DeleteFunc(slices.Clone(waiting), func(r reconfigure.Request) bool { return undone[r.ID] != 0 })
	jobs := slices.ContainsFunc(together, func(r reconfigure.Request) bool { return r.Mode == reconfigure.Resume })
	for _, r := range batch.Gather(rest, nil) {
		long := !r.Passed.IsZero() && now.Sub(r.Passed) >= time.Minute
		alone := !slices.ContainsFunc(waiting, func(o reconfigure.Request) bool { return o.ID < r.ID && meet(o, r) })
		if (long && alone || !jobs) && !slices.Contains(ids(together), r.ID) {
			t.Errorf("of %+v go %v: %s is kept back", waiting, ids(together), r.ID)
		}
	}
}
