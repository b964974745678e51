// Package release_test builds releases, looks into their packages, and installs, upgrades, removes and purges the one
// for Debian on a machine of the lab.
package release_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The releases of the tests: both are of one commit. The older one is built twice, the newer one is signed.
const older, newer = "0.9.1-rc1", "0.9.1"

// releases are the folders of the releases.
var releases struct{ older, again, newer string }

func TestMain(m *testing.M) {
	code := 1
	dir, err := os.MkdirTemp("", "release")
	if err == nil {
		err = buildAll(dir)
	}
	if err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// buildAll builds the releases in two repositories with a copy of this checkout.
func buildAll(dir string) error {
	repository, clone, keys := filepath.Join(dir, "a"), filepath.Join(dir, "other", "b"), filepath.Join(dir, "gpg")
	env := []string{
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org", "GOPROXY=off", "GNUPGHOME=" + keys,
	}
	do := func(dir string, argv ...string) error {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
		return nil
	}
	build := func(dir, version string, more ...string) (string, error) {
		argv := append([]string{"make", "release", "ARCH=" + runtime.GOARCH, "VERSION=" + version}, more...)
		return filepath.Join(dir, "dist", "eiffel-"+version), do(dir, argv...)
	}
	// A release is built without a network, from modules in Go's cache.
	for _, argv := range [][]string{
		{"list", "-deps", "-modfile=lab/tools/sbom/go.mod", "tool"},
		{"list", "-C", "lab/tools/release", "-deps", "./..."},
	} {
		load := exec.Command("go", argv...)
		load.Dir = "../../.."
		if out, err := load.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", load, err, out)
		}
	}
	copied := "git ls-files --cached --others --exclude-standard -z | " +
		"xargs -0 cp --no-dereference --parents --target-directory " + repository
	if err := errors.Join(os.Mkdir(repository, 0o755), os.Mkdir(keys, 0o700)); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return do("../../..", "sh", "-c", copied) },
		func() error { return do(repository, "git", "init", "--quiet") },
		func() error { return do(repository, "git", "add", "--all") },
		func() error { return do(repository, "git", "commit", "--quiet", "--message", "a release") },
		func() error { return do(repository, "git", "tag", "v"+older) },
		func() error { return do(dir, "git", "clone", "--quiet", repository, clone) },
		func() (err error) { releases.older, err = build(repository, older); return err },
		func() (err error) { releases.again, err = build(clone, older); return err },
		func() error { return do(repository, "git", "tag", "--delete", "v"+older) },
		func() error { return do(repository, "git", "tag", "v"+newer) },
		func() error {
			return do(repository, "gpg", "--batch", "--passphrase", "", "--quick-generate-key", "eiffel@example.org",
				"ed25519", "sign", "never")
		},
		func() (err error) {
			releases.newer, err = build(repository, newer, "KEY=eiffel@example.org")
			return err
		},
		func() error { return do(releases.newer, "gpg", "--verify", "SHA256SUMS.asc", "SHA256SUMS") },
		func() error { return do(releases.newer, "gpgconf", "--kill", "all") },
		func() error { return do(releases.newer, "sha256sum", "--check", "--strict", "SHA256SUMS") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if _, err := build(repository, "0.9.2"); err == nil || !strings.Contains(err.Error(), "has no tag v0.9.2") {
		return fmt.Errorf("a release without a tag: %w", err)
	}
	return nil
}

func TestAReleaseIsReproducible(t *testing.T) {
	names := list(t, releases.older)
	if diff := cmp.Diff(names, list(t, releases.again)); diff != "" {
		t.Fatal(diff)
	}
	if !slices.Contains(names, "SHA256SUMS") {
		t.Fatalf("no checksums among %q", names)
	}
	for _, name := range names {
		first, err := os.ReadFile(filepath.Join(releases.older, name))
		second, again := os.ReadFile(filepath.Join(releases.again, name))
		if err := errors.Join(err, again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s has other bytes in another folder", name)
		}
	}
}

func TestOnlyASignedReleaseHasSignatures(t *testing.T) {
	for _, name := range []string{"InRelease", "SHA256SUMS.asc", "eiffel.asc"} {
		if !slices.Contains(list(t, releases.newer), name) {
			t.Errorf("the signed release lacks %s", name)
		}
		if slices.Contains(list(t, releases.older), name) {
			t.Errorf("the unsigned release has %s", name)
		}
	}
}

