package provision

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// The reasons why news cannot come in a state.
const (
	hasResult  = "impossible: the cloud is not asked again for a caller that has its result"
	hasVerdict = "impossible: Terraform has ended"
	noDeadline = "impossible: only an interrupted change is followed until a deadline"
	over       = "impossible: nothing is followed that has ended"
)

// TestDeliveryStates has each state and each news: the next state, or why the news cannot come.
func TestDeliveryStates(t *testing.T) {
	order := []news{shows, vanishes, breaks, succeeds, fails, interrupts, skips, expires}
	table := map[state][]string{
		asked:     {"delivered", "gone", "broken", "ended", "ended", "cut off", "untried", noDeadline},
		delivered: {hasResult, hasResult, hasResult, "ended", "delivered", "delivered", "delivered", noDeadline},
		gone:      {hasResult, hasResult, hasResult, "ended", "gone", "gone", "gone", noDeadline},
		broken:    {hasResult, hasResult, hasResult, "ended", "broken", "broken", "broken", noDeadline},
		cutOff:    {"delivered", "gone", "broken", hasVerdict, hasVerdict, hasVerdict, hasVerdict, "ended"},
		untried:   {"delivered", "gone", "broken", hasVerdict, hasVerdict, hasVerdict, hasVerdict, noDeadline},
		ended:     {over, over, over, over, over, over, over, over},
	}
	for from := range transitions {
		if len(table[from]) != len(order) {
			t.Fatalf("%s: %d of %d news", from, len(table[from]), len(order))
		}
		for i, n := range order {
			want := table[from][i]
			next, possible := transitions[from][n]
			if possible == strings.HasPrefix(want, "impossible: ") || possible && string(next) != want {
				t.Errorf("%s, and %s: %q, want %q", from, n, next, want)
			}
			d := &delivery{state: from}
			if d.on(n); !possible && d.state != from {
				t.Errorf("%s, and %s: now %s", from, n, d.state)
			}
		}
	}
	if len(table) != len(transitions) {
		t.Errorf("%d states in the table, %d in the code", len(table), len(transitions))
	}
}

func TestVerdictOf(t *testing.T) {
	cut := fmt.Errorf("node n1: %w", reconfigure.ErrInterrupted)
	for want, failure := range map[news]error{
		succeeds: nil, fails: errors.New("quota"), interrupts: cut, skips: errors.Join(cut, reconfigure.ErrUntried),
	} {
		if got := verdictOf(failure); got != want {
			t.Errorf("%v: %s, want %s", failure, got, want)
		}
	}
}
