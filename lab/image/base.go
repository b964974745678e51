package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Base describes the lowest layer of images.
type Base struct {
	// Release is Debian's: "bookworm" (Slurm 22.05, systemd 252) or "trixie" (Slurm 24.11, systemd 257).
	Release string
	// Systemd says that PID 1 is systemd, with D-Bus and logind; otherwise it is sysvinit.
	Systemd bool
	// Bare makes the base like Debian's cloud images: systemd, sshd and cloud-init, which makes the login user and
	// the host keys, but no package that the playbooks install.
	Bare bool
}

// DefaultBase is the base of the images of most labs. It is the smallest, and boots fastest.
func DefaultBase() Base { return Base{Release: "bookworm"} }

// packages returns the base's packages beyond Debian's essential ones. A machine reaches no mirror: the packages that
// it installs later are in its image ([BuildArchive]).
func (b Base) packages() []string {
	if b.Bare {
		return []string{
			"systemd-sysv", "dbus", "libpam-systemd", "cloud-init", "openssh-server", "sudo", "python3",
			"iproute2", "procps", "ca-certificates",
		}
	}
	init := []string{"sysvinit-core"}
	if b.Systemd {
		init = []string{"systemd-sysv", "dbus", "libpam-systemd"}
	}
	return append(init,
		"openssh-server", "sudo",
		"python3", "python3-apt", // for Ansible's modules
		"munge", "slurmd", "slurmctld", "slurm-client", "nfs-common",
		"iproute2", "iputils-ping", "procps",
	)
}

// stamp is the file of a base with the digest of its recipe.
const stamp = "usr/lib/lab/recipe"

var (
	//go:embed rootfs
	rootfs embed.FS
	//go:embed customise.sh
	customise []byte
	//go:embed systemd
	rootfsSystemd embed.FS
	//go:embed customise-systemd.sh
	customiseSystemd []byte
	//go:embed bare
	rootfsBare embed.FS
	//go:embed customise-bare.sh
	customiseBare []byte
)

// IsCurrent reports whether dir has a complete base made by this package's recipe.
func (b Base) IsCurrent(dir string) bool {
	found, err := os.ReadFile(filepath.Join(dir, stamp))
	return err == nil && string(found) == b.recipe()
}

// Build makes the base and replaces dir with it. It needs root, mmdebstrap, the network and about 40 s. It replaces dir
// in one step at the end, so that a lab never uses a partial base; machines that run on the old base lose it. An
// interrupted build leaves dir+".new", which the next build removes.
func (b Base) Build(ctx context.Context, dir string) error {
	fresh, old := dir+".new", dir+".old"
	if err := errors.Join(os.RemoveAll(fresh), os.RemoveAll(old), os.MkdirAll(filepath.Dir(dir), 0o755)); err != nil {
		return fmt.Errorf("build base image: %w", err)
	}
	if err := b.bootstrap(ctx, fresh); err != nil {
		return errors.Join(fmt.Errorf("build base image: %w", err), os.RemoveAll(fresh))
	}
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("build base image: %w", err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return fmt.Errorf("build base image: %w", err)
	}
	return os.RemoveAll(old)
}

func (b Base) bootstrap(ctx context.Context, dir string) error {
	sources, err := hostSources("/etc/apt", b.Release)
	if err != nil {
		return err
	}
	if err := run(b.bootstrapCommand(ctx, dir, sources)); err != nil {
		return err
	}
	if err := b.copyEmbedded(dir); err != nil {
		return err
	}
	shell := exec.CommandContext(ctx, "sh", "-s", dir)
	shell.Stdin = bytes.NewReader(b.customise())
	if err := run(shell); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, stamp), []byte(b.recipe()))
}

// bootstrapCommand uses the host's Debian mirrors if there are any, otherwise mmdebstrap's default.
func (b Base) bootstrapCommand(ctx context.Context, dir string, sources []string) *exec.Cmd {
	argv := append(b.bootstrapOptions(), b.Release, dir)
	if len(sources) > 0 {
		argv = append(argv, "-")
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", argv...)
	cmd.Stdin = strings.NewReader(strings.Join(sources, "\n") + "\n")
	return cmd
}

// withoutDocuments makes dpkg leave out the documents of packages. mmdebstrap has an option for it, which takes a
// quarter of the CPU time of a build: it filters each of the essential packages in Python.
const withoutDocuments = `set -e
for dir in doc man locale; do
	echo "path-exclude=/usr/share/$dir/*" >>"$1/etc/dpkg/dpkg.cfg.d/lab"
	find "$1/usr/share/$dir" -mindepth 1 -delete
done`

func (b Base) bootstrapOptions() []string {
	return []string{
		"--quiet", "--mode=root", "--variant=minbase",
		"--dpkgopt=force-unsafe-io", // an interrupted build begins again
		"--essential-hook=" + withoutDocuments,
		"--include=" + strings.Join(b.packages(), ","),
	}
}

// recipe returns a digest of everything on which a base depends, except the mirror's state.
func (b Base) recipe() string {
	sum := sha256.New()
	fmt.Fprintln(sum, b.Release, b.bootstrapOptions())
	sum.Write(b.customise())
	for path, content := range b.embedded() {
		fmt.Fprintln(sum, path, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)) + "\n"
}

func (b Base) copyEmbedded(dir string) error {
	for path, content := range b.embedded() {
		if err := writeFile(filepath.Join(dir, path), content); err != nil {
			return err
		}
	}
	return nil
}

// customise returns the script that turns the packages' files into an image.
func (b Base) customise() []byte {
	if b.Bare {
		return customiseBare
	}
	if b.Systemd {
		return slices.Concat(customise, customiseSystemd)
	}
	return customise
}

// embedded ranges over the files to add to the base, path below the root to
// content, in lexical order.
func (b Base) embedded() func(yield func(string, []byte) bool) {
	return func(yield func(string, []byte) bool) {
		if b.Bare {
			walkFiles(rootfsBare, "bare", yield)
			return
		}
		if walkFiles(rootfs, "rootfs", yield) && b.Systemd {
			walkFiles(rootfsSystemd, "systemd", yield)
		}
	}
}

// walkFiles yields all files below the folder dir, and reports whether all were wanted.
func walkFiles(files embed.FS, dir string, yield func(string, []byte) bool) bool {
	root, err := fs.Sub(files, dir)
	if err != nil {
		panic(err) // the folder is compiled into the program
	}
	all := true
	walk := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		if all = yield(path, content); !all {
			return fs.SkipAll
		}
		return nil
	}
	if err := fs.WalkDir(root, ".", walk); err != nil {
		panic(err)
	}
	return all
}

// run runs a command and adds the end of its output to its error.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		const keep = 2000
		return fmt.Errorf("%s: %w:\n%s", filepath.Base(cmd.Path), err, out[max(0, len(out)-keep):])
	}
	return nil
}
