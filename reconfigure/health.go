package reconfigure

import "time"

// Health is the recent failures of a node group to get new instances. It has facts only: the settings, as they are at
// the time of a decision, say how long they count. A value with the name only is a group without failures.
type Health struct {
	Group string `json:"group"`
	// the last lack of room, unless an instance planned after it was made
	Full     Setback   `json:"full,omitzero"`
	Failures int       `json:"failures,omitempty"` // consecutive boot failures of any nodes of the group
	Since    time.Time `json:"since,omitzero"`     // time of the first of them
	Last     Setback   `json:"last,omitzero"`      // the last of them
	Probe    Probe     `json:"probe,omitzero"`     // the node that tries the group
}

// Setback is one failure of a node.
type Setback struct {
	Node   string    `json:"node"`
	Class  Class     `json:"class,omitempty"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// Probe is the one node of a group that may be made while the breaker keeps others from it. It ends with the node's
// verdict.
type Probe struct {
	Node  string    `json:"node"`
	Since time.Time `json:"since"`
}

// Well reports whether the group has no failures.
func (h Health) Well() bool { return h == Health{Group: h.Group} }

// Trying returns the health with a node as the group's probe.
func (h Health) Trying(node string, now time.Time) Health {
	h.Probe = Probe{node, now}
	return h
}

// After returns the health after the verdicts on nodes of the group, from a plan of the time planned.
//
// A new instance that becomes ready ends the row of boot failures, whatever other nodes failed. It ends the lack of
// room only if it was planned after that: else it may have taken the last room.
func (h Health) After(planned, now time.Time, verdicts []Verdict) Health {
	came := false
	for _, v := range verdicts {
		came = came || v.renews() && v.Status == StatusDone
		if v.Node == h.Probe.Node {
			h.Probe = Probe{}
		}
	}
	if came {
		h.Failures, h.Since, h.Last, h.Probe = 0, time.Time{}, Setback{}, Probe{}
	}
	if came && planned.After(h.Full.Time) {
		h.Full = Setback{}
	}
	for _, v := range verdicts {
		setback := Setback{v.Node, v.Class, v.Reason, now}
		switch {
		case !v.renews() || v.Status != StatusFailed:
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
func (v Verdict) renews() bool { return v.Action == Create || v.Action == Replace }

// CoolsDown reports whether the group cools down, since the cloud had no room for it, and until when.
func (h Health) CoolsDown(now time.Time, s Settings) (until time.Time, cools bool) {
	until = h.Full.Time.Add(s.CoolDown)
	return until, !h.Full.Time.IsZero() && now.Before(until)
}

// Broken reports whether the breaker is open: after that many consecutive boot failures, nodes of the group are tried
// one at a time.
func (h Health) Broken(s Settings) bool { return s.Breaker > 0 && h.Failures >= s.Breaker }

// Probing returns the group's probe; empty if there is none. A probe older than ResumeTimeout does not count: Slurm has
// given the node up, and its verdict was lost with a worker.
func (h Health) Probing(now time.Time, t Timing) string {
	if now.Sub(h.Probe.Since) > t.ResumeTimeout {
		return ""
	}
	return h.Probe.Node
}
