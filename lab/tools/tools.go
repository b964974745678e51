package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"github.com/eiffel-hpc/eiffel/lab/image"
)

// Paths are the paths of the tools, all absolute.
type Paths struct {
	// Terraform is the terraform binary. QuickTerraform is the same without TLS between it and its provider, and
	// without the check of the provider's checksum. It starts the provider once for a run.
	Terraform      string
	QuickTerraform string
	// Ansible is the folder of ansible-playbook; empty: it is Debian's. QuickAnsible has one that takes less time.
	Ansible      string
	QuickAnsible string
	// Plugins is a filesystem mirror with the OpenStack provider; TerraformRC is a CLI configuration file that
	// makes Terraform use only this mirror.
	Plugins     string
	TerraformRC string
	// QuickPlugins and QuickTerraformRC are the same for a provider with shortened waits: see Quick.
	QuickPlugins     string
	QuickTerraformRC string
	// ProviderVersion is the version of this provider.
	ProviderVersion string
	// Image is the root file system at the bottom of every machine's image.
	Image string
	// Systemd and Trixie are the same with systemd, for Debian 12 and Debian 13. Only [InstallSystemd] installs
	// them.
	Systemd string
	Trixie  string
	// Disk is a disk image for virtual machines. Only [InstallLibvirt] installs it.
	Disk string
	// Bare is a root file system without the packages of a node. Only [InstallSystemd] installs it.
	Bare string
	// Archive is the folder of packages that machines install themselves: see package image. SystemdArchive and
	// TrixieArchive have the packages that a control host installs on Systemd and Trixie; BareArchive has those of
	// a node on Bare.
	Archive        string
	SystemdArchive string
	TrixieArchive  string
	BareArchive    string
}

// Quick returns p with QuickTerraform, and with a provider that omits the fixed waits before the first poll: ten
// seconds for a server, and five for a port. It is for tests that do not depend on the time of Terraform's results.
func (p Paths) Quick() Paths {
	p.Terraform, p.Plugins, p.TerraformRC = p.QuickTerraform, p.QuickPlugins, p.QuickTerraformRC
	return p
}

// folder is the tools' folder in the checkout.
const folder = ".tools"

func paths(checkout string) (Paths, error) {
	dir, err := filepath.Abs(filepath.Join(checkout, folder))
	if err != nil {
		return Paths{}, fmt.Errorf("find tools: %w", err)
	}
	release, err := selected()
	if err != nil {
		return Paths{}, err
	}
	// Several checkouts may share the tools of one by a symbolic link. All of them must write the same paths to the
	// CLI configuration.
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target
	}
	return Paths{
		ProviderVersion:  release.version,
		Terraform:        filepath.Join(dir, "bin", "terraform"),
		QuickTerraform:   filepath.Join(dir, quickFolder, "terraform"),
		QuickAnsible:     filepath.Join(dir, "ansible"),
		Plugins:          filepath.Join(dir, "plugins"+release.suffix),
		TerraformRC:      filepath.Join(dir, "terraformrc"+release.suffix),
		QuickPlugins:     filepath.Join(dir, "plugins"+release.suffix+"-quick"),
		QuickTerraformRC: filepath.Join(dir, "terraformrc"+release.suffix+"-quick"),
		Image:            filepath.Join(dir, "image", "base"),
		Systemd:          filepath.Join(dir, "image", "systemd"),
		Trixie:           filepath.Join(dir, "image", "trixie"),
		Bare:             filepath.Join(dir, "image", "bare"),
		Disk:             filepath.Join(dir, "image", "disk.qcow2"),
		Archive:          filepath.Join(dir, "archive"),
		SystemdArchive:   filepath.Join(dir, "archive-systemd"),
		TrixieArchive:    filepath.Join(dir, "archive-trixie"),
		BareArchive:      filepath.Join(dir, "archive-bare"),
	}, nil
}

// step is one thing to install.
type step struct {
	name    string
	present func() bool
	install func(context.Context) error
}

// chain is a sequence of steps, each of which needs the one before it.
type chain []step

