package controller

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestMayPass(t *testing.T) {
	const timeout = 15 * time.Minute
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		underWay []work
		waited   time.Duration
		want     bool
	}{
		"nothing is under way":               {nil, 0, false},
		"all have begun just now":            {[]work{{now, unlimited}, {now, limited}}, 0, false},
		"just below a third of the timeout":  {[]work{{now.Add(-5*time.Minute + 1), unlimited}}, 0, false},
		"a third of the timeout":             {[]work{{now.Add(-5 * time.Minute), unlimited}, {now, limited}}, 0, true},
		"a resume of that age":               {[]work{{now.Add(-5 * time.Minute), limited}}, 0, true},
		"an image that has begun just now":   {[]work{{now, long}}, 0, true},
		"the request has waited too long":    {[]work{{now.Add(-5 * time.Minute), limited}}, timeout, false},
		"just not too long":                  {[]work{{now.Add(-5 * time.Minute), limited}}, timeout - 1, true},
		"too long, and an operation is old":  {[]work{{now.Add(-5 * time.Minute), unlimited}}, timeout, true},
		"too long, and there is an image":    {[]work{{now, long}}, 2 * timeout, true},
		"too long, and all have begun again": {[]work{{now, unlimited}, {now, limited}}, 2 * timeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mayPass(tc.underWay, now.Add(-tc.waited), now, timeout); got != tc.want {
				t.Errorf("requests pass: %v", got)
			}
		})
	}
}

