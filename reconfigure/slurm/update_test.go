package slurm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestAllNodesAreToldAtOnce(t *testing.T) {
	s := &slurmctld{t: t, knows: nodeset.Of("c1", "c2")}
	if err := s.client().Down(t.Context(), s.knows, "quota"); err != nil {
		t.Error(err)
	}
	if err := s.client().PowerDown(t.Context(), s.knows); err != nil {
		t.Error(err)
	}
	if err := s.client().PowerDownASAP(t.Context(), s.knows, "too old"); err != nil {
		t.Error(err)
	}
	if err := s.client().PowerUp(t.Context(), s.knows); err != nil {
		t.Error(err)
	}
	if err := s.client().PowerDownIdle(t.Context(), s.knows); err != nil {
		t.Error(err)
	}
	if err := s.client().ClearReason(t.Context(), s.knows); err != nil {
		t.Error(err)
	}
	want := [][]string{
		{"scontrol", "update", "NodeName=c[1-2]", "State=DOWN", "Reason=reconfigure: quota"},
		{"scontrol", "update", "NodeName=c[1-2]", "State=POWER_DOWN_FORCE"},
		{"scontrol", "update", "NodeName=c[1-2]", "State=POWER_DOWN_ASAP", "Reason=reconfigure: too old"},
		{"scontrol", "update", "NodeName=c[1-2]", "State=POWER_UP"},
		{"scontrol", "update", "NodeName=c[1-2]", "State=POWER_DOWN"},
		{"scontrol", "update", "NodeName=c[1-2]", "Reason= "},
	}
	if diff := cmp.Diff(want, s.calls); diff != "" {
		t.Error(diff)
	}
}

// TestAReasonThatADrainLeavesIsRemoved uses a slurmctld that keeps reasons, also the reason of a DOWN node.
func TestAReasonThatADrainLeavesIsRemoved(t *testing.T) {
	s := &slurmctld{t: t, knows: nodeset.Of("c1", "c2", "c3"), nodes: `{"nodes": [
		{"name": "c1", "state": ["IDLE"], "reason": "reconfigure: update"},
		{"name": "c2", "state": ["IDLE"], "reason": " "},
		{"name": "c3", "state": ["DOWN"], "reason": "reconfigure: update"}]}`}
	if err := s.client().Undrain(t.Context(), s.knows); err != nil {
		t.Error(err)
	}
	want := []string{"c1 State=UNDRAIN", "c2 State=UNDRAIN", "c3 State=UNDRAIN", "c1 Reason= "}
	if diff := cmp.Diff(want, s.done); diff != "" {
		t.Error(diff)
	}
}

func TestNoNodesAreNoCall(t *testing.T) {
	s := &slurmctld{t: t, down: true}
	if err := s.client().PowerDown(t.Context(), nodeset.NodeSet{}); err != nil || len(s.calls) != 0 {
		t.Errorf("calls %v, error %v", s.calls, err)
	}
}

func TestNodesThatSlurmDoesNotKnowKeepNoneFromBeingTold(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-d][1-9]`), 1, 20, rapid.ID[string]).Draw(r, "nodes")
		known := rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(r, "known")
		s := &slurmctld{t: t, knows: nodeset.Of(known...)}
		err := s.client().PowerDown(t.Context(), nodeset.Of(names...))

		var told []string
		for _, update := range s.done {
			told = append(told, strings.Fields(update)[0])
		}
		if !nodeset.Of(told...).Equal(s.knows) {
			r.Errorf("told %v of %v", told, known)
		}
		var failed []string
		if refused, ok := errors.AsType[*Refused](err); ok {
			for node, why := range refused.Failures {
				failed = append(failed, node)
				if !strings.Contains(why.Error(), "Invalid node name") {
					r.Errorf("%s: %v", node, why)
				}
			}
		} else if err != nil {
			r.Error(err)
		}
		if want := nodeset.Of(names...).Difference(s.knows); !nodeset.Of(failed...).Equal(want) {
			r.Errorf("failed %v, want %s", failed, want)
		}
	})
}

func TestRefusedNamesItsNodesAndWhy(t *testing.T) {
	s := &slurmctld{t: t, knows: nodeset.Of("c2")}
	err := s.client().PowerDown(t.Context(), nodeset.Of("c1", "c2", "c3"))
	want := "Slurm refuses c[1,3]: scontrol update: scontrol: exit status 1: " +
		"slurm_update error: Invalid node name specified"
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
}

func TestUpdateOfASlurmThatIsDownIsUnreachableAndNotRepeated(t *testing.T) {
	s := &slurmctld{t: t, down: true}
	err := s.client().Down(t.Context(), nodeset.Of("c1", "c2", "c3", "c4"), "quota")
	if !errors.Is(err, ErrUnreachable) || len(s.calls) != 2 {
		t.Errorf("calls %v, error %v", s.calls, err)
	}
}

func TestLongHostlistsAreSplit(t *testing.T) {
	var names []string
	for i := range 8000 {
		names = append(names, fmt.Sprintf("compute-%06d", i*7)) // no two are adjacent
	}
	s := &slurmctld{t: t, knows: nodeset.Of(names...)}
	if err := s.client().PowerDown(t.Context(), s.knows); err != nil {
		t.Fatal(err)
	}
	longest := 0
	for _, call := range s.calls {
		longest = max(longest, len(strings.Join(call, " ")))
	}
	if len(s.calls) < 2 || longest > 40_000 || len(s.done) != len(names) {
		t.Errorf("%d calls of up to %d bytes for %d nodes", len(s.calls), longest, len(s.done))
	}
}

func TestReasonIsMarkedOnceAndFit(t *testing.T) {
	for in, want := range map[string]string{
		"quota exceeded":                          "reconfigure: quota exceeded",
		"long " + strings.Repeat("é", 300):        "reconfigure: long " + strings.Repeat("é", 117) + "…",
		"reconfigure: quota exceeded":             "reconfigure: quota exceeded",
		"reconfigure: reconfigure:quota exceeded": "reconfigure: quota exceeded",
		"the image \"d'12`\"\n\tis  gone\x00":     "reconfigure: the image d12 is gone",
	} {
		if got := marked(in, longestReason); got != want {
			t.Errorf("marked(%q) = %q", in, got)
		}
	}
}

func TestReasonProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringN(0, 400, -1).Draw(r, "reason")
		got := marked(text, longestReason)
		switch {
		case len(got) > longestReason, !utf8.ValidString(got), !strings.HasPrefix(got, ReasonPrefix),
			slices.ContainsFunc([]rune(got), func(r rune) bool { return r < ' ' || strings.ContainsRune("\"'`", r) }):
			r.Errorf("marked(%q) = %q", text, got)
		case marked(got, longestReason) != got:
			r.Errorf("mark is not idempotent: %q, then %q", got, marked(got, longestReason))
		}
	})
}
