package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

func TestEveryErrorHasItsExitCode(t *testing.T) {
	failed := func(classes ...reconfigure.Class) error {
		o := reconfigure.Outcome{Code: reconfigure.CodeFailed}
		for _, class := range classes {
			o.Verdicts = append(o.Verdicts, reconfigure.Verdict{Status: reconfigure.StatusFailed, Class: class})
		}
		return &status.OutcomeError{Outcome: o}
	}
	ended := func(code reconfigure.Code) error {
		return &status.OutcomeError{Outcome: reconfigure.Outcome{Code: code}}
	}
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"none":                     {nil, 0},
		"any":                      {errors.New("the disk is full"), 1},
		"an outcome of failure":    {ended(reconfigure.CodeFailed), 1},
		"usage":                    {&usageError{message: "no"}, 2},
		"a part is as asked":       {ended(reconfigure.CodePartial), 3},
		"problems, wrapped":        {fmt.Errorf("it has:\n%w", &config.Problems{}), 4},
		"the fence":                {ended(reconfigure.CodeRefused), 5},
		"taken back":               {ended(reconfigure.CodeCancelled), 8},
		"too late to take back":    {&tooLateError{}, 9},
		"something differs":        {&reconcile.DiffersError{}, 10},
		"interrupted, wrapped":     {fmt.Errorf("request 1: %w", context.Canceled), 130},
		"a time that is up":        {context.DeadlineExceeded, 1},
		"an outcome of a new code": {ended("new"), 1},
		"no room":                  {failed(reconfigure.ClassQuota, reconfigure.ClassCapacity), 6},
		"a passing reason": {
			failed(reconfigure.ClassCloud, reconfigure.ClassRateLimit, reconfigure.ClassUnknown), 7,
		},
		"reasons of both kinds": {failed(reconfigure.ClassQuota, reconfigure.ClassRateLimit), 1},
		"another reason":        {failed(reconfigure.ClassPlaybook), 1},
		"no room for a part": {&status.OutcomeError{Outcome: reconfigure.Outcome{
			Code: reconfigure.CodePartial, Verdicts: []reconfigure.Verdict{{}, {Class: reconfigure.ClassQuota}},
		}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := exitCode(tc.err); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
		})
	}
}

func TestExitTableHasEachCodeOnceInOrder(t *testing.T) {
	last := -1
	for line := range strings.Lines(exitTable()) {
		var code int
		if _, err := fmt.Sscan(line, &code); err != nil || code <= last {
			t.Errorf("line %q after code %d (%v)", line, last, err)
		}
		last = code
	}
	if n := strings.Count(exitTable(), "\n"); n != len(exits()) {
		t.Errorf("%d lines for %d codes", n, len(exits()))
	}
}