func TestHowLongAnOperationCanTake(t *testing.T) {
	slurmWaits := time.Now()
	for name, tc := range map[string]struct {
		change reconfigure.Change
		want   length
	}{
		"a resume that Slurm waits for": {reconfigure.Change{Action: reconfigure.Create, Deadline: slurmWaits}, limited},
		"a resume by hand":              {reconfigure.Change{Action: reconfigure.Create}, unlimited},
		"a removal":                     {reconfigure.Change{Action: reconfigure.Remove}, limited},
		"a stop":                        {reconfigure.Change{Action: reconfigure.Stop}, limited},
		"a drain":                       {reconfigure.Change{Action: reconfigure.Drain}, limited},
		"an update":                     {reconfigure.Change{Action: reconfigure.Replace}, unlimited},
		"the playbooks":                 {reconfigure.Change{Action: reconfigure.Configure}, unlimited},
		"an image":                      {reconfigure.Change{Action: reconfigure.Capture}, long},
	} {
		t.Run(name, func(t *testing.T) {
			tc.change.Node = "a"
			if got := lengthOf(reconfigure.Plan{Changes: []reconfigure.Change{tc.change}}, "a"); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
	if got := lengthOf(reconfigure.Plan{}, "a"); got != limited {
		t.Errorf("a hand-back to Slurm: %v", got)
	}
}

// schedule carries out requests by the rules of admission. Each has a node of its own, and its operation takes as long
// as it needs.
type schedule struct {
	waiting  []reconfigure.Request
	needs    map[reconfigure.RequestID]time.Duration
	underWay map[reconfigure.RequestID]work
	endless  time.Time // when an operation without a limit was under way last
}

func (s *schedule) comes(r reconfigure.Request, needs time.Duration) {
	s.waiting, s.needs[r.ID] = append(s.waiting, r), needs
}

// deploy returns the oldest deploy that waits, and since when only operations with a limit keep it waiting.
func (s *schedule) deploy() (deploy reconfigure.Request, since time.Time, waits bool) {
	i := slices.IndexFunc(s.waiting, func(r reconfigure.Request) bool { return r.Mode == reconfigure.Deploy })
	if i < 0 {
		return deploy, since, false
	}
	if deploy, since = s.waiting[i], s.waiting[i].Submitted; s.endless.After(since) {
		since = s.endless
	}
	return deploy, since, true
}

// step ends the operations that are due, and begins what may begin.
func (s *schedule) step(now time.Time, timeout time.Duration) {
	var b busy
	for id, w := range s.underWay {
		if w.kind != limited {
			s.endless = now
		}
		if now.Sub(w.began) >= s.needs[id] {
			delete(s.underWay, id)
			continue
		}
		b.nodes, b.alone = b.nodes.Union(nodeset.Of(id.String())), b.alone || w.kind == alone
	}
	if _, since, waits := s.deploy(); waits {
		b.pass = mayPass(slices.Collect(maps.Values(s.underWay)), since, now, timeout)
	}
	begin := Next(s.waiting, b, anyReady).Together
	for _, r := range begin {
		s.underWay[r.ID] = work{now, kinds[r.Mode]}
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(r reconfigure.Request) bool { return slices.Contains(ids(begin), r.ID) })
}

// alone is the kind of a deploy's operations in a schedule.
const alone = long + 1

var kinds = map[reconfigure.Mode]length{
	reconfigure.Resume: limited, reconfigure.Suspend: limited, reconfigure.MakeImage: long, reconfigure.Deploy: alone,
}

// drawRequest draws a mode, mostly a resume that takes a few minutes, and the minutes that it needs.
func drawRequest(t *rapid.T) (m reconfigure.Mode, needs time.Duration) {
	minutes := func(from, to int) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(t, "minutes")) * time.Minute
	}
	switch n := rapid.IntRange(0, 99).Draw(t, "kind"); {
	case n < 60:
		return reconfigure.Resume, minutes(1, 4)
	case n < 80:
		return reconfigure.Resume, minutes(4, 15)
	case n < 90:
		return reconfigure.Suspend, minutes(1, 10)
	case n < 94:
		return reconfigure.Update, minutes(2, 60)
	case n < 96:
		return reconfigure.MakeImage, minutes(20, 120)
	}
	return reconfigure.Deploy, minutes(1, 5)
}

// Requests come at random for six hours. A deploy begins at the latest two ResumeTimeouts after the last operation
// without a limit. It delays a resume or a suspend by a third of ResumeTimeout, and longer, up to ResumeTimeout, only
// when it has waited for a ResumeTimeout itself.
func TestADeployGetsItsTurnAndDelaysNoResumeForLong(t *testing.T) {
	const (
		timeout = 15 * time.Minute
		comes   = 6 * time.Hour
	)
	began := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		s := schedule{needs: map[reconfigure.RequestID]time.Duration{}, underWay: map[reconfigure.RequestID]work{}}
		delayed := map[[2]reconfigure.RequestID]time.Time{} // since when the first is delayed by the second
		last := reconfigure.RequestID(0)
		for now := began; now.Before(began.Add(comes)) || len(s.waiting) > 0; now = now.Add(time.Minute) {
			for range rapid.IntRange(0, 2).Draw(t, "requests") {
				if !now.Before(began.Add(comes)) {
					break
				}
				last++
				r := reconfigure.Request{ID: last, Submitted: now}
				var needs time.Duration
				if r.Mode, needs = drawRequest(t); !whole(r.Mode) {
					r.Nodes = nodeset.Of(last.String())
				}
				s.comes(r, needs)
			}
			s.step(now, timeout)
			deploy, since, waits := s.deploy()
			if !waits {
				continue
			}
			held := now.Sub(since)
			if held > 2*timeout {
				t.Fatalf("after %s deploy %s waits for %s behind %v", now.Sub(began), deploy.ID, held, s.underWay)
			}
			runs := slices.ContainsFunc(slices.Collect(maps.Values(s.underWay)), func(w work) bool { return w.kind == alone })
			for _, r := range s.waiting {
				if runs || r.ID < deploy.ID || r.Mode != reconfigure.Resume && r.Mode != reconfigure.Suspend {
					continue
				}
				both := [2]reconfigure.RequestID{r.ID, deploy.ID}
				if delayed[both].IsZero() {
					delayed[both] = now
				}
				if d := now.Sub(delayed[both]); d > timeout || d > timeout/3 && held < timeout {
					t.Fatalf("after %s deploy %s, which waits for %s, delays %s by %s", now.Sub(began), deploy.ID, held, r.ID, d)
				}
			}
		}
	})
}
