package tools

import (
	"context"
	"fmt"
	"io"

	"github.com/eiffel-hpc/eiffel/lab/image"
)

// InstallSystemd builds the images with systemd, each in about a minute, and downloads packages for control hosts.
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
	generation := func(release, dir, archive string) []step {
		b := image.Base{Release: release, Systemd: true}
		return []step{
			{
				"base image of " + release + " with systemd",
				func() bool { return b.IsCurrent(dir) },
				func(ctx context.Context) error { return b.Build(ctx, dir) },
			},
			{
				"packages for control hosts of " + release,
				func() bool { return image.ArchiveIsCurrent(archive, dir, image.ControlHost()) },
				func(ctx context.Context) error { return image.BuildArchive(ctx, archive, dir, image.ControlHost()) },
			},
		}
	}
	return append(generation("bookworm", p.Systemd, p.SystemdArchive),
		generation("trixie", p.Trixie, p.TrixieArchive)...)
}
