package slurmexec_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/slurmexec"
)

// probe prints its arguments and its environment. It is Python, because a Go program or a shell changes descriptors and
// the signal mask before it runs our code.
const probe = `#!/usr/bin/python3 -IS
import json, os, signal, sys
def closed(fd):
    try: os.fstat(fd)
    except OSError: return True
    return False
closed = [fd for fd in range(20) if closed(fd)]
resume = os.environ.get("SLURM_RESUME_FILE")
with open(__file__ + ".json", "w") as out:
    json.dump({
        "args": sys.argv[1:],
        "env": sorted(v.split("=")[0] for v in open("/proc/self/environ").read().split("\0") if v),
        "conf": os.environ["SLURM_CONF"],
        "closed": closed,
        "blocked": sorted(signal.Signals(s).name for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "own_group": os.getpgrp() == os.getpid(),
        "same_session": os.getsid(0) == os.getsid(os.getppid()),
        "resume": resume and open(resume).read(),
        "resume_is": resume and os.readlink(resume),
        "resume_held_by_parent": bool(resume) and resume.startswith("/proc/%d/fd/" % os.getppid()),
    }, out)
sys.exit(7)
`

type report struct {
	Args               []string
	Env                []string
	Conf               string
	Closed             []int
	Blocked            []string
	OwnGroup           bool `json:"own_group"`
	SameSession        bool `json:"same_session"`
	Resume             string
	ResumeIs           string `json:"resume_is"`
	ResumeHeldByParent bool   `json:"resume_held_by_parent"`
}

func build(t *testing.T) slurmexec.Launcher {
	t.Helper()
	l, err := slurmexec.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func script(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAProgramStartsAsBySlurmctld(t *testing.T) {
	program := script(t, probe)
	resume := filepath.Join(t.TempDir(), "resume.json")
	const nodes = `{"jobs":[{"job_id":4,"nodes":"c[001-002]"}],"all_nodes":"c[001-002]"}`
	if err := os.WriteFile(resume, []byte(nodes), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := build(t).Command(t.Context(), slurmexec.Options{Conf: "/etc/slurm/slurm.conf", ResumeFile: resume}, program,
		"c[001-002]")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit status %d (%v), want the program's 7\n%s", code, err, out)
	}
	want := report{
		Args: []string{"c[001-002]"},
		Env:  []string{"SLURM_CONF", "SLURM_RESUME_FILE"},
		Conf: "/etc/slurm/slurm.conf",
		Blocked: []string{
			"SIGABRT", "SIGALRM", "SIGCHLD", "SIGHUP", "SIGINT", "SIGPIPE",
			"SIGQUIT", "SIGTERM", "SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGXCPU",
		},
		OwnGroup:           true,
		SameSession:        true,
		Resume:             nodes,
		ResumeIs:           "/memfd:resumeprog (deleted)",
		ResumeHeldByParent: true,
	}
	for fd := range 20 {
		want.Closed = append(want.Closed, fd)
	}
	if diff := cmp.Diff(want, read(t, program)); diff != "" {
		t.Errorf("what the program found (-want +got):\n%s", diff)
	}
}

func TestSuspendHasNoResumeFile(t *testing.T) {
	program := script(t, probe)
	_ = build(t).Command(t.Context(), slurmexec.Options{Conf: "/a"}, program).Run()
	if diff := cmp.Diff([]string{"SLURM_CONF"}, read(t, program).Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestADeadlySignalIsInTheExitStatus(t *testing.T) {
	cmd := build(t).Command(t.Context(), slurmexec.Options{}, script(t, "#!/bin/sh\nkill -9 $$\n"))
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 128+9 {
		t.Errorf("got %v, want exit status 137", err)
	}
}

func TestAMissingProgramIsAnError(t *testing.T) {
	cmd := build(t).Command(t.Context(), slurmexec.Options{}, "/nonexistent")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 126 || len(out) == 0 {
		t.Errorf("got %v and %q, want exit status 126 and a message", err, out)
	}
}

func TestProgramDiesWithTheCommand(t *testing.T) {
	program := script(t, "#!/bin/sh\nexec 1>>\"$0.pid\"\necho $$\nexec sleep 600\n")
	cmd := build(t).Command(t.Context(), slurmexec.Options{}, program)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(waitFor(t, program+".pid"))
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		state, err := os.ReadFile("/proc/" + pid + "/stat")
		if errors.Is(err, fs.ErrNotExist) || strings.Contains(string(state), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s lives on: %s", pid, state)
		}
	}
}

// waitFor returns the content of a file once it has a line.
func waitFor(t *testing.T, path string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		content, _ := os.ReadFile(path)
		if strings.HasSuffix(string(content), "\n") {
			return string(content)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: nothing written", path)
		}
	}
}

func read(t *testing.T, program string) report {
	t.Helper()
	content, err := os.ReadFile(program + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(content, &r); err != nil {
		t.Fatal(err)
	}
	return r
}
