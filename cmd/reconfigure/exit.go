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
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

// exits is the one table of exit codes; --help prints it. The first row that fits counts.
func exits() []exit {
	return []exit{
		{
			0,
			"done, or nothing to do; with --no-wait: the request is on disk",
			func(err error) bool { return err == nil },
		},
		{
			2,
			"wrong usage: an unknown node, an empty hostlist, a leftover argument, no cluster directory; nothing was " +
				"done",
			is[*usageError],
		},
		{3, "some nodes are as asked, some are not", func(err error) bool {
			return outcomeIs(reconfigure.CodePartial)(err) || is[*status.CampaignError](err)
		}},
		{4, "group_vars/all.yml has problems", is[*config.Problems]},
		{
			5,
			"refused: Terraform would have done what no request asks for; nothing was changed",
			outcomeIs(reconfigure.CodeRefused),
		},
		{
			6,
			"no node is as asked, for want of quota or of room in the cloud; to ask again at once is of no use",
			failedFor(reconfigure.Class.NoRoom),
		},
		{
			7,
			"no node is as asked: the cloud failed, was too busy, or its answer was lost, or the playbooks ended " +
				"without a result; to ask again may help",
			failedFor(reconfigure.Class.Passing),
		},
		{
			8,
			"the request was taken back by `reconfigure cancel`, or undone by a later one, before anything was done " +
				"for it",
			outcomeIs(reconfigure.CodeCancelled),
		},
		{9, "cancel: the request has begun or ended already, and was not taken back", is[*tooLateError]},
		{10, "reconcile: Slurm, Terraform and the cloud do not agree on what is there", is[*reconcile.DiffersError]},
		{11, "check, image check: something is unsafe, or cannot work", worst(check.Error)},
		{12, "check, image check: there are warnings, or a source did not answer", worst(check.Warning)},
		{
			130,
			"interrupted; a request that was written down is carried out all the same",
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

func exitTable() string {
	var b strings.Builder
	rows := exits()
	slices.SortStableFunc(rows, func(a, b exit) int { return cmp.Compare(a.code, b.code) })
	for _, e := range rows {
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

// failedFor reports whether all nodes that are not as asked have a class like that, and that there is no node that is.
func failedFor(like func(reconfigure.Class) bool) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*status.OutcomeError](err)
		return ok && e.Outcome.Code == reconfigure.CodeFailed && len(e.Outcome.Verdicts) > 0 &&
			!slices.ContainsFunc(e.Outcome.Verdicts, func(v reconfigure.Verdict) bool { return !like(v.Class) })
	}
}

// usageError is a call that cannot mean anything.
type usageError struct {
	message string
	help    string // the call that says how to do it right
}

func (e *usageError) Error() string { return e.message }

func usagef(c *cli.Context, format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...), help: c.Command.HelpName + " --help"}
}

// report tells of an error.
func report(w io.Writer, err error, asJSON bool) {
	if asJSON {
		slog.New(slog.NewJSONHandler(w, nil)).Error(err.Error(), "exit_code", exitCode(err))
		return
	}
	fmt.Fprintln(w, "reconfigure:", err)
	var usage *usageError
	if errors.As(err, &usage) && usage.help != "" {
		fmt.Fprintf(w, "See `%s`.\n", usage.help)
	}
}
