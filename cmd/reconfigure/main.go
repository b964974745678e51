// Command reconfigure makes a Slurm cluster on OpenStack elastic: Slurm and administrators call it, and it has Terraform make or remove the instances, has
// Ansible configure them, and tells Slurm what became of them.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

func main() {
	// slurmctld starts its programs with signals blocked and descriptors closed, and all our children would inherit that: Ansible then hangs.
	if err := process.CleanSignals(); err != nil {
		fmt.Fprintln(os.Stderr, "reconfigure:", err)
		os.Exit(exitCode(err))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with everything that it touches as arguments, so that tests can call it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	app := newApp(stdin, stdout, stderr)
	err := app.RunContext(ctx, args)
	if err != nil {
		report(stderr, err)
	}
	return exitCode(err)
}
