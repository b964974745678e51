package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func resumeCommand() *cli.Command {
	return command(cli.Command{
		Name:      "resume",
		Usage:     "make nodes' instances, configure them, and have slurmd register: Slurm's ResumeProgram",
		ArgsUsage: "HOSTLIST...",
		Flags: append(requestFlags(),
			&cli.PathFlag{Name: "resume-file", Usage: "Slurm's SLURM_RESUME_FILE, `FILE` or - for standard input: which jobs wait for which nodes"}),
		Action: func(c *cli.Context) error {
			nodes, err := hostlist(c)
			if err != nil {
				return err
			}
			jobs, err := readJobs(c.App.Reader, c.Path("resume-file"))
			if err != nil {
				return err
			}
			return submit(c, reconfigure.Request{Mode: reconfigure.Resume, Nodes: nodes, Jobs: jobs})
		},
	})
}

// readJobs reads SLURM_RESUME_FILE (power_save guide). Empty input is no jobs: Slurm without JSON-C does not write the file.
func readJobs(stdin io.Reader, file string) ([]reconfigure.Job, error) {
	const limit = 16 << 20 // bytes; 4000 nodes for as many jobs take less than 1 MiB
	switch file {
	case "":
		return nil, nil
	case "-":
	default:
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("reading the resume file: %w", err)
		}
		defer f.Close()
		stdin = f
	}
	text, err := io.ReadAll(io.LimitReader(stdin, limit))
	if err != nil {
		return nil, fmt.Errorf("reading the resume file: %w", err)
	}
	if len(text) == 0 {
		return nil, nil
	}
	var content struct {
		Jobs []reconfigure.Job `json:"jobs"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, usagef("the resume file is not what Slurm writes: %v", err)
	}
	return content.Jobs, nil
}
