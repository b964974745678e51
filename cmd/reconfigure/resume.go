package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurm"
)

// hostlistHelp belongs in the description of every command that takes a hostlist.
const hostlistHelp = "HOSTLIST is in Slurm's notation: node[01-04,07],gpu1. Quote it, since the shell expands brackets."

func resumeCommand() *cli.Command {
	return command(cli.Command{
		Name:  "resume",
		Usage: "make nodes' instances, configure them, and wait until slurmd has registered",
		Description: "Slurm's ResumeProgram calls it. A node that is ready stays as it is. A node that has an instance " +
			"and that Slurm powers up is rebooted, since Slurm waits for a boot that is newer than its call.\n\n" + hostlistHelp,
		ArgsUsage: "HOSTLIST...",
		Flags: append(
			requestFlags(),
			&cli.PathFlag{
				Name: "resume-file",
				Usage: "what Slurm wrote to SLURM_RESUME_FILE, in `FILE` or, for -, on standard input: which jobs " +
					"wait for which nodes",
			},
		),
		Action: func(c *cli.Context) error {
			nodes, err := hostlist(c)
			if err != nil {
				return err
			}
			jobs, err := readJobs(c)
			if err != nil {
				return err
			}
			return submit(c, reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodes, Jobs: jobs})
		},
	})
}

// readJobs reads the resume file. A call with --no-wait continues without a file that is truncated or malformed: the
// nodes matter more than the jobs.
func readJobs(c *cli.Context) ([]reconfigure.Job, error) {
	file := c.Path("resume-file")
	if file == "" {
		return nil, nil
	}
	text, err := readFile(c.Context, c.App.Reader, file)
	if c.Context.Err() != nil {
		return nil, c.Context.Err()
	}
	var jobs []reconfigure.Job
	if err != nil {
		err = fmt.Errorf("the resume file cannot be read: %w", err)
	} else if jobs, err = slurm.ParseResumeFile(text); err != nil {
		err = fmt.Errorf("the resume file is not what Slurm writes: %w", err)
	}
	switch {
	case err == nil:
		return jobs, nil
	case c.Bool("no-wait"): // a call by Slurm: its jobs wait for the nodes
		logger(c).WarnContext(c.Context, err.Error()+": the nodes are resumed without the jobs that it does not name")
		return jobs, nil
	}
	return nil, usagef(c, "%v", err)
}

// readFile reads a file, or standard input for the name -.
func readFile(ctx context.Context, stdin io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return process.Interruptible(ctx, func() ([]byte, error) {
			return io.ReadAll(io.LimitReader(stdin, resumeFileLimit))
		})
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, resumeFileLimit))
}

// resumeFileLimit is in bytes; 4000 nodes for as many jobs take less than 1 MiB.
const resumeFileLimit = 16 << 20
