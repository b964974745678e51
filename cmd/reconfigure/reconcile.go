package main

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

func reconcileCommand() *cli.Command {
	return command(cli.Command{
		Name:  "reconcile",
		Usage: "show, or fix, what Slurm, Terraform and the cloud do not agree on",
		Description: "It compares them node by node, leaves out the nodes that a request is at work on, and changes " +
			"nothing unless --fix is given. What it finds it " +
			"compares once more after a moment, and shows what is there still. With --fix it fixes what costs no " +
			"job: by a request like any other; by removing an " +
			"instance that Terraform does not know and that nothing can run on; by handing a node back to Slurm that " +
			"a worker has left DOWN. Instances that are not " +
			"marked as the cluster's are never touched or named. docs/guides/reconcile.md describes the findings, and what " +
			"a worker fixes by itself with " +
			"reconfigure.reconcile_minutes.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "fix", Usage: "fix what can be fixed without a loss", DisableDefaultText: true},
			durationFlag("min-age", "15m",
				"report an instance that Terraform does not know only if it is older than `TIME`"),
			durationFlag("recheck", "15s", "compare again after `TIME`; 0s: at once"),
			verboseFlag("with --fix: "),
			workerFlag(),
		},
		Action: func(c *cli.Context) error {
			with, adaptersOf := readJournal, site.Site.Readers
			if c.Bool("fix") {
				with, adaptersOf = withJournal, site.Site.Adapters
			}
			return with(c, siteOf, func(s site.Site, log *journal.Journal) error {
				if log == nil {
					empty := status.NewReconcile(s.Cluster.Name, reconcile.Comparison{})
					return show(c, empty, printing(noRequestYet))
				}
				adapters := adaptersOf(s, log, logger(c))
				defer adapters.Close()
				r := adapters.Reconciler(durationOf(c, "min-age"))
				found, err := r.CompareTwice(c.Context, durationOf(c, "recheck"))
				if err != nil {
					return err
				}
				report := status.NewReconcile(s.Cluster.Name, found)
				if err := show(c, report, report.Write); err != nil {
					return err
				}
				if c.Bool("fix") {
					return fix(c, s, log, r, found)
				}
				return found.Err()
			})
		},
	})
}

// fix carries out the fixes, and follows those that are requests to their outcomes.
func fix(c *cli.Context, s site.Site, log *journal.Journal, r reconcile.Reconciler, found reconcile.Comparison) error {
	if len(found.Seen.Unreachable()) > 0 {
		return found.Err()
	}
	failed, failure := r.Fix(c.Context, found, func(f reconcile.Finding, err error) error { return showFixed(c, f, err) })
	open, rest := found.Left(failed)
	requests := reconcile.Requests(open)
	for i := range requests {
		requests[i].Insist = requests[i].Mode == reconfigure.Resume // an administrator makes this request
	}
	requests, err := r.Submit(c.Context, requests, client.Caller(c.Context))
	if err == nil && len(requests) > 0 {
		err = followAll(c, s, log, requests)
	}
	if err := errors.Join(failure, err); err != nil {
		return err
	}
	found.Findings = rest
	return found.Err()
}

// showFixed prints the result of a fix that is not a request.
func showFixed(c *cli.Context, f reconcile.Finding, failure error) error {
	fixed := status.Fixed{Finding: f, Done: failure == nil}
	return show(c, fixed, printing(fixed, "\n"))
}

// followAll leaves requests to a worker, and follows them one after the other to their outcomes.
func followAll(c *cli.Context, s site.Site, log *journal.Journal, requests []reconfigure.Request) error {
	if err := handOver(c, s, log, requests...); err != nil {
		return err
	}
	var errs []error
	for _, r := range requests {
		err := followToTheEnd(c, s, log, r)
		if c.Context.Err() != nil {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
