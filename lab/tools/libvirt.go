package tools

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"

	"github.com/eiffel-hpc/eiffel/lab/libvirtd"
)

// LibvirtProviderVersion is the version of Terraform's provider for libvirt that its root module admits.
const LibvirtProviderVersion = "0.8.3"

const libvirtProviderModule = "github.com/dmacvicar/terraform-provider-libvirt"

// libvirtPackages returns the packages of a host with libvirt, and those that its provider needs on the control host.
func libvirtPackages() []string {
	return []string{
		"libvirt-daemon", "libvirt-daemon-driver-qemu", "qemu-system-x86", "qemu-utils", "dnsmasq-base",
		"genisoimage", "xsltproc", "extlinux", "syslinux-common", "fdisk",
	}
}

// libvirtProvider returns the provider's path in a filesystem mirror.
func libvirtProvider(plugins string) string {
	return filepath.Join(plugins, "registry.terraform.io", "dmacvicar", "libvirt", LibvirtProviderVersion,
		runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-libvirt_v"+LibvirtProviderVersion)
}

// InstallLibvirt installs the programs for tests with virtual machines: Debian's libvirt and QEMU, without starting
// services, Terraform's provider, and a disk image. That takes minutes.
func InstallLibvirt(ctx context.Context, checkout string, progress io.Writer) error {
	p, err := paths(checkout)
	if err != nil {
		return err
	}
	return install(ctx, checkout, progress, append(chains(checkout, p), libvirtSteps(checkout, p)))
}

// FindLibvirt is [Find] for a test on virtual machines.
func FindLibvirt(checkout string) (Paths, error) {
	p, err := Find(checkout)
	if err != nil {
		return Paths{}, err
	}
	for _, s := range libvirtSteps(checkout, p) {
		if !s.present() {
			return Paths{}, fmt.Errorf("missing or out of date: %s; run \"make tools-libvirt\"", s.name)
		}
	}
	return p, nil
}

func libvirtSteps(checkout string, p Paths) []step {
	provider := libvirtProvider(p.Plugins)
	return []step{
		packagesStep("libvirt and QEMU", libvirtPackages()),
		{
			"terraform-provider-libvirt " + LibvirtProviderVersion,
			func() bool { return builtFrom(provider, libvirtProviderModule, LibvirtProviderVersion) },
			func(ctx context.Context) error {
				return build(ctx, filepath.Join(checkout, "lab", "tools", "libvirt"), libvirtProviderModule, provider)
			},
		},
		{
			"disk image",
			func() bool { return libvirtd.DiskIsCurrent(p.Disk) },
			func(ctx context.Context) error { return libvirtd.BuildDisk(ctx, p.Disk) },
		},
	}
}
