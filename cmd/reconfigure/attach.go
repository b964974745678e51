package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/attach"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

func planAttachCommand() *cli.Command {
	return command(cli.Command{
		Name:  "attach",
		Usage: "show what would be written on a control node that exists (control_node.existing)",
		Description: "It reads slurm.conf there with its Includes, asks slurmctld, and changes nothing. The answer has " +
			"the files, the lines that slurmctld would read, and what speaks against it. With an error among the findings " +
			"nothing may be written. docs/guides/attach.md has more.",
		Action: func(c *cli.Context) error {
			if err := site.CheckOwner(directory(c)); err != nil {
				return usagef(c, "%v", err)
			}
			s, err := site.OpenExisting(directory(c))
			if err != nil {
				return err
			}
			return withAdapters(c, s, func(adapters *site.Adapters) error {
				p, err := client.PlanAttach(c.Context, adapters)
				if err != nil {
					return err
				}
				if err := show(c, p, p.Write); err != nil {
					return err
				}
				return p.Report.Err()
			})
		},
	})
}

func attachCommand() *cli.Command {
	return command(cli.Command{
		Name:  "attach",
		Usage: "attach to a control node that exists (control_node.existing)",
		Description: "It does what `reconfigure plan attach` shows: it writes the programs, the keys and eiffel.conf beside " +
			"the site's slurm.conf, adds one line to slurm.conf, and has slurmctld read that. With an error among the " +
			"findings it changes nothing. If slurmctld does not accept the configuration, the former one is restored. It may " +
			"be repeated, also after it was interrupted, and after an edit of all.yml. docs/guides/attach.md has more.",
		Action: func(c *cli.Context) error {
			return onExisting(c, client.Attach, func(a *site.Adapters) error {
				warning, err := client.CallBack(c.Context, a)
				if warning != "" {
					notes(c).WarnContext(c.Context, warning)
				}
				return err
			})
		},
	})
}

func detachCommand() *cli.Command {
	return command(cli.Command{
		Name:  "detach",
		Usage: "remove from a control node what `reconfigure attach` has written",
		Description: "slurm.conf is then byte for byte as without the line, and the files and keys are removed. It changes " +
			"nothing while nodes of the cluster have instances, or if a job would end. It may be repeated, also after it was " +
			"interrupted.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "show what would be done, and do nothing", DisableDefaultText: true},
		},
		Action: func(c *cli.Context) error {
			do := client.Detach
			if c.Bool("dry-run") {
				do = client.PlanDetach
			}
			return onExisting(c, do, func(*site.Adapters) error { return nil })
		},
	})
}

// onExisting calls do for the control node that exists, shows the plan that it returns, and then calls last.
func onExisting(
	c *cli.Context, do func(context.Context, *site.Adapters) (attach.Plan, error), last func(*site.Adapters) error,
) error {
	s, err := siteOf(c)
	if err == nil {
		s, err = site.OpenExisting(s.Dir)
	}
	if err != nil {
		return err
	}
	return s.WithJournal(c.Context, func(log *journal.Journal) error {
		adapters := s.Adapters(log, logger(c))
		defer adapters.Close()
		p, err := do(c.Context, adapters)
		if p.Host != "" {
			if shown := show(c, p, p.Write); shown != nil {
				return shown
			}
		}
		if errors.Is(err, client.ErrRefused) {
			return p.Report.Err()
		}
		if err != nil {
			return err
		}
		return last(adapters)
	})
}

// notAttached returns an error for commands that change what a site with its own control node keeps.
func notAttached(c *cli.Context, s site.Site) error {
	if !s.Cluster.Attached() {
		return nil
	}
	return usagef(c, "all.yml has control_node.existing, so %s is not possible: for another size, edit min_nodes or "+
		"max_nodes in all.yml, and run `reconfigure attach` and `reconfigure deploy`", c.Command.Name)
}
