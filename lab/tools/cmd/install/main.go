// Command install installs the lab's tools in the working folder; with --tofu, OpenTofu too. See package tools.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/eiffel-hpc/eiffel/lab/tools"
)

func main() {
	tofu := flag.Bool("tofu", false, "install OpenTofu too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	install := func() error { _, err := tools.Install(ctx, ".", os.Stdout); return err }
	if *tofu {
		install = func() error { return tools.InstallTofu(ctx, ".", os.Stdout) }
	}
	if err := install(); err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}