// installed are some files of each package.
var installed = []string{
	"/etc/eiffel", "/usr/bin/reconfigure", "/usr/lib/systemd/system/reconfigure-worker@.service",
	"/usr/lib/systemd/system/reconfigure-backup@.service", "/usr/lib/systemd/system/reconfigure-backup@.timer",
	"/usr/share/bash-completion/completions/reconfigure", "/usr/share/doc/eiffel/copyright",
	"/usr/share/doc/eiffel/docs/guides/worker.md", "/usr/share/doc/eiffel/monitoring/rules.yml",
	"/usr/share/doc/eiffel/third-party-licenses.txt.gz",
	"/usr/share/fish/vendor_completions.d/reconfigure.fish", "/usr/share/man/man1/reconfigure.1.gz",
	"/usr/share/polkit-1/rules.d/50-reconfigure-worker.rules", "/usr/share/zsh/vendor-completions/_reconfigure",
}

func TestThePackageForDebian(t *testing.T) {
	deb := one(t, releases.older, "*.deb")
	if want := "eiffel_0.9.1~rc1_" + runtime.GOARCH + ".deb"; filepath.Base(deb) != want {
		t.Errorf("its name is %s, not %s", filepath.Base(deb), want)
	}
	for field, want := range map[string]string{
		"Package": "eiffel", "Version": "0.9.1~rc1", "Architecture": runtime.GOARCH, "Section": "admin",
		"Depends": "adduser, ansible-core (>= 2.14), openssh-client, openssh-server",
	} {
		if got := output(t, "dpkg-deb", "--field", deb, field); got != want {
			t.Errorf("%s: %q, not %q", field, got, want)
		}
	}
	dir := t.TempDir()
	output(t, "dpkg-deb", "--raw-extract", deb, dir)
	for _, path := range installed {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Error(err)
		}
	}
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", deb)) {
		mode, owner := strings.Fields(line)[0], strings.Fields(line)[1]
		if owner != "root/root" || strings.ContainsAny(mode[1:], "sStT") || mode[5] == 'w' || mode[8] == 'w' {
			t.Errorf("not safe: %s", line)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		output(t, "sh", "-n", filepath.Join(dir, "DEBIAN", script))
	}
	output(t, "sh", "-c", "cd "+dir+" && md5sum --check --quiet --strict DEBIAN/md5sums")
	said := output(t, filepath.Join(dir, "usr/bin/reconfigure"), "version")
	if !strings.HasPrefix(said, "reconfigure v"+older+" ") {
		t.Errorf("the program says %q", said)
	}
	for name, command := range map[string]string{
		"worker": "worker --stay", "backup": "backup $BACKUP_OPTIONS %S/eiffel-backup/%i",
	} {
		text, err := os.ReadFile(filepath.Join(dir, "usr/lib/systemd/system/reconfigure-"+name+"@.service"))
		if err != nil || !strings.Contains(string(text), "\nExecStart=/usr/bin/reconfigure --dir %f "+command+"\n") {
			t.Errorf("the unit: %v\n%s", err, text)
		}
	}
}

// TestTheManualPage shows it with man, which must find no fault in it.
func TestTheManualPage(t *testing.T) {
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("it needs man")
	}
	dir := t.TempDir()
	output(t, "dpkg-deb", "--extract", one(t, releases.older, "*.deb"), dir)
	man := exec.CommandContext(t.Context(), "man", "--warnings", "--local-file",
		filepath.Join(dir, "usr/share/man/man1/reconfigure.1.gz"))
	man.Env = append(os.Environ(), "MANWIDTH=1000")
	var page, faults bytes.Buffer
	man.Stdout, man.Stderr = &page, &faults
	if err := man.Run(); err != nil || faults.Len() > 0 {
		t.Fatalf("%s: %v\n%s", man, err, faults.String())
	}
	for _, want := range []string{
		`^status \[options\] \[HOSTLIST\.\.\.\]`, `^ +--output FORMAT, -o`, `^image create \[options\] NODE`,
		`^ +130 +interrupted`,
	} {
		if !regexp.MustCompile("(?m)" + want).Match(page.Bytes()) {
			t.Errorf("no match for %q in:\n%s", want, page.String())
		}
	}
}

func TestThePackageForRPM(t *testing.T) {
	rpm := one(t, releases.older, "*.rpm")
	files := strings.Split(output(t, "rpm", "--query", "--package", "--list", rpm), "\n")
	for _, path := range installed {
		if !slices.Contains(files, path) {
			t.Errorf("it lacks %s", path)
		}
	}
	for query, want := range map[string]string{
		"--requires": "ansible-core >= 2.14\nopenssh-clients\nopenssh-server\nshadow-utils",
		"--queryformat=%{NEVRA}": "eiffel-0.9.1~rc1-1." +
			map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH],
		"--scripts": "useradd --system",
	} {
		if got := output(t, "rpm", "--query", "--package", query, rpm); !strings.Contains(got, want) {
			t.Errorf("%s: %q, not %q", query, got, want)
		}
	}
	output(t, "rpm", "--checksig", rpm)
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// one returns the only file that a pattern matches.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s in %s: %q, %v", pattern, dir, found, err)
	}
	return found[0]
}

func output(t *testing.T, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, said.String())
	}
	return strings.TrimSpace(string(out))
}
