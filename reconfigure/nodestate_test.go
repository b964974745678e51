package reconfigure

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// predicates are the columns of the truth table.
var predicates = []struct {
	name string
	is   func(NodeState) bool
}{
	{"up", NodeState.Up}, {"registered", NodeState.Registered}, {"ready", NodeState.Ready},
	{"usable", NodeState.Usable},
	{"running", NodeState.Running}, {"job", NodeState.GivenToJob}, {"powering-up", NodeState.PoweringUp},
	{"powering-down", NodeState.PoweringDown}, {"powered-down", NodeState.PoweredDown}, {"given-up", NodeState.GivenUp},
	{"rebooting", NodeState.Rebooting}, {"drained", NodeState.Drained}, {"down", NodeState.Down},
	{"cloud", NodeState.Cloud},
}

// TestPredicatesOfNodeStates is the truth table: for each state, the predicates that are true. A star is a node with a
// job.
func TestPredicatesOfNodeStates(t *testing.T) {
	for _, row := range []struct{ state, holds string }{
		{"", ""},
		{"*", "running job"}, // Slurm has no such state: a job without a state counts as running
		{"UNKNOWN", ""},
		{"FUTURE", ""},
		{"ERROR", ""},
		{"IDLE", "up registered ready usable"},
		{"IDLE*", "up registered ready usable running job"}, // its job is suspended
		{"MIXED*", "up registered ready usable running job"},
		{"ALLOCATED*", "up registered ready usable running job"},
		{"IDLE+COMPLETING*", "up registered ready usable running job"},
		{"IDLE+CLOUD", "up registered ready usable cloud"},
		{"IDLE+DYNAMIC_NORM", "up registered ready usable"},
		{"IDLE+PLANNED", "up registered ready usable"},
		{"IDLE+RESERVED", "up registered ready usable"},
		{"IDLE+MAINTENANCE", "up registered ready usable"},
		{"IDLE+DRAIN", "up registered ready drained"},
		{"MIXED+DRAIN*", "up registered ready running job drained"},
		{"IDLE+FAIL", "up registered ready"},
		{"IDLE+INVALID_REG", "up registered"},
		{"IDLE+DRAIN+INVALID_REG", "up registered drained"}, // Low RealMemory
		{"MIXED+DRAIN+INVALID_REG*", "up registered running job drained"},
		{"IDLE+NOT_RESPONDING", "up"},
		{"ALLOCATED+NOT_RESPONDING*", "up running job"},
		{"IDLE+REBOOT_REQUESTED+DRAIN", "up registered ready drained"},
		{"IDLE+REBOOT_ISSUED", "up rebooting"},
		{"DOWN+REBOOT_ISSUED", "rebooting down"},
		{"ALLOCATED+REBOOT_ISSUED*", "up running job rebooting"},
		{"DOWN", "down"},
		{"DOWN+DRAIN", "drained down"},
		{"DOWN+NOT_RESPONDING", "down"},
		{"DOWN*", "running job down"},
		{"IDLE+DOWN", "down"}, // Slurm has no such state: DOWN counts
		{"IDLE+CLOUD+POWER_UP", "job powering-up cloud"},
		{"IDLE+CLOUD+POWERING_UP", "job powering-up cloud"},
		{"MIXED+CLOUD+NOT_RESPONDING+POWERING_UP*", "job powering-up cloud"},
		{"ALLOCATED+CLOUD+POWERED_DOWN+POWER_UP*", "job powering-up powered-down cloud"},
		{"DOWN+CLOUD+POWERING_UP", "job powering-up down cloud"},
		{"IDLE+CLOUD+POWER_DOWN", "up powering-down cloud"},
		{"MIXED+CLOUD+POWER_DOWN*", "up running job powering-down cloud"},
		{"IDLE+CLOUD+POWERING_DOWN", "powering-down given-up cloud"},
		{"IDLE+CLOUD+POWERED_DOWN", "powered-down given-up cloud"},
		{"ALLOCATED+CLOUD+POWERED_DOWN*", "job powered-down given-up cloud"},
		{"DOWN+CLOUD+POWERED_DOWN", "powered-down given-up down cloud"},
		{"IDLE+DRAIN+CLOUD+POWERED_DOWN", "powered-down given-up drained cloud"},
	} {
		words, busy := strings.CutSuffix(row.state, "*")
		s := SlurmNode("n", strings.Split(words, "+")...)
		if s.Busy = busy; len(s.Other) > 0 {
			t.Errorf("%s: unknown words %v", row.state, s.Other)
		}
		var holds []string
		for _, p := range predicates {
			if p.is(s) {
				holds = append(holds, p.name)
			}
		}
		if got := strings.Join(holds, " "); got != row.holds {
			t.Errorf("%s:\n got %s\nwant %s", row.state, got, row.holds)
		}
	}
}

