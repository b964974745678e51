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
	"strings"
)

// suite is the Debian release of the base: the one whose Slurm (22.05) and
// OpenSSH the roles are tested with.
const suite = "bookworm"

// packages returns the base's packages beyond Debian's essential ones. No package can be installed in a machine later,
// since it reaches no mirror.
func packages() []string {
	return []string{
		"sysvinit-core", "openssh-server", "sudo",
		"python3", "python3-apt", // Ansible's modules
		"munge", "slurmd", "slurmctld", "slurm-client", "nfs-common",
		"iproute2", "iputils-ping", "procps", "ca-certificates",
	}
}

// stamp is the file of a base with the digest of its recipe.
const stamp = "usr/lib/lab/recipe"

var (
	//go:embed rootfs
	rootfs embed.FS
	//go:embed customise.sh
	customise []byte
)

// BaseIsCurrent reports whether dir has a complete base that was made by this package's recipe.
func BaseIsCurrent(dir string) bool {
	found, err := os.ReadFile(filepath.Join(dir, stamp))
	return err == nil && string(found) == recipe()
}

// BuildBase makes the base and replaces dir by it. It needs root, mmdebstrap and the network, and about 40 s. dir is
// replaced in one step at the end, so that a lab never uses a partial base; machines that run on the old one lose it.
// An interrupted build leaves dir+".new", which the next one removes.
func BuildBase(ctx context.Context, dir string) error {
	fresh, old := dir+".new", dir+".old"
	if err := errors.Join(os.RemoveAll(fresh), os.RemoveAll(old), os.MkdirAll(filepath.Dir(dir), 0o755)); err != nil {
		return fmt.Errorf("build base image: %w", err)
	}
	if err := bootstrap(ctx, fresh); err != nil {
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

func bootstrap(ctx context.Context, dir string) error {
	sources, err := hostSources("/etc/apt")
	if err != nil {
		return err
	}
	if err := run(bootstrapCommand(ctx, dir, sources)); err != nil {
		return err
	}
	if err := copyEmbedded(dir); err != nil {
		return err
	}
	shell := exec.CommandContext(ctx, "sh", "-s", dir)
	shell.Stdin = bytes.NewReader(customise)
	if err := run(shell); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, stamp), []byte(recipe()))
}

// bootstrapCommand uses the host's Debian mirrors if there are any, else mmdebstrap's default.
func bootstrapCommand(ctx context.Context, dir string, sources []string) *exec.Cmd {
	argv := append(bootstrapOptions(), suite, dir)
	if len(sources) > 0 {
		argv = append(argv, "-")
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", argv...)
	cmd.Stdin = strings.NewReader(strings.Join(sources, "\n") + "\n")
	return cmd
}

func bootstrapOptions() []string {
	return []string{
		"--quiet", "--mode=root", "--variant=minbase",
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--include=" + strings.Join(packages(), ","),
	}
}

// recipe returns a digest of all that a base depends on, except the mirror's state.
func recipe() string {
	sum := sha256.New()
	fmt.Fprintln(sum, suite, bootstrapOptions())
	sum.Write(customise)
	for path, content := range embedded() {
		fmt.Fprintln(sum, path, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)) + "\n"
}

func copyEmbedded(dir string) error {
	for path, content := range embedded() {
		if err := writeFile(filepath.Join(dir, path), content); err != nil {
			return err
		}
	}
	return nil
}

// embedded ranges over the files to add to the base, path below the root to
// content, in lexical order.
func embedded() func(yield func(string, []byte) bool) {
	return func(yield func(string, []byte) bool) {
		root, err := fs.Sub(rootfs, "rootfs")
		if err != nil {
			panic(err) // the folder is compiled in
		}
		walk := func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(root, path)
			if err != nil {
				return err
			}
			if !yield(path, content) {
				return fs.SkipAll
			}
			return nil
		}
		if err := fs.WalkDir(root, ".", walk); err != nil {
			panic(err)
		}
	}
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
