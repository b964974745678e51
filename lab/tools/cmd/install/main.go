// Command install installs the lab's tools in a checkout, by default in the working folder. See package tools.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/eiffel-hpc/eiffel/lab/tools"
)

func main() {
	checkout := "."
	if len(os.Args) > 1 {
		checkout = os.Args[1]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if _, err := tools.Install(ctx, checkout, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}
