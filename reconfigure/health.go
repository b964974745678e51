package reconfigure

import "time"

// Health is how a node group fares, as far as its new instances tell. It holds what happened; how long that counts the settings say, as they are when it is
// looked at. The zero value, but for the name, is a group that fares well.
type Health struct {
	Group    string    `json:"group"`
	Full     Setback   `json:"full,omitzero"`      // the last time that the cloud had no room, unless it had some since
	Failures int       `json:"failures,omitempty"` // boot failures in a row, of whichever nodes
	Since    time.Time `json:"since,omitzero"`     // when the first of them was
	Last     Setback   `json:"last,omitzero"`      // the last of them
	Probe    Probe     `json:"probe,omitzero"`     // what tries the group
}

// Setback is one failure of a node.
type Setback struct {
	Node   string    `json:"node"`
	Class  Class     `json:"class,omitempty"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// Probe is the one node that is let through while others are not, and since when it is on its way. It ends with the node's verdict.
type Probe struct {
	Node  string    `json:"node"`
	Since time.Time `json:"since"`
}

// Well tells that there is nothing to be said of the group.
func (h Health) Well() bool { return h == Health{Group: h.Group} }

// Trying is the health while a node of the group tries it.
func (h Health) Trying(node string, now time.Time) Health {
	h.Probe = Probe{node, now}
	return h
}

// After is the health when verdicts on nodes of the group are in, of a plan that was made at that time.
//
// A new instance that came to its end says that the group boots, whatever failed beside it. That there is room it says only where it was planned after there
// was none: it may be the one that took the last.
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

// renews tells that the verdict is on a new instance, or a new disk: on what the group declares, and not on one machine.
func (v Verdict) renews() bool { return v.Action == Create || v.Action == Replace }

// CoolsDown tells until when the group is not asked for more, since the cloud had no room; false where it may be.
func (h Health) CoolsDown(now time.Time, s Settings) (until time.Time, cools bool) {
	until = h.Full.Time.Add(s.CoolDown)
	return until, !h.Full.Time.IsZero() && now.Before(until)
}

// Broken tells that so many instances of the group failed to boot in a row that the next ones are tried one at a time.
func (h Health) Broken(s Settings) bool { return s.Breaker > 0 && h.Failures >= s.Breaker }

// Probing is the node that tries the group now; empty where none does. One that Slurm must have given up meanwhile counts no more: nobody was left to say what
// became of it.
func (h Health) Probing(now time.Time, t Timing) string {
	if now.Sub(h.Probe.Since) > t.ResumeTimeout {
		return ""
	}
	return h.Probe.Node
}
