// Command eiffel-lab shows a whole cluster on one computer, and runs commands in its nodes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app := &cli.App{
		Name:     "eiffel-lab",
		Usage:    "a Slurm cluster on an OpenStack of namespaces, on this computer",
		Commands: []*cli.Command{demoCommand(), enterCommand()},
	}
	if err := app.RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "eiffel-lab:", err)
		os.Exit(1)
	}
}
