package slurm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// tools is a folder of shell scripts that stand in for Slurm's tools. Each records its arguments.
type tools struct {
	t   *testing.T
	dir string
}

func newTools(t *testing.T, scripts map[string]string) tools {
	t.Helper()
	tools := tools{t, t.TempDir()}
	for name, script := range scripts {
		tools.set(name, script)
	}
	return tools
}

func (s tools) set(name, script string) {
	s.t.Helper()
	text := "#!/bin/sh\necho \"${0##*/} $*\" >>" + filepath.Join(s.dir, "calls") + "\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o700); err != nil {
		s.t.Fatal(err)
	}
}

// calls returns the tools called since the last time, with their arguments.
func (s tools) calls() []string {
	s.t.Helper()
	path := filepath.Join(s.dir, "calls")
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		s.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// run runs a command where the tools are.
func (s tools) run(ctx context.Context, cmd process.Cmd) error {
	if path := filepath.Join(s.dir, cmd.Path); !strings.Contains(cmd.Path, "/") {
		if _, err := os.Stat(path); err == nil {
			cmd.Path = path
		}
	}
	cmd.Env = []string{"PATH=" + s.dir + ":/usr/bin:/bin"}
	return process.Run(ctx, cmd)
}

// print returns a script that prints a file of recorded output.
func print(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return "cat '" + path + "'"
}

const (
	noJSON      = `echo "$0: unrecognized option '--json'" >&2; exit 1`
	unreachably = `echo "slurm_load_node error: Unable to contact slurm controller (connect failure)" >&2; exit 1`
)

// forced is a POSIX shell command that runs slurm_commands.py as sshd does, with a line in its variable $1.
func forced(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../slurmscripts/slurm_commands.py")
	if err == nil {
		_, err = os.Stat(path) // cached test results depend on the content of this file
	}
	if err != nil {
		t.Fatal(err)
	}
	return "exec '" + path + `' "$1"`
}

// client uses the tools: on this host, or by SSH over one connection.
func (s tools) client(keep bool, ssh ...string) *Client {
	if len(ssh) == 0 {
		ssh = []string{"/bin/sh", "-c", `set -- "$*"; ` + forced(s.t), "sh"}
	}
	c := New(Config{SSH: ssh, Keep: keep, Run: s.run, LaunchAtOnce: true})
	s.t.Cleanup(c.Close)
	return c
}
