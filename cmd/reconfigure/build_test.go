package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// TestTheVersionIsDirtyOnlyForChangesOfCode builds a program in a separate repository with the Makefile.
func TestTheVersionIsDirtyOnlyForChangesOfCode(t *testing.T) {
	needs.Lab(t)
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(argv ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", argv, err, out)
		}
		return string(out)
	}
	write("Makefile", string(makefile))
	write("go.mod", "module example.org/tool\n")
	write(".gitignore", "bin/\n")
	write("cmd/reconfigure/main.go", "package main\n\nfunc main() {}\n")
	write("group_vars/all.yml", "cluster_name: eiffel\n")
	run("git", "init", "--quiet")
	run("git", "add", "--all")
	run("git", "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "--quiet", "--message=first")
	dirty := func() bool {
		t.Helper()
		run("make", "build")
		said := run("go", "version", "-m", "bin/reconfigure")
		if !strings.Contains(said, "vcs.modified=") {
			t.Fatalf("the program does not say what it was built from:\n%s", said)
		}
		return strings.Contains(said, "vcs.modified=true")
	}
	write("group_vars/all.yml", "cluster_name: mine\n")
	if dirty() {
		t.Error("it is dirty after an edit of the declaration")
	}
	if said := run("git", "status", "--porcelain"); said != " M group_vars/all.yml\n" {
		t.Errorf("git status says %q", said)
	}
	write("cmd/reconfigure/main.go", "package main\n\nfunc main() { println() }\n")
	if !dirty() {
		t.Error("it is not dirty after an edit of the code")
	}
}
