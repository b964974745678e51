package tools

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/eiffel-hpc/eiffel/lab/image"
)

// InstallSystemd builds the images with systemd and the one without Slurm, each in about a minute, and downloads
// packages for control hosts and bare machines.
func InstallSystemd(ctx context.Context, checkout string, progress io.Writer) error {
	p, err := paths(checkout)
	if err != nil {
		return err
	}
	return install(ctx, checkout, progress, append(chains(checkout, p), systemdChains(p)...))
}

// FindSystemd is [Find] for a test that needs the images with systemd too.
func FindSystemd(checkout string) (Paths, error) {
	p, err := Find(checkout)
	if err != nil {
		return Paths{}, err
	}
	for _, s := range slices.Concat(systemdChains(p)...) {
		if !s.present() {
			return Paths{}, fmt.Errorf("missing or out of date: %s; run \"make tools-systemd\"", s.name)
		}
	}
	return p, nil
}

func systemdChains(p Paths) []chain {
	base := func(what, dir string, b image.Base) step {
		return step{
			"base image of " + b.Release + " " + what,
			func() bool { return b.IsCurrent(dir) },
			func(ctx context.Context) error { return b.Build(ctx, dir) },
		}
	}
	packages := func(what, archive, dir string, names image.Packages) step {
		return step{
			"packages for " + what,
			func() bool { return image.ArchiveIsCurrent(archive, dir, names) },
			func(ctx context.Context) error { return image.BuildArchive(ctx, archive, dir, names) },
		}
	}
	return []chain{{
		base("with systemd", p.Systemd, image.Base{Release: "bookworm", Systemd: true}),
		packages("control hosts of bookworm", p.SystemdArchive, p.Systemd, image.ControlHost()),
	}, {
		base("with systemd", p.Trixie, image.Base{Release: "trixie", Systemd: true}),
		packages("control hosts of trixie", p.TrixieArchive, p.Trixie, image.ControlHost()),
	}, {
		base("without Slurm", p.Bare, image.Base{Release: "bookworm", Bare: true}),
		packages("bare machines", p.BareArchive, p.Bare, image.ComputeNode()),
	}}
}
