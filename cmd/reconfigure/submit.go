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

// workerFlag is for every command that may start a worker. It may also be before the command, and has its environment
// variable there.
func workerFlag() *cli.StringFlag {
	return &cli.StringFlag{
		Name:  "worker",
		Usage: "start a worker by `WHOM`, self or systemd, instead of as group_vars/all.yml declares",
	}
}

// starterOf returns who starts a worker for the call: --worker behind the command, else before it, else the
// declaration.
func starterOf(c *cli.Context, declared reconfigure.WorkerStart) (reconfigure.WorkerStart, error) {
	named := cmp.Or(declared, reconfigure.WorkerSelf) // nothing is declared where the declaration cannot be read
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

// submit asks for something of nodes that are declared.
func submit(c *cli.Context, r reconfigure.Request) error {
	s, err := siteToSubmit(c, r.Mode)
	if err != nil {
		return err
	}
	// slurm.conf may be older than the declaration: a node that is gone must not hold back the others that Slurm's jobs
	// wait for.
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

// siteToSubmit returns the site for a request. Slurm's requests are accepted even if the declaration cannot be read:
// they are retried until it is fixed. Other callers get the error at once.
func siteToSubmit(c *cli.Context, m reconfigure.Mode) (site.Site, error) {
	if unconditional(c, m) {
		return siteAnyway(c)
	}
	return siteOf(c)
}

// unconditional reports whether a request is accepted even if the declaration cannot be read.
func unconditional(c *cli.Context, m reconfigure.Mode) bool {
	return c.Bool("no-wait") && !c.Bool("dry-run") && controller.Retries(m)
}

// ask stores a request, has a worker carry it out, and follows it to its outcome. An edit of the declaration, which s
// has already, is made before.
func ask(c *cli.Context, s site.Site, r reconfigure.Request, e *client.Edit) error {
	// Slurm calls once, so its requests wait until the cloud is configured. A person who follows a request gets the error.
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
		if err := s.UpToDate(c.Context, log); err != nil { // from now on the other control hosts are behind
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

// handOver leaves requests that are on disk to a worker: the one that holds the lease, which looks for requests once
// more after it has released it, or a new one. A worker for each of hundreds of callers would slow them all down.
func handOver(c *cli.Context, s site.Site, log *journal.Journal, requests ...reconfigure.Request) error {
	if err := s.Remember(); err != nil {
		logger(c).WarnContext(c.Context, err.Error()) // it is for later calls
	}
	if log.Holder(c.Context) != "" {
		return nil
	}
	if err := worker.Start(c.Context, s); err != nil {
		return fmt.Errorf("%s on disk, but no worker could be started: %w", named(requests), err)
	}
	return nil
}

// named is requests in a sentence, with the verb.
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

// followToTheEnd shows what happens to a request, and then its outcome.
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