// chains returns the steps for the demo and the tests. The first chain must be installed before the others.
func chains(checkout string, p Paths) []chain {
	wrapper := func(name string) string { return filepath.Join(checkout, "lab", "tools", name) }
	release := releases()[p.ProviderVersion]
	return []chain{{packagesStep("Debian packages", debianPackages())}, {
		{
			"terraform " + TerraformVersion,
			func() bool { return hasPatch(p.Terraform, terraformModule, terraformPatch) },
			func(ctx context.Context) error { return buildTerraform(ctx, wrapper("terraform"), p.Terraform) },
		},
		hardLink("terraform for tests", p.Terraform, p.QuickTerraform),
		buildAnsible(p.QuickAnsible),
		{
			"terraform-provider-openstack " + release.version,
			func() bool {
				file := release.binary(p.Plugins)
				return builtFrom(file, release.module, release.version) && !release.isQuick(file)
			},
			func(ctx context.Context) error {
				return build(ctx, wrapper(release.wrapper), release.module, release.binary(p.Plugins))
			},
		},
		{
			"terraform-provider-openstack " + release.version + " without its fixed waits",
			func() bool { return release.isQuick(release.binary(p.QuickPlugins)) },
			func(ctx context.Context) error {
				return release.buildQuick(ctx, wrapper(release.wrapper), release.binary(p.QuickPlugins))
			},
		},
		cliConfig("terraformrc", p.TerraformRC, p.Plugins),
		cliConfig("terraformrc-quick", p.QuickTerraformRC, p.QuickPlugins),
	}, {
		{
			"base image",
			func() bool { return image.DefaultBase().IsCurrent(p.Image) },
			func(ctx context.Context) error { return image.DefaultBase().Build(ctx, p.Image) },
		},
		{
			"packages for machines",
			func() bool { return image.ArchiveIsCurrent(p.Archive, p.Image, image.Accounting()) },
			func(ctx context.Context) error {
				return image.BuildArchive(ctx, p.Archive, p.Image, image.Accounting())
			},
		},
	}}
}

// cliConfig is a step that writes a CLI configuration of Terraform.
func cliConfig(name, file, plugins string) step {
	return step{
		name,
		func() bool { return hasContent(file, TerraformRC(plugins)) },
		func(context.Context) error { return writeFile(file, TerraformRC(plugins)) },
	}
}

// Install installs the missing tools in the checkout and writes its progress. It needs root, Go and the network only
// for missing tools. Two installations at once wait for each other; an interrupted one can be repeated.
func Install(ctx context.Context, checkout string, progress io.Writer) (Paths, error) {
	p, err := paths(checkout)
	if err != nil {
		return Paths{}, err
	}
	return p, install(ctx, checkout, progress, chains(checkout, p))
}

// install installs the missing parts: first the first chain, then the others in parallel.
func install(ctx context.Context, checkout string, progress io.Writer, all []chain) (err error) {
	unlock, err := lock(ctx, filepath.Join(checkout, folder), progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	lines := log.New(progress, "", 0) // several goroutines may use it
	if err := all[0].install(ctx, lines); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range all[1:] {
		group.Go(func() error { return c.install(ctx, lines) })
	}
	return group.Wait()
}

func (c chain) install(ctx context.Context, progress *log.Logger) error {
	for _, s := range c {
		if s.present() {
			continue
		}
		start := time.Now()
		progress.Printf("%s: installing …", s.name)
		if err := s.install(ctx); err != nil {
			return fmt.Errorf("install %s: %w", s.name, err)
		}
		progress.Printf("%s: installed in %.0f s", s.name, time.Since(start).Seconds())
	}
	return nil
}

// Find returns the paths of the installed tools, or an error that says what to do. It changes nothing.
func Find(checkout string) (Paths, error) {
	p, err := paths(checkout)
	if err != nil {
		return Paths{}, err
	}
	var missing []string
	for _, s := range slices.Concat(chains(checkout, p)...) {
		if !s.present() {
			missing = append(missing, s.name)
		}
	}
	if len(missing) > 0 {
		return Paths{}, fmt.Errorf("missing or out of date: %s; run \"make tools\"", strings.Join(missing, ", "))
	}
	return p.chosen(checkout)
}

// lock waits until no other process installs into dir.
func lock(ctx context.Context, dir string, progress io.Writer) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make tools folder: %w", err)
	}
	l := flock.New(filepath.Join(dir, "lock"))
	locked, err := l.TryLock()
	if err == nil && !locked {
		fmt.Fprintln(progress, "waiting for another installation …")
		_, err = l.TryLockContext(ctx, time.Second/10)
	}
	if err != nil {
		return nil, fmt.Errorf("lock tools folder: %w", err)
	}
	return l.Unlock, nil
}
