package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

func pauseCommand() *cli.Command {
	return command(cli.Command{
		Name:  "pause",
		Usage: "have nothing begun until `reconfigure continue`: for maintenance",
		Description: "Requests are accepted meanwhile, and wait; so do those that wait for jobs. A batch at work goes on to its end. " +
			"`reconfigure status`, and whoever follows a request, show who has paused, since when and why. Said twice, the last word counts.",
		Flags: []cli.Flag{&cli.StringFlag{Name: "reason", Usage: "`WHY`, for all who have to wait"}},
		Action: func(c *cli.Context) error {
			if oneLine(c.String("reason")) == "" {
				return usagef(c, "pause needs --reason: it is shown to all who have to wait")
			}
			return withJournal(c, siteAnyway, func(_ site, log *journal.Journal) error {
				if err := log.Pause(c.Context, c.String("reason"), caller()); err != nil {
					return err
				}
				return showPause(c, log)
			})
		},
	})
}

func continueCommand() *cli.Command {
	return command(cli.Command{
		Name:  "continue",
		Usage: "end a pause, and carry out what waits; or have a node group be used again",
		Description: "Where there is no pause, it does no more than to start a worker, as every request does. With GROUP, a pause goes on: what is known of that node group is " +
			"forgotten, so that Slurm gets as many nodes of it as it asks for at once; for when the image is mended, or there is room again.",
		ArgsUsage: "[GROUP...]",
		Flags:     []cli.Flag{workerFlag()},
		Action: func(c *cli.Context) error {
			return withJournal(c, siteAnyway, func(s site, log *journal.Journal) error {
				if c.Args().Present() {
					return continueGroups(c, s, log)
				}
				if err := log.Continue(c.Context); err != nil {
					return err
				}
				if err := startWorker(c.Context, s); err != nil {
					return fmt.Errorf("the pause has ended, but no worker could be started; `reconfigure worker` is one: %w", err)
				}
				return showPause(c, log)
			})
		},
	})
}

// continueGroups has node groups fare well. Where the declaration can be read, a name that is not in it is refused before anything is done.
func continueGroups(c *cli.Context, s site, log *journal.Journal) error {
	groups := c.Args().Slice()
	fares, err := log.Health(c.Context)
	if err != nil {
		return err
	}
	unknown := slices.DeleteFunc(slices.Clone(groups), func(g string) bool { _, ails := fares[g]; return ails })
	if s.cluster.Name != "" {
		for _, group := range unknown {
			if _, err := groupNamed(s.cluster.Groups, group); err != nil {
				return usagef(c, "%v", err)
			}
		}
	}
	said := []continued{}
	for _, group := range groups {
		was := fares[group]
		err := log.UpdateHealth(c.Context, group, func(reconfigure.Health) reconfigure.Health { return reconfigure.Health{} })
		if err != nil {
			return err
		}
		said = append(said, continued{group, was.Failures, was.Full.Reason})
	}
	if wantsJSON(c) {
		return json.NewEncoder(c.App.Writer).Encode(said)
	}
	for _, one := range said {
		if _, err := fmt.Fprintln(c.App.Writer, one.words()); err != nil {
			return err
		}
	}
	return nil
}

// continued is what was known of a group that is used again.
type continued struct {
	Group    string `json:"group"`
	Failures int    `json:"failures"` // boot failures in a row
	Full     string `json:"full"`     // why there was no room; empty: there was
}

func (d continued) words() string {
	var forgotten []string
	if d.Failures > 0 {
		forgotten = append(forgotten, fmt.Sprintf("%d boot failures in a row", d.Failures))
	}
	if d.Full != "" {
		forgotten = append(forgotten, "that there was no room")
	}
	if len(forgotten) == 0 {
		return d.Group + ": nothing had failed"
	}
	return d.Group + ": forgotten: " + strings.Join(forgotten, ", and ")
}

// pauseReport is what is said of a pause, and of what it stops.
type pauseReport struct {
	Pause   *reconfigure.Pause `json:"pause"`   // none: null
	Waiting int                `json:"waiting"` // requests without an outcome
	Leader  string             `json:"leader"`  // the worker at work; empty: none
}

// showPause tells how it is now. The leader comes last: whoever leads from then on finds the pause before he begins anything.
func showPause(c *cli.Context, log *journal.Journal) error {
	var report pauseReport
	p, paused, err := log.Paused(c.Context)
	if err != nil {
		return err
	}
	if paused {
		report.Pause = &p
	}
	requests, err := log.Pending(c.Context)
	if err != nil {
		return err
	}
	report.Waiting, report.Leader = len(requests), log.Leader(c.Context)
	if wantsJSON(c) {
		return json.NewEncoder(c.App.Writer).Encode(report)
	}
	_, err = fmt.Fprint(c.App.Writer, report.words())
	return err
}

func (r pauseReport) words() string {
	text := fmt.Sprintf("requests without an outcome: %d\n", r.Waiting)
	if r.Pause == nil {
		return "not paused\n" + text
	}
	text = pauseWords(*r.Pause) + "\nnothing is begun until `reconfigure continue`\n" + text
	if r.Leader != "" {
		text += "a batch may be at work still, and goes on to its end: " + r.Leader + "\n"
	}
	return text
}

// pauseWords says who has paused, since when and why.
func pauseWords(p reconfigure.Pause) string {
	return fmt.Sprintf("paused by %s since %s: %s", oneLine(p.By), p.Since.UTC().Format(time.RFC3339), oneLine(p.Reason))
}

// pauseTeller tells whoever follows a request that nothing is begun.
type pauseTeller struct {
	log interface {
		Leader(ctx context.Context) string
		Paused(ctx context.Context) (reconfigure.Pause, bool, error)
	}
	request reconfigure.RequestID
	next    time.Time // when the next look is due
	told    string
}

// look is what is new about pauses. While somebody leads, that may be the request's own batch, which no pause stops.
func (t *pauseTeller) look(ctx context.Context, now time.Time) ([]reconfigure.Event, error) {
	const pause = time.Second
	if now.Before(t.next) {
		return nil, nil
	}
	t.next = now.Add(pause)
	p, paused, err := t.log.Paused(ctx)
	if err != nil || paused && t.log.Leader(ctx) != "" {
		return nil, err
	}
	news := ""
	if paused {
		news = fmt.Sprintf("request %s waits: %s", t.request, pauseWords(p))
	}
	if news == t.told {
		return nil, nil
	}
	t.told = news
	if news == "" {
		news = "the pause has ended"
	}
	return []reconfigure.Event{{Time: now, Phase: reconfigure.PhaseRequested, Level: reconfigure.Note, Message: news}}, nil
}
