package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestStormsAreCounted(t *testing.T) {
	for text, want := range map[string]int{
		"":                                    0,
		"x_test.go:1: 300 storms, 2 requests": 300,
		"    x_test.go:1: 30 storms, 2\n    x_test.go:1: 12 storms, 3": 42,
		"x_test.go:1: [rapid] failed after 127 tests: p1":              127,
	} {
		if got := storms([]byte(text)); got != want {
			t.Errorf("%q: %d storms instead of %d", text, got, want)
		}
	}
}

// A failed round is printed with the command that repeats it, and the next rounds run.
func TestAFailureCanBePlayedAgain(t *testing.T) {
	var out bytes.Buffer
	var asked []string
	n := &night{out: &out, checks: 7, play: func(_ context.Context, _ string, args ...string) ([]byte, bool, error) {
		asked = append(asked, strings.Join(args, " "))
		return []byte("x_test.go:1: [rapid] failed after 5 tests: the jobs on [p1] were lost"), len(asked) == 1, nil
	}}
	for _, test := range []string{"TestStorm", "TestStormOfStops"} {
		if err := n.round(t.Context(), "storm.test", test); err != nil {
			t.Fatal(err)
		}
	}
	if len(n.failed) != 1 || n.storms != 10 {
		t.Fatalf("failed %q, %d storms", n.failed, n.storms)
	}
	command := n.failed[0]
	for word := range strings.FieldsSeq(command) {
		if seed, ok := strings.CutPrefix(word, "-rapid.seed="); ok && !strings.Contains(asked[0], "-rapid.seed="+seed) {
			t.Errorf("%q was run, and %q is to play it again", asked[0], command)
		}
	}
	if !strings.Contains(command, "-run '^TestStorm$'") || !strings.Contains(command, "-rapid.checks=7") ||
		!strings.Contains(out.String(), command) || !strings.Contains(out.String(), "the jobs on [p1] were lost") {
		t.Errorf("%q; printed:\n%s", command, out.String())
	}
}
