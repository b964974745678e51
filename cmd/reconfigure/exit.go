package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

// exits is the table of exit codes, which --help prints. The first row that matches applies.
func exits() []exit {
	return []exit{
		{
			0,
			"done, or nothing to do; with --no-wait: the request is on disk",
			func(err error) bool { return err == nil },
		},
		{
			2,
			"wrong usage: an unknown command or flag, a node, group or request that does not exist, no cluster " +
				"directory; nothing was done",
			is[*usageError],
		},
		{3, "some nodes are as requested, some are not; recover: something could not be imported", func(err error) bool {
			return outcomeIs(reconfigure.CodePartial)(err) || is[*status.CampaignError](err) ||
				is[*client.LeftBehindError](err) || errors.Is(err, client.ErrNotAll)
		}},
		{4, "all.yml has problems", is[*config.Problems]},
		{
			5,
			"refused: Terraform would have done what no request asks for; nothing was changed",
			func(err error) bool {
				return outcomeIs(reconfigure.CodeRefused)(err) || errors.Is(err, errInstancesChange)
			},
		},
		{
			6,
			"no node is as requested: the quota or the room in the cloud is used up; retrying now will not help",
			failedFor(reconfigure.Class.NoRoom),
		},
		{
			7,
			"no node is as requested: the cloud failed, was too busy, or its answer was lost, or the playbooks ended " +
				"without a result; retrying may help",
			failedFor(reconfigure.Class.Passing),
		},
		{
			8,
			"the request was cancelled by `reconfigure cancel` or replaced by a later one before it began",
			outcomeIs(reconfigure.CodeCancelled),
		},
		{9, "cancel: the request has begun or ended already, and was not cancelled", is[*tooLateError]},
		{10, "reconcile: Slurm, Terraform and the cloud differ", is[*reconcile.DiffersError]},
		{11, "check, image check, plan attach, attach, detach: something is unsafe, or cannot work", worst(check.Error)},
		{12, "check, image check, plan attach: there are warnings, or a source did not answer", worst(check.Warning)},
		{
			130,
			"interrupted; a request that is on disk goes on",
			func(err error) bool { return errors.Is(err, context.Canceled) },
		},
		{1, "failed", func(error) bool { return true }},
	}
}

// exit is a row of the table.
type exit struct {
	code    int
	meaning string
	matches func(error) bool
}

func exitCode(err error) int {
	for _, e := range exits() {
		if e.matches(err) {
			return e.code
		}
	}
	panic("the last row matches every error")
}

// exitsInOrder returns the rows by their codes.
func exitsInOrder() []exit {
	rows := exits()
	slices.SortStableFunc(rows, func(a, b exit) int { return cmp.Compare(a.code, b.code) })
	return rows
}

func exitTable() string {
	var b strings.Builder
	for _, e := range exitsInOrder() {
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
		var e *status.OutcomeError
		return errors.As(err, &e) && e.Outcome.Code == code
	}
}

func worst(severity check.Severity) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*check.FoundError](err)
		return ok && e.Report.Worst() == severity
	}
}

// failedFor reports whether all nodes failed, each with such a class.
func failedFor(like func(reconfigure.Class) bool) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*status.OutcomeError](err)
		return ok && e.Outcome.Code == reconfigure.CodeFailed && len(e.Outcome.Verdicts) > 0 &&
			!slices.ContainsFunc(e.Outcome.Verdicts, func(v reconfigure.Verdict) bool { return !like(v.Class) })
	}
}

// usageError is the error for a wrong call.
type usageError struct {
	message string
	help    string // the help command for the call
}

func (e *usageError) Error() string { return e.message }

func usagef(c *cli.Context, format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...), help: c.Command.HelpName + " --help"}
}

// notNow returns a usage error for a command that must not be carried out now, and other errors as they are.
func notNow(c *cli.Context, err error) error {
	if is[*client.NotNowError](err) {
		return usagef(c, "%v", err)
	}
	return err
}

// report prints an error.
func report(w io.Writer, err error, asJSON bool) {
	message := err.Error()
	if errors.Is(err, context.Canceled) && !is[*client.LeftError](err) {
		message = "interrupted" // the rest of the error says only where in the program it arose
	}
	if asJSON {
		slog.New(slog.NewJSONHandler(w, nil)).Error(message, "exit_code", exitCode(err))
		return
	}
	fmt.Fprintln(w, "reconfigure:", message)
	var usage *usageError
	if errors.As(err, &usage) && usage.help != "" {
		fmt.Fprintf(w, "See `%s`.\n", usage.help)
	}
}
