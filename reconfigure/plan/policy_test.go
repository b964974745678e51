package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// verdict returns the verdict on a new instance; without a class it is a success.
func verdict(node string, c reconfigure.Class) reconfigure.Verdict {
	v := reconfigure.Verdict{Node: node, Action: reconfigure.Create, Status: reconfigure.StatusFailed, Class: c,
		Reason: "because"}
	if c == "" {
		v.Status, v.Reason = reconfigure.StatusDone, ""
	}
	return v
}

func verdicts(classes ...reconfigure.Class) []reconfigure.Verdict {
	var all []reconfigure.Verdict
	for i, c := range classes {
		all = append(all, verdict(fmt.Sprint("n", i+1), c))
	}
	return all
}

func TestHealthAfterVerdicts(t *testing.T) {
	const (
		came   reconfigure.Class = ""
		full                     = reconfigure.ClassCapacity
		broken                   = reconfigure.ClassSSH
	)
	setback := func(node string, c reconfigure.Class, at time.Time) reconfigure.Setback {
		return reconfigure.Setback{Node: node, Class: c, Reason: "because", Time: at}
	}
	earlier := noon.Add(-time.Hour)
	ill := reconfigure.Health{Group: "g", Full: setback("x", full, earlier), Failures: 2, Since: earlier,
		Last: setback("y", broken, earlier)}.Trying("n1", earlier)
	rebooted := []reconfigure.Verdict{
		{Node: "n2", Action: reconfigure.Reboot, Status: reconfigure.StatusDone},
		{Node: "n3", Action: reconfigure.Reboot, Status: reconfigure.StatusFailed, Class: broken},
	}
	for name, tc := range map[string]struct {
		before   reconfigure.Health
		planned  time.Time
		verdicts []reconfigure.Verdict
		want     reconfigure.Health
	}{
		"nothing":   {ill, noon, nil, ill},
		"a success": {ill, noon, verdicts(came), reconfigure.Health{Group: "g"}},
		"a success planned before": {ill, earlier.Add(-1), verdicts(came),
			reconfigure.Health{Group: "g", Full: ill.Full}},
		"no room": {reconfigure.Health{Group: "g"}, noon, verdicts(full),
			reconfigure.Health{Group: "g", Full: setback("n1", full, noon)}},
		"no room for the second": {ill, noon, verdicts(came, full),
			reconfigure.Health{Group: "g", Full: setback("n2", full, noon)}},
		"no boot": {
			reconfigure.Health{Group: "g"}, noon, verdicts(broken, broken),
			reconfigure.Health{Group: "g", Failures: 2, Since: noon, Last: setback("n2", broken, noon)},
		},
		"no boot again": {ill, noon, verdicts(broken),
			reconfigure.Health{Group: "g", Full: ill.Full, Failures: 3, Since: earlier,
				Last: setback("n1", broken, noon)}},
		"no boot beside a success": {ill, noon, verdicts(broken, came), reconfigure.Health{Group: "g"}},
		"other classes of failure": {
			ill.Trying("n9", noon), noon,
			verdicts(reconfigure.ClassRateLimit, reconfigure.ClassCloud, reconfigure.ClassUnknown,
				reconfigure.ClassMissing, reconfigure.ClassOther),
			ill.Trying("n9", noon),
		},
		"a probe with another class of failure": {ill, noon, verdicts(reconfigure.ClassCloud),
			ill.Trying("", time.Time{})},
		"reboots": {ill, noon, rebooted, ill},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, plan.HealthAfter(tc.before, tc.planned, noon, tc.verdicts)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The model counts the failures since the last success, and remembers the time of the last lack of room.
func TestHealthAgreesWithAModel(t *testing.T) {
	classes := []reconfigure.Class{
		"", reconfigure.ClassQuota, reconfigure.ClassCapacity, reconfigure.ClassBoot, reconfigure.ClassSSH,
		reconfigure.ClassPlaybook, reconfigure.ClassUnregistered,
		reconfigure.ClassRateLimit, reconfigure.ClassCloud, reconfigure.ClassUnknown,
	}
	settings := reconfigure.Settings{CoolDown: 2 * time.Minute, Breaker: 3}
	rapid.Check(t, func(t *rapid.T) {
		h := reconfigure.Health{Group: "g"}
		var failures int
		var refused time.Time
		now := noon
		for _, c := range rapid.SliceOf(rapid.SampledFrom(classes)).Draw(t, "classes") {
			planned := now.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "planned before")) * time.Minute)
			if now = now.Add(time.Minute); rapid.Bool().Draw(t, "probe") {
				h = h.Trying("n", now)
			}
			before := h
			h = plan.HealthAfter(h, planned, now, []reconfigure.Verdict{verdict("n", c)})
			switch {
			case c == "":
				failures = 0
				if planned.After(refused) {
					refused = time.Time{}
				}
			case c.NoRoom():
				refused = now
			case c.Boots():
				failures++
			}
			if h.Probe != (reconfigure.Probe{}) {
				t.Fatalf("after its verdict it is still the probe: %+v", h)
			}
			if h.Failures != failures || plan.Broken(h, settings) != (failures >= 3) ||
				(h.Failures == 0) != h.Since.IsZero() {
				t.Fatalf("%d failures in a row make %+v", failures, h)
			}
			for _, later := range []time.Duration{0, settings.CoolDown - 1, settings.CoolDown} {
				until, cools := plan.CoolsDown(h, now.Add(later), settings)
				if cools != (!refused.IsZero() && now.Add(later).Before(refused.Add(settings.CoolDown))) || cools &&
					!until.Equal(refused.Add(settings.CoolDown)) {
					t.Fatalf("refused at %v, and %v later it cools down: %v, until %v", refused, later, cools, until)
				}
			}
			if !c.NoRoom() && !c.Boots() && c != "" && h != before.Trying("", time.Time{}) {
				t.Fatalf("%s made %+v of %+v", c, h, before)
			}
		}
		if off := (reconfigure.Settings{}); plan.Broken(h, off) {
			t.Fatalf("a breaker of 0 opens for %+v", h)
		} else if _, cools := plan.CoolsDown(h, now, off); cools {
			t.Fatalf("a cool-down of 0 is one for %+v", h)
		}
	})
}

func TestProbeEndsWithResumeTimeout(t *testing.T) {
	timing := reconfigure.Timing{ResumeTimeout: 10 * time.Minute}
	h := reconfigure.Health{Group: "g"}.Trying("n1", noon)
	for after, want := range map[time.Duration]string{0: "n1", 10 * time.Minute: "n1", 10*time.Minute + 1: ""} {
		if got := plan.Probing(h, noon.Add(after), timing); got != want {
			t.Errorf("after %v it is %q, not %q", after, got, want)
		}
	}
}
