package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// debianPackages returns the packages that the lab and its tests need on the host.
func debianPackages() []string {
	return []string{
		"ansible-core", "openssh-client", "openssh-server",
		"mmdebstrap", "util-linux", "tar", "procps",
		"postgresql",
		"prometheus",                           // its promtool checks the rules
		"chromium",                             // opens the page in tests
		"systemd",                              // checks the unit file; it does not run
		"bash", "fish", "man-db", "rpm", "zsh", // check what a release has
	}
}

// packagesStep is a step that installs packages without starting their services.
func packagesStep(name string, packages []string) step {
	return step{
		name,
		func() bool { return packagesPresent(packages) },
		func(ctx context.Context) error { return installPackages(ctx, packages) },
	}
}

func packagesPresent(packages []string) bool {
	// dpkg-query fails if one of them is unknown.
	argv := append([]string{"--show", "--showformat=${db:Status-Abbrev}\n"}, packages...)
	out, err := exec.Command("dpkg-query", argv...).Output()
	if err != nil {
		return false
	}
	for status := range strings.Lines(string(out)) {
		if strings.TrimSpace(status) != "ii" {
			return false
		}
	}
	return true
}

func installPackages(ctx context.Context, packages []string) error {
	return withoutServices("/usr/sbin/policy-rc.d", func() error {
		if err := apt(ctx, "update", "--quiet"); err != nil {
			return err
		}
		return apt(ctx, append([]string{"install", "--yes", "--quiet", "--no-install-recommends"}, packages...)...)
	})
}

func apt(ctx context.Context, argv ...string) error {
	// Another apt-get may be running, from another checkout or an administrator.
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"--option", "DPkg::Lock::Timeout=600"}, argv...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w:\n%s", cmd, err, out)
	}
	return nil
}

// policy forbids the start of services by packages; see invoke-rc.d(8).
const policy = `#!/bin/sh
# eiffel's lab installs packages: no service starts meanwhile.
exit 101
`

// withoutServices runs f while the policy file at path forbids the start of services, and then restores the file. It
// first restores the file of a killed run.
func withoutServices(path string, f func() error) (err error) {
	saved := path + ".eiffel-saved"
	if err := restorePolicy(path, saved); err != nil {
		return err
	}
	if err := os.Rename(path, saved); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("save %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, restorePolicy(path, saved)) }()
	if err := os.WriteFile(path, []byte(policy), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f()
}

func restorePolicy(path, saved string) error {
	if hasContent(path, policy) {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	if err := os.Rename(saved, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore %s: %w", path, err)
	}
	return nil
}
