package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func requestFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "no-wait", Usage: "return as soon as the request is durable; nodes that nobody declares are left out instead of refusing it all"},
		&cli.StringFlag{Name: "reason", Usage: "`WHY`, for the journal"},
	}
}

// submit writes a request down, has a worker carry it out, and follows it to its outcome.
func submit(c *cli.Context, r reconfigure.Request) error {
	s, err := siteOf(c)
	if err != nil {
		return err
	}
	// Slurm's slurm.conf may be older than the declaration: one node that is gone must not hold back the others that its jobs wait for.
	if err := declared(s.cluster, r.Nodes); err != nil && !c.Bool("no-wait") {
		return err
	}
	r.Reason, r.Caller = c.String("reason"), caller()
	log, err := s.journal(c.Context)
	if err != nil {
		return err
	}
	defer log.Close()
	if r, err = log.Submit(c.Context, r); err != nil {
		return err
	}
	if err := startWorker(s); err != nil {
		return fmt.Errorf("request %d is written down, but no worker could be started for it: %w", r.ID, err)
	}
	if c.Bool("no-wait") {
		_, err := fmt.Fprintf(c.App.Writer, "request %d\n", r.ID)
		return err
	}
	outcome, err := follow(c, s, log, r)
	if err != nil {
		return err
	}
	return show(c, outcome)
}

// follow shows what happens to a request until it has an outcome.
func follow(c *cli.Context, s site, log *journal.Journal, r reconfigure.Request) (reconfigure.Outcome, error) {
	const (
		look   = 250 * time.Millisecond
		revive = 10 * time.Second // a worker that was killed left the request; starting one beside a living one does nothing
	)
	view := newView(c, r)
	defer view.close()
	var seen int64
	revived := time.Now()
	for {
		outcome, ended, err := log.Outcome(c.Context, r.ID)
		if err != nil {
			return outcome, interrupted(c.Context, r, err)
		}
		events, err := log.Events(c.Context, r.ID, seen)
		if err != nil {
			return outcome, interrupted(c.Context, r, err)
		}
		if len(events) > 0 {
			seen = events[len(events)-1].ID
		}
		view.events(events)
		if ended {
			return outcome, nil
		}
		if time.Since(revived) > revive {
			revived = time.Now()
			if err := startWorker(s); err != nil {
				return outcome, err
			}
		}
		select {
		case <-c.Context.Done():
			return outcome, interrupted(c.Context, r, c.Context.Err())
		case <-time.After(look):
		}
	}
}

func interrupted(ctx context.Context, r reconfigure.Request, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: request %d goes on without you; `reconfigure status` shows it", ctx.Err(), r.ID)
	}
	return err
}

// show prints an outcome; one that is not as asked is also the error of the call.
func show(c *cli.Context, o reconfigure.Outcome) error {
	if c.Bool("json") {
		if err := json.NewEncoder(c.App.Writer).Encode(o); err != nil {
			return err
		}
	} else {
		showText(c.App.Writer, o)
	}
	if o.Code != reconfigure.CodeDone {
		return &outcomeError{o}
	}
	return nil
}

func showText(w io.Writer, o reconfigure.Outcome) {
	if o.Error != "" {
		fmt.Fprintln(w, o.Error)
	}
	type kind struct {
		status reconfigure.Status
		action reconfigure.Action
		phase  reconfigure.Phase
		reason string
	}
	var order []kind
	nodes := map[kind][]string{}
	for _, v := range o.Verdicts {
		k := kind{v.Status, v.Action, v.Phase, v.Reason}
		if nodes[k] == nil {
			order = append(order, k)
		}
		nodes[k] = append(nodes[k], v.Node)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range order {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", nodeset.Of(nodes[k]...), k.status, k.action, k.phase, strings.ReplaceAll(k.reason, "\n", " "))
	}
	table.Flush()
	if len(order) == 0 && o.Error == "" {
		fmt.Fprintln(w, "nothing to do")
	}
}

// caller says who asks: the user, and from where.
func caller() string {
	name := fmt.Sprintf("uid %d", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if from, _, ok := strings.Cut(os.Getenv("SSH_CONNECTION"), " "); ok { // sshd(8), ENVIRONMENT
		name += " from " + from
	}
	return name
}
