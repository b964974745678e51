package plan

import (
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// HealthAfter returns the health of a group after the verdicts on nodes of the group, from a plan of the time planned.
//
// A new instance that becomes ready ends the row of boot failures, even if other nodes failed. It ends the lack of room
// only if it was planned after that: else it may have taken the last room.
func HealthAfter(h reconfigure.Health, planned, now time.Time, verdicts []reconfigure.Verdict) reconfigure.Health {
	came := false
	for _, v := range verdicts {
		came = came || renews(v) && v.Status == reconfigure.StatusDone
		if v.Node == h.Probe.Node {
			h.Probe = reconfigure.Probe{}
		}
	}
	if came {
		h.Failures, h.Since, h.Last, h.Probe = 0, time.Time{}, reconfigure.Setback{}, reconfigure.Probe{}
	}
	if came && planned.After(h.Full.Time) {
		h.Full = reconfigure.Setback{}
	}
	for _, v := range verdicts {
		setback := reconfigure.Setback{Node: v.Node, Class: v.Class, Reason: v.Reason, Time: now}
		switch {
		case !renews(v) || v.Status != reconfigure.StatusFailed:
		case v.Class.NoRoom():
			h.Full = setback
		case v.Class.Boots() && !came:
			if h.Failures == 0 {
				h.Since = now
			}
			h.Failures, h.Last = h.Failures+1, setback
		}
	}
	return h
}

// renews reports whether the verdict is on a new instance or a new disk. Only those verdicts say something about the
// group.
func renews(v reconfigure.Verdict) bool {
	return v.Action == reconfigure.Create || v.Action == reconfigure.Replace
}

// CoolsDown reports whether the group cools down, since the cloud had no room for it, and until when.
func CoolsDown(h reconfigure.Health, now time.Time, s reconfigure.Settings) (until time.Time, cools bool) {
	until = h.Full.Time.Add(s.CoolDown)
	return until, !h.Full.Time.IsZero() && now.Before(until)
}

// Broken reports whether the breaker is open: after that many consecutive boot failures, nodes of the group are tried
// one at a time.
func Broken(h reconfigure.Health, s reconfigure.Settings) bool {
	return s.Breaker > 0 && h.Failures >= s.Breaker
}

// Probing returns the group's probe; empty if there is none. A probe older than ResumeTimeout does not count: Slurm has
// given the node up, and its verdict was lost with a worker.
func Probing(h reconfigure.Health, now time.Time, t reconfigure.Timing) string {
	if now.Sub(h.Probe.Since) > t.ResumeTimeout {
		return ""
	}
	return h.Probe.Node
}
