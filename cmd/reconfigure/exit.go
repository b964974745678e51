package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// exits is the one table of exit codes; --help prints it.
var exits = []struct {
	code    int
	meaning string
	matches func(error) bool
}{
	{0, "done, or nothing to do; with --no-wait: the request is durable", func(err error) bool { return err == nil }},
	{2, "wrong usage: unknown node, empty list, leftover argument", is[*usageError]},
	{3, "some nodes are as asked, some are not", outcomeIs(reconfigure.CodePartial)},
	{4, "group_vars/all.yml has problems", is[*config.Problems]},
	{5, "refused: Terraform would have done what nobody asked for; nothing was changed", outcomeIs(reconfigure.CodeRefused)},
	{130, "interrupted; a request that was written down is carried out all the same", func(err error) bool { return errors.Is(err, context.Canceled) }},
	{1, "failed", func(error) bool { return true }},
}

func exitCode(err error) int {
	for _, e := range exits {
		if e.matches(err) {
			return e.code
		}
	}
	panic("the last row matches every error")
}

func exitTable() string {
	var b strings.Builder
	for _, e := range exits {
		fmt.Fprintf(&b, "   %3d  %s\n", e.code, e.meaning)
	}
	return b.String()
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

func outcomeIs(code reconfigure.Code) func(error) bool {
	return func(err error) bool {
		var e *outcomeError
		return errors.As(err, &e) && e.outcome.Code == code
	}
}

// usageError is a call that cannot mean anything.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// outcomeError is the outcome of a request that did not end as asked. What it says was shown with the outcome.
type outcomeError struct{ outcome reconfigure.Outcome }

func (e *outcomeError) Error() string {
	return fmt.Sprintf("request %d: %s", e.outcome.Request, e.outcome.Code)
}

// report tells people of an error.
func report(w io.Writer, err error) {
	fmt.Fprintln(w, "reconfigure:", err)
	if is[*usageError](err) {
		fmt.Fprintln(w, "`reconfigure help` lists the commands and their arguments.")
	}
}
