package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func updateCommand() *cli.Command {
	return command(cli.Command{
		Name:  "update",
		Usage: "change nodes to what is declared now, or reboot those that already match",
		Description: "A node whose image, flavor or network is not what all.yml declares now is rebuilt, " +
			"resized or replaced; a node that matches the declaration is rebooted. A node that Slurm uses is drained " +
			"first, until its jobs have ended; meanwhile other requests go on. Cloud nodes without an instance are not made.\n\n" +
			"Slurm's RebootProgram calls it too: `scontrol reboot ASAP nextstate=RESUME reason=\"reimage\" " +
			"HOSTLIST` has the nodes made anew, and " +
			"a reason that begins with \"reimage image=NAME\" has them made of that image.\n\n" +
			"With --outdated, and without a hostlist, it starts a campaign, and returns: the nodes that differ from the " +
			"declaration are updated a few at a time, those that run jobs when these have ended (docs/guides/campaign.md). " +
			"`reconfigure campaign` shows how far it is; --wait follows it.\n\n" + hostlistHelp,
		ArgsUsage: "HOSTLIST...",
		Flags: append(
			append(requestFlags(), campaignFlags()...),
			&cli.BoolFlag{Name: "reimage", DisableDefaultText: true,
				Usage: "make a new instance also of a node that matches the declaration"},
			&cli.StringFlag{Name: "image", Usage: "use the image `NAME` instead of the declared one"},
			drainTimeoutFlag(),
			&cli.BoolFlag{Name: "from-slurm", DisableDefaultText: true,
				Usage: "Slurm reboots the nodes: their reasons say what to do"},
		),
		Action: func(c *cli.Context) error {
			timeout, err := drainTimeout(c)
			if err != nil {
				return err
			}
			if c.Bool("outdated") || c.Bool("rollback") {
				for _, name := range []string{"reimage", "image", "from-slurm", "no-wait"} {
					if c.Args().Present() || c.IsSet(name) {
						return usagef(c, "with --outdated and --rollback there cannot be a hostlist or --%s", name)
					}
				}
				return startCampaign(c, timeout)
			}
			for _, name := range []string{"group", "batch", "max-unavailable", "canary", "pause-on-failures", "wait"} {
				if c.IsSet(name) {
					return usagef(c, "--%s is for a campaign: it needs --outdated or --rollback", name)
				}
			}
			nodes, err := hostlist(c)
			if err != nil {
				return err
			}
			options := reconfigure.Options{
				Reimage:      c.Bool("reimage"),
				Image:        c.String("image"),
				FromSlurm:    c.Bool("from-slurm"),
				DrainTimeout: timeout,
			}
			if options.FromSlurm && (options.Reimage || options.Image != "") {
				return usagef(
					c,
					"with --from-slurm the nodes' reasons say what to do, so there cannot be --reimage or --image",
				)
			}
			return submit(c, reconfigure.Request{Mode: reconfigure.Update, Nodes: nodes, Options: options})
		},
	})
}

func drainTimeoutFlag() cli.Flag {
	return durationFlag("drain-timeout", "24h", "give up on a node whose jobs have not ended after this `TIME`")
}

func drainTimeout(c *cli.Context) (time.Duration, error) {
	timeout := durationOf(c, "drain-timeout")
	if timeout == 0 {
		return 0, usagef(c, "--drain-timeout must be more than 0")
	}
	return timeout, nil
}
