// Command install installs the lab's tools in the working folder; with --tofu, OpenTofu too. With --openstack it installs
// Debian's packages of OpenStack and nothing else. See package tools.
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
	openstack := flag.Bool("openstack", false, "install Debian's packages of OpenStack, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	install := func() error { _, err := tools.Install(ctx, ".", os.Stdout); return err }
	switch {
	case *tofu:
		install = func() error { return tools.InstallTofu(ctx, ".", os.Stdout) }
	case *openstack:
		install = func() error { return tools.InstallOpenStack(ctx, ".", os.Stdout) }
	}
	if err := install(); err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}
