package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// makeIn runs make in a folder, with the repository's Makefile, and returns what it printed.
func makeIn(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	makefile, err := filepath.Abs(filepath.Join("..", "..", "Makefile"))
	ok(t, err)
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--file", makefile}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestTheBuildIsReproducible builds a tagged commit in two folders. Two clones of the same commit must give the same
// bytes, so that anyone can check from which source a binary was built.
func TestTheBuildIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the tool twice")
	}
	dir := t.TempDir()
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a",
			"GIT_COMMITTER_EMAIL=a@example.org")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	first := filepath.Join(dir, "first")
	for _, part := range []string{"cmd", "reconfigure", "terraform", "ansible", "slurmscripts", "systemd"} {
		ok(t, os.CopyFS(filepath.Join(first, part), os.DirFS(filepath.Join("..", "..", part))))
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		ok(t, err)
		ok(t, os.WriteFile(filepath.Join(first, name), text, 0o600))
	}
	ok(t, os.WriteFile(filepath.Join(first, ".gitignore"), []byte("/bin/\n"), 0o600))
	git(first, "init", "--quiet")
	git(first, "add", ".")
	git(first, "commit", "--quiet", "--message", "a release")
	git(first, "tag", "v0.9.8")
	second := filepath.Join(dir, "another", "second")
	git(dir, "clone", "--quiet", first, second)

	var builds [2][]byte
	for i, checkout := range []string{first, second} {
		if out, err := makeIn(t, checkout, nil, "build"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		binary := filepath.Join(checkout, "bin", "reconfigure")
		var err error
		builds[i], err = os.ReadFile(binary)
		ok(t, err)
		out, err := exec.CommandContext(t.Context(), binary, "version").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "reconfigure v0.9.8 (") {
			t.Errorf("version: %s, %v; want that of the tag", out, err)
		}
	}
	if !bytes.Equal(builds[0], builds[1]) {
		t.Error("the same commit in two folders gives two binaries")
	}
	if bytes.Contains(builds[0], []byte(dir)) {
		t.Error("the binary has paths of this machine")
	}
}

// TestLintSaysWhetherVulnerabilitiesWereLookedFor runs the target with a go command that answers as govulncheck does.
func TestLintSaysWhetherVulnerabilitiesWereLookedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		prints string
		code   string
		want   string
		fails  bool
	}{
		"none are known": {"No vulnerabilities found.", "0", "No vulnerabilities found.", false},
		"some are known": {"Vulnerability #1: GO-2026-0001", "1", "Vulnerability #1", true},
		"the database cannot be reached": {"govulncheck: fetching vulnerabilities: no such host", "1",
			"NOT CHECKED for known vulnerabilities", false},
		"the code does not load": {"govulncheck: loading packages: there are errors", "1", "loading packages", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := "#!/bin/sh\n[ \"$1\" = run ] || exit 0\necho '" + tc.prints + "' >&2\nexit " + tc.code + "\n"
			ok(t, os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o755))
			out, err := makeIn(t, dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "verify")
			if (err != nil) != tc.fails || !strings.Contains(out, tc.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestTheServiceIsInstalledForTheOwnerOfTheCheckout(t *testing.T) {
	dir := t.TempDir()
	checkout, err := filepath.Abs(filepath.Join("..", ".."))
	ok(t, err)
	if out, err := makeIn(t, checkout, nil, "install-service", "DESTDIR="+dir, "OWNER=slurmadm"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for file, want := range map[string]string{
		"systemd/system/reconfigure-worker@.service":   "\nUser=slurmadm\n",
		"systemd/system/reconfigure-backup@.service":   "\nUser=slurmadm\n",
		"systemd/system/reconfigure-backup@.timer":     "\nOnCalendar=daily\n",
		"polkit-1/rules.d/50-reconfigure-worker.rules": `subject.user == "slurmadm"`,
	} {
		text, err := os.ReadFile(filepath.Join(dir, "etc", file))
		if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), `"eiffel"`) {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
}
