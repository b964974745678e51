// Command reconfigure gives a Slurm cluster elastic nodes in a cloud: Slurm and administrators call it; it creates and
// removes instances with Terraform, configures them with Ansible, and tells Slurm the result.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

func main() {
	// slurmctld starts its programs with signals blocked and descriptors closed, which our child processes would
	// inherit; Ansible would then hang.
	if err := process.CleanSignals(); err != nil {
		fmt.Fprintln(os.Stderr, "reconfigure:", err)
		os.Exit(exitCode(err))
	}
	if err := process.ForbidCores(); err != nil {
		fmt.Fprintln(os.Stderr, "reconfigure:", err)
		os.Exit(exitCode(err))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main, with the process's environment as arguments.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	asJSON := false
	app := newApp(stdin, stdout, stderr)
	// Without a handler the library would call os.Exit for an error that has an exit code.
	app.ExitErrHandler = func(c *cli.Context, _ error) { asJSON = asJSON || wantsJSON(c) }
	err := runApp(ctx, app, args)
	if err != nil {
		report(stderr, err, asJSON)
	}
	return exitCode(err)
}
