package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/worker"
)

func requestFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name:               "no-wait",
			Usage:              "return as soon as the request is on disk",
			DisableDefaultText: true,
		},
		&cli.BoolFlag{Name: "dry-run", Usage: "show what would be done, and do nothing", DisableDefaultText: true},
		&cli.StringFlag{Name: "reason", Usage: "`WHY`, for the journal and `reconfigure status`"},
		verboseFlag(""),
		workerFlag(),
	}
}

// workerFlag is for every command that may start a worker. It may also stand before the command, where it has its
// environment variable.
func workerFlag() *cli.StringFlag {
	return &cli.StringFlag{
		Name:  "worker",
		Usage: "start a worker by `WHOM`, self or systemd, instead of as all.yml declares",
	}
}

// starterOf returns the starter of workers for a call: --worker after the command, otherwise before it, otherwise the
// declaration's.
func starterOf(c *cli.Context, declared reconfigure.WorkerStart) (reconfigure.WorkerStart, error) {
	named := cmp.Or(declared, reconfigure.WorkerSelf) // if the declaration cannot be read
	for _, level := range c.Lineage() {
		if word := level.String("worker"); word != "" {
			named = reconfigure.WorkerStart(word)
			break
		}
	}
	if named != reconfigure.WorkerSelf && named != reconfigure.WorkerSystemd {
		return "", usagef(c, "there is no --worker %q: there are self and systemd", named)
	}
	return named, nil
}

// submit makes a request for declared nodes.
func submit(c *cli.Context, r reconfigure.Request) error {
	s, err := siteToSubmit(c, r.Mode)
	if err != nil {
		return err
	}
	// slurm.conf may be older than the declaration: a removed node must not hold back the others, which Slurm's
	// jobs wait for.
	if s.Declared() && !client.ThroughGate(c.Context) {
		if err := declared(c, s.Cluster, r.Nodes); err != nil {
			return err
		}
	}
	if r.Mode == reconfigure.Deploy {
		warnOfErrors(c, s)
	}
	return ask(c, s, r, nil)
}

// siteToSubmit returns the site for a request. Slurm's requests are accepted even if the declaration cannot be read,
// and are retried until it is fixed. Other callers get the error at once.
func siteToSubmit(c *cli.Context, m reconfigure.Mode) (site.Site, error) {
	if unconditional(c, m) {
		return siteAnyway(c)
	}
	return siteOf(c)
}

// unconditional reports whether a request must be accepted even if the declaration cannot be read.
func unconditional(c *cli.Context, m reconfigure.Mode) bool {
	return c.Bool("no-wait") && !c.Bool("dry-run") && controller.Retries(m)
}

// ask stores a request, starts a worker for it, and follows it to its outcome. Before that, it writes the edit of the
// declaration to disk; s has it already.
func ask(c *cli.Context, s site.Site, r reconfigure.Request, e *client.Edit) error {
	// Slurm does not repeat a call, so its requests wait until the cloud is configured. A person who follows a
	// request gets the error.
	if !client.ThroughGate(c.Context) && !c.Bool("no-wait") && s.Declared() {
		if err := s.CloudConfigured(); err != nil {
			return err
		}
	}
	if c.Bool("dry-run") {
		return preview(c, s, r, e)
	}
	r.Reason, r.Caller = c.String("reason"), client.Caller(c.Context)
	log, err := s.Journal(c.Context)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := s.UpToDate(c.Context, log); err != nil && !unconditional(c, r.Mode) {
		return err
	}
	if err := e.Make(c.Context, logger(c)); err != nil {
		return err
	}
	if e != nil {
		if err := s.UpToDate(c.Context, log); err != nil { // other control hosts are outdated now
			return e.Stands(err)
		}
	}
	if r, err = log.Submit(c.Context, r); err != nil {
		return e.Stands(err)
	}
	if err := handOver(c, s, log, r); err != nil {
		return err
	}
	if c.Bool("no-wait") {
		return showSubmitted(c, r)
	}
	return followToTheEnd(c, s, log, r)
}

// handOver leaves stored requests to a worker: to the one that holds the lease, which looks for requests once more
// after it releases the lease, or to a new one. With hundreds of callers, a worker for each would slow them all down.
func handOver(c *cli.Context, s site.Site, log *journal.Journal, requests ...reconfigure.Request) error {
	if err := s.Remember(); err != nil {
		logger(c).WarnContext(c.Context, err.Error()) // later calls use the worker
	}
	if log.Holder(c.Context) != "" {
		return nil
	}
	if err := worker.Start(c.Context, s); err != nil {
		return fmt.Errorf("%s on disk, but no worker could be started: %w", named(requests), err)
	}
	return nil
}

// named returns the numbers of requests as the subject of a sentence, with the verb.
func named(requests []reconfigure.Request) string {
	ids := make([]string, len(requests))
	for i, r := range requests {
		ids[i] = r.ID.String()
	}
	if len(ids) == 1 {
		return "request " + ids[0] + " is"
	}
	return "requests " + strings.Join(ids, ", ") + " are"
}

// followToTheEnd shows the progress of a request, and then its outcome.
func followToTheEnd(c *cli.Context, s site.Site, log *journal.Journal, r reconfigure.Request) error {
	outcome, err := client.Follow(c.Context, s, log, r, newView(c, r))
	if err != nil {
		return err
	}
	return showOutcome(c, s, r, outcome)
}

func showSubmitted(c *cli.Context, r reconfigure.Request) error {
	return show(c, struct {
		Request reconfigure.RequestID `json:"request"`
	}{r.ID}, printing("request ", r.ID, "\n"))
}
