package operation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestTerm has a term of ten minutes, and when the cloud had the instance.
func TestTerm(t *testing.T) {
	for name, tc := range map[string]struct {
		made                         time.Duration // since the beginning; negative: never
		waiting                      bool          // for a run
		hurried, overtaken, unfaulty bool          // the instance is not at fault
	}{
		"it had most of the term":              {4 * time.Minute, false, false, false, false},
		"it had half of the term":              {5 * time.Minute, false, false, false, false},
		"it had little of the term":            {6 * time.Minute, false, true, true, true},
		"the cloud did not have it":            {-1, false, true, true, true},
		"it had most of the term, but waited":  {4 * time.Minute, true, false, false, true},
		"it had little of the term and waited": {6 * time.Minute, true, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				term := newTerm(t.Context(), time.Now().Add(10*time.Minute))
				defer term.cancel(nil)
				at := standing{waiting: tc.waiting, made: term.began.Add(tc.made)}
				if tc.made < 0 {
					at.made = time.Time{}
				}
				if term.overtaken(at.made) != nil {
					t.Error("overtaken before its end")
				}
				<-term.ctx.Done()
				if got := term.hurried(at.made); got != tc.hurried {
					t.Errorf("hurried: %v", got)
				}
				if got := term.overtaken(at.made); (got != nil) != tc.overtaken {
					t.Errorf("overtaken: %v", got)
				}
				err := term.late(context.Cause(term.ctx), at)
				if got := reconfigure.ClassOf(err) != reconfigure.ClassBoot; got != tc.unfaulty || !errors.Is(err, errLate) {
					t.Errorf("late: %v of class %q", err, reconfigure.ClassOf(err))
				}
			})
		})
	}
}

func TestTermWithoutADeadline(t *testing.T) {
	term := newTerm(t.Context(), time.Time{})
	if within(term.ctx) != 0 || left(term.ctx) != time.Hour || !term.hurried(time.Now()) {
		t.Errorf("within %s, left %s", within(term.ctx), left(term.ctx))
	}
	failed := errors.New("the playbooks failed")
	if got := term.cause(failed); got != failed {
		t.Errorf("while it runs: %v", got)
	}
	term.cancel(reconfigure.ErrUnwanted)
	if got := term.cause(failed); !errors.Is(got, reconfigure.ErrUnwanted) {
		t.Errorf("given up: %v", got)
	}
	if term.overtaken(time.Now()) != nil {
		t.Error("given up: overtaken")
	}
}
