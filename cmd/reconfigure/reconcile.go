package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
)

func reconcileCommand() *cli.Command {
	return command(cli.Command{
		Name:  "reconcile",
		Usage: "show, or mend, what Slurm, Terraform and the cloud do not agree on",
		Description: "It compares them node by node, leaves out the nodes that a request is at work on, and changes nothing unless --fix is given. What it finds it " +
			"looks for once more after a moment, and shows what is there still. With --fix it mends what costs no job: by a request like any other; by removing an " +
			"instance that Terraform does not know and that nothing can run on; by handing a node back to Slurm that a worker has left DOWN. Instances that are not " +
			"marked as the cluster's are never touched or named. docs/reconcile.md describes the findings, and what a worker mends by itself with " +
			"reconfigure.reconcile_minutes.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "fix", Usage: "mend what can be mended without a loss", DisableDefaultText: true},
			&cli.DurationFlag{Name: "min-age", Value: nobodysAge, Usage: "take an instance that Terraform does not know for nobody's only if it is older than `DURATION`"},
			&cli.DurationFlag{Name: "recheck", Value: 15 * time.Second, Usage: "look again after `DURATION`; 0s: at once"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "with --fix: show each step of Terraform and Ansible, too", DisableDefaultText: true},
			workerFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.Duration("min-age") < 0 || c.Duration("recheck") < 0 {
				return usagef(c, "--min-age and --recheck cannot be negative")
			}
			return withJournal(c, siteOf, func(s site, log *journal.Journal) error {
				comparison, err := s.compareTwice(c.Context, log, logger(c), c.Duration("min-age"), c.Duration("recheck"))
				if err != nil {
					return err
				}
				if err := newReconcileReport(s.cluster.Name, comparison).show(c); err != nil {
					return err
				}
				if c.Bool("fix") {
					return mend(c, s, log, comparison)
				}
				return comparison.verdict()
			})
		},
	})
}

// nobodysAge is how old an instance must be, where nobody says otherwise, to be nobody's: Terraform has long seen it made by then.
const nobodysAge = 15 * time.Minute

// compared is what a comparison came to.
type compared struct {
	findings []reconcile.Finding
	seen     reconcile.Observation
	silent   []silence
	work     work // as the journal had it after all others were asked
}

// compareTwice compares, and where anything differs does so once more after a pause.
func (s site) compareTwice(ctx context.Context, log *journal.Journal, logger *slog.Logger, minAge, pause time.Duration) (compared, error) {
	first, err := s.compare(ctx, log, logger, minAge)
	if err != nil || len(first.findings) == 0 {
		return first, err
	}
	select {
	case <-ctx.Done():
		return first, ctx.Err()
	case <-time.After(pause):
	}
	second, err := s.compare(ctx, log, logger, minAge)
	second.findings = reconcile.Confirm(first.findings, second.findings)
	return second, err
}

// compare asks all parties, and looks into the journal before and after: what a request was at work on meanwhile is not judged.
func (s site) compare(ctx context.Context, log *journal.Journal, logger *slog.Logger, minAge time.Duration) (compared, error) {
	before, err := workIn(ctx, log)
	if err != nil {
		return compared{}, err
	}
	seen := s.look(ctx, log, logger)
	if ctx.Err() != nil {
		return compared{}, ctx.Err() // nobody was silent, we did not listen
	}
	after, err := workIn(ctx, log)
	if err != nil {
		return compared{}, err
	}
	all := seen.observation(time.Now(), minAge)
	all.AtWork, all.Whole = before.nodes.Union(after.nodes).Union(after.since(before)), before.whole || after.whole
	return compared{findings: reconcile.Compare(s.cluster, all), seen: all, silent: seen.silent, work: after}, nil
}

// work is what is to be done, and what was done last, as the journal has it.
type work struct {
	nodes nodeset.NodeSet // that requests without an outcome name
	whole bool            // such a request is for the whole cluster
	last  map[string]reconfigure.Event
}

func workIn(ctx context.Context, log *journal.Journal) (work, error) {
	var w work
	requests, err := log.Pending(ctx)
	if err != nil {
		return w, err
	}
	for _, r := range requests {
		w.nodes, w.whole = w.nodes.Union(r.Open()), w.whole || r.Nodes.Empty()
	}
	w.last, err = log.LastMoves(ctx)
	return w, err
}

// since is the nodes that something has happened to since an earlier look.
func (w work) since(earlier work) nodeset.NodeSet {
	var names []string
	for node, e := range w.last {
		if e.ID != earlier.last[node].ID {
			names = append(names, node)
		}
	}
	return nodeset.Of(names...)
}

// observation is what was seen, as far as the parties answered.
func (v sight) observation(now time.Time, minAge time.Duration) reconcile.Observation {
	answers := func(who party) bool {
		return !slices.ContainsFunc(v.silent, func(s silence) bool { return s.Who == who })
	}
	o := reconcile.Observation{
		Observation: reconfigure.Observation{Time: now, Desired: v.desired, Instances: v.instances, States: v.states, Slurm: answers(partySlurm), Sources: v.sources},
		Terraform:   answers(partyTerraform), Cloud: answers(partyCloud), MinAge: minAge, Servers: map[string][]reconcile.Server{},
	}
	for name, servers := range v.servers {
		for _, s := range servers {
			o.Servers[name] = append(o.Servers[name], reconcile.Server{ID: s.ID, Address: s.Address, ImageID: s.ImageID, Created: s.Created})
		}
	}
	return o
}

// differsError tells that something differs. What, was shown.
type differsError struct{ nodes nodeset.NodeSet }

func (e *differsError) Error() string {
	return fmt.Sprintf("%s: not everybody agrees on what is there", e.nodes)
}

// verdict is the error of a comparison: that something differs, or that nobody can tell.
func (d compared) verdict() error {
	var names, mute []string
	for _, f := range d.findings {
		if !f.Kind.Note() {
			names = append(names, f.Node)
		}
	}
	for _, s := range d.silent {
		mute = append(mute, s.Who.name())
	}
	switch {
	case len(mute) > 0:
		return fmt.Errorf("what differs cannot be told in full, and nothing is mended: no answer from: %s", strings.Join(mute, ", "))
	case len(names) > 0:
		return &differsError{nodeset.Of(names...)}
	}
	return nil
}