// TestReasonsOfDrains checks the meaning of a drain's reason.
func TestReasonsOfDrains(t *testing.T) {
	for _, row := range []struct {
		state, reason   string
		misfit, foreign bool
	}{
		{"IDLE+DRAIN", "reconfigure: update", false, false},
		{"IDLE+DRAIN", "memory errors", false, true},
		{"IDLE+DRAIN", "", false, true},
		{"IDLE", "memory errors", false, false},
		{"IDLE+DRAIN+REBOOT_ISSUED", "reimage : reboot issued", false, false},
		{"IDLE+DRAIN+REBOOT_REQUESTED", "Reboot ASAP", false, false},
		{"IDLE+DRAIN+INVALID_REG", "Low RealMemory (reported:1900 < 100.00% of configured:2000)", true, true},
		{"DOWN+CLOUD+INVALID_REG", "gres/gpu count reported lower than configured (0 < 1)", true, false},
		{"IDLE+DRAIN", "Low socket*core*thread count, Low CPUs", true, true}, // before Slurm 21.08
		{"IDLE", "Low CPUs", false, false},
		{"IDLE+DRAIN", "reconfigure: drained by somebody else: memory errors", false, true},
		{"IDLE+DRAIN", "reconfigure: drained by somebody else: Low CPUs", true, true},
		{"IDLE+DRAIN", "reconfigure: it failed; drained by somebody else: memory errors", false, false},
	} {
		s := SlurmNode("n", strings.Split(row.state, "+")...)
		s.Reason = row.reason
		if s.Misfit() != row.misfit || s.ForeignDrain() != row.foreign {
			t.Errorf("%s (%s): misfit %t, foreign drain %t", row.state, row.reason, s.Misfit(), s.ForeignDrain())
		}
	}
}

// TestPredicatesAgree checks the implications between predicates, for any flags.
func TestPredicatesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s NodeState
		for range rapid.IntRange(0, 5).Draw(t, "flags") {
			s.Flags |= 1 << rapid.IntRange(0, len(nodeFlagWords)-1).Draw(t, "flag")
		}
		s.Busy = rapid.Bool().Draw(t, "busy")
		for _, rule := range []struct {
			text string
			ok   bool
		}{
			{"usable is ready", !s.Usable() || s.Ready()},
			{"ready is registered", !s.Ready() || s.Registered()},
			{"registered is up", !s.Registered() || s.Up()},
			{"up is not given up", !s.Up() || !s.GivenUp()},
			{"running is given to a job", !s.Running() || s.GivenToJob()},
			{"a node that is given up has no job at work", !s.GivenUp() || !s.Running()},
		} {
			if !rule.ok {
				t.Fatalf("%s (busy: %v): %s", s, s.Busy, rule.text)
			}
		}
	})
}

// TestReasonsOfOthersAreKept checks that another user's reason can be read from each reason that keeps it, also if it
// is longer than slurmdbd's column for it.
func TestReasonsOfOthersAreKept(t *testing.T) {
	for _, reason := range []string{"memory errors", "", "no reason", "x; " + ImageReason, strings.Repeat("long ", 60)} {
		drained := SlurmNode("n", "IDLE", "DRAIN")
		drained.Reason = reason
		want := cmp.Or(reason, "no reason")
		for range 2 {
			for _, text := range []string{drained.ReasonForImage(), drained.KeptReason()} {
				s := drained
				s.Reason = strings.TrimSpace((ReasonPrefix + " " + text)[:min(255, len(text)+len(ReasonPrefix)+1)])
				if others := s.OthersReason(); !strings.HasPrefix(want, others) || others == "" || s.Ours() || !s.ForeignDrain() {
					t.Errorf("%q: the reason of somebody else is %q, ours %t", s.Reason, others, s.Ours())
				}
				if s.Unfit() != (text == drained.ReasonForImage()) {
					t.Errorf("%q: unfit %t", s.Reason, s.Unfit())
				}
			}
			drained.Reason = ReasonPrefix + " " + drained.ReasonForImage() // it is kept a second time
		}
	}
}

func TestNodeFlagsInSlurmsWords(t *testing.T) {
	for in, want := range map[string]string{
		"idle":                       "IDLE",
		"POWERED_DOWN+CLOUD+IDLE":    "IDLE+CLOUD+POWERED_DOWN",
		"MIXED+BRANDNEW+DRAIN+shiny": "MIXED+DRAIN+BRANDNEW+SHINY",
		"":                           "",
	} {
		if got := SlurmNode("n", strings.Split(in, "+")...).String(); got != want {
			t.Errorf("%q: %q, not %q", in, got, want)
		}
	}
	for bit, word := range NodeFlagWords() {
		flags, unknown := ParseNodeFlags(word)
		if flags != 1<<bit || unknown != nil || flags.String() != word {
			t.Errorf("%s: %b %v", word, flags, unknown)
		}
	}
	words := NodeFlagWords()
	if slices.Sort(words); len(slices.Compact(words)) != len(nodeFlagWords) {
		t.Error("a word occurs twice")
	}
	if NodePlanned != 1<<(len(nodeFlagWords)-1) {
		t.Error("the numbers of words and flags differ")
	}
}

func TestNodeStatesDifferInEachField(t *testing.T) {
	if !(NodeState{}).Equal(NodeState{}) {
		t.Error("two zero states differ")
	}
	for i := range reflect.TypeFor[NodeState]().NumField() {
		var s NodeState
		switch field := reflect.ValueOf(&s).Elem().Field(i).Addr().Interface().(type) {
		case *string:
			*field = "x"
		case *NodeFlags:
			*field = NodeIdle
		case *[]string:
			*field = []string{"X"}
		case *time.Time:
			*field = time.Unix(1, 0)
		case *bool:
			*field = true
		default:
			t.Fatalf("a field of %T", field)
		}
		if s.Equal(NodeState{}) || !s.Equal(s) {
			t.Errorf("%+v", s)
		}
	}
}
