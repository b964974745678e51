package tools

import (
	"context"
	"fmt"
	"io"

	"github.com/eiffel-hpc/eiffel/lab/image"
)

// InstallSystemd builds the images with systemd, each in about a minute, and the packages for the one without Slurm.
func InstallSystemd(ctx context.Context, checkout string, progress io.Writer) error {
	p, err := paths(checkout)
	if err != nil {
		return err
	}
	return install(ctx, checkout, progress, append(steps(checkout, p), systemdSteps(p)...))
}

// FindSystemd is [Find] for a test that needs the images with systemd too.
func FindSystemd(checkout string) (Paths, error) {
	p, err := Find(checkout)
	if err != nil {
		return Paths{}, err
	}
	for _, s := range systemdSteps(p) {
		if !s.present() {
			return Paths{}, fmt.Errorf("missing or out of date: %s; run \"make tools-systemd\"", s.name)
		}
	}
	return p, nil
}

func systemdSteps(p Paths) []step {
	base := func(what, dir string, b image.Base) step {
		return step{
			"base image of " + b.Release + " " + what,
			func() bool { return b.IsCurrent(dir) },
			func(ctx context.Context) error { return b.Build(ctx, dir) },
		}
	}
	return []step{
		base("with systemd", p.Systemd, image.Base{Release: "bookworm", Systemd: true}),
		base("with systemd", p.Trixie, image.Base{Release: "trixie", Systemd: true}),
		base("without Slurm", p.Bare, image.Base{Release: "bookworm", Bare: true}),
		{
			"packages for bare machines",
			func() bool { return image.ArchiveIsCurrent(p.BareArchive, p.Bare, image.ComputeNode()) },
			func(ctx context.Context) error {
				return image.BuildArchive(ctx, p.BareArchive, p.Bare, image.ComputeNode())
			},
		},
	}
}
