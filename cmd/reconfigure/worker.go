package main

import (
	"context"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

func workerCommand() *cli.Command {
	return command(cli.Command{
		Name:  "worker",
		Usage: "carry out the requests that wait, then end; every request starts one where none is at work",
		Action: func(c *cli.Context) error {
			s, err := siteOf(c)
			if err != nil {
				return err
			}
			log, err := s.journal(c.Context)
			if err != nil {
				return err
			}
			defer log.Close()
			pipeline := batch.Pipeline{Open: func(ctx context.Context) (reconfigure.Cluster, batch.Engine, error) {
				return openEngine(ctx, s.dir, log, logger(c))
			}}
			return batch.Work(c.Context, log, pipeline)
		},
	})
}

// startWorker starts a worker that outlives this call, whoever kills or hangs up on it.
func startWorker(s site) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logFile, err := s.openLog("worker.log")
	if err != nil {
		return err
	}
	defer logFile.Close()
	return process.Detach(process.Cmd{
		Path: self, Args: []string{"--dir", s.dir, "worker"}, Dir: s.dir, Env: os.Environ(), Stdout: logFile, Stderr: logFile,
	})
}

// openLog opens a log of the worker's for appending.
func (s site) openLog(name string) (*os.File, error) {
	if err := os.MkdirAll(s.state("log"), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(s.state("log", name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
