// Command install installs the lab's tools in the working folder; with --tofu, OpenTofu too; with --systemd, images
// with systemd too; with --libvirt, libvirt, QEMU and a disk image too; with --vsphere, Terraform's provider for
// vSphere too. With --openstack it installs only Debian's packages of OpenStack. See package tools.
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
	systemd := flag.Bool("systemd", false, "build images with systemd too")
	libvirt := flag.Bool("libvirt", false, "install libvirt, QEMU and a disk image too")
	vsphere := flag.Bool("vsphere", false, "install Terraform's provider for vSphere too")
	openstack := flag.Bool("openstack", false, "install Debian's packages of OpenStack, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *tofu, *systemd, *libvirt, *vsphere, *openstack); err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, tofu, systemd, libvirt, vsphere, openstack bool) error {
	if openstack {
		return tools.InstallOpenStack(ctx, ".", os.Stdout)
	}
	if systemd { // first, since its images take longest: they are built beside what all installations share
		if err := tools.InstallSystemd(ctx, ".", os.Stdout); err != nil {
			return err
		}
	}
	_, err := tools.Install(ctx, ".", os.Stdout)
	if err == nil && libvirt {
		err = tools.InstallLibvirt(ctx, ".", os.Stdout)
	}
	if err == nil && vsphere {
		err = tools.InstallVSphere(ctx, ".", os.Stdout)
	}
	if err == nil && tofu {
		err = tools.InstallTofu(ctx, ".", os.Stdout)
	}
	return err
}
