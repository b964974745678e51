package slurmscripts_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const (
	// lists replaces scontrol: it expands one hostlist.
	lists = `#!/bin/sh
case $3 in
node\[01-02\]) printf 'node01\nnode02\n' ;;
*) printf '%s\n' "$3" ;;
esac
`
	passes = "#!/bin/sh\nprintf '%s\\n' \"$SLURM_JOB_NODELIST\" >>\"$(dirname \"$0\")/prologs\"\n"
)

// launching has the scripts with a folder for the nodes that are up.
func launching(t *testing.T) *scripts {
	t.Helper()
	s := install(t)
	s.write("bin/scontrol", lists)
	s.write("own prolog", passes)
	s.do(os.Mkdir(filepath.Join(s.dir, "up"), 0o700))
	// A query to Slurm may outlast the prolog that makes it.
	t.Cleanup(func() { s.until("all processes have ended", func() bool { return !s.busy() }) })
	return s
}

// busy reports whether a process runs from the folder.
func (s *scripts) busy() bool {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	s.do(err)
	return slices.ContainsFunc(lines, func(line string) bool {
		words, _ := os.ReadFile(line)
		return bytes.Contains(words, []byte(s.dir+"/scripts"))
	})
}

// prolog returns the prolog of a job with these nodes, before it starts.
func (s *scripts) prolog(nodes string) *exec.Cmd {
	cmd := exec.CommandContext(s.Context(), filepath.Join(s.dir, "scripts", "launch.sh"))
	cmd.Env = []string{"SLURM_JOB_NODELIST=" + nodes, fmt.Sprint("SLURM_JOB_ID=", s.job)}
	return cmd
}

// begin starts a prolog, and returns a function that returns its result, to be called once.
func (s *scripts) begin(nodes string) func() error {
	s.Helper()
	cmd := s.prolog(nodes)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return func() error {
		err := cmd.Wait()
		if said.Len() > 0 {
			s.Errorf("launch.sh prints %q", said.String())
		}
		return err
	}
}

func (s *scripts) path(node string) string { return filepath.Join(s.dir, "up", node) }

func (s *scripts) has(node string) bool {
	_, err := os.Lstat(s.path(node))
	return err == nil
}

// edit replaces a part of a script, such as one of its times.
func (s *scripts) edit(script, from, to string) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "scripts", script))
	s.do(err)
	if !strings.Contains(string(text), from) {
		s.Fatalf("%s has no %q", script, from)
	}
	s.write("scripts/"+script, strings.ReplaceAll(string(text), from, to))
}

// up runs up.sh, as slurm_commands.py does.
func (s *scripts) up(nodes ...string) {
	s.Helper()
	if out, err := exec.Command(filepath.Join(s.dir, "scripts", "up.sh"), nodes...).Output(); err != nil {
		s.Fatalf("up.sh: %v: %s", err, out)
	}
}

func TestAJobWhoseNodesAreUpStartsAtOnce(t *testing.T) {
	s := launching(t)
	s.write("up/node01", "")
	s.write("up/node02", "")
	for _, nodes := range []string{"node01", "node[01-02]"} {
		if out, err := s.prolog(nodes).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", nodes, err, out)
		}
	}
	if calls := s.calls("sinfo"); len(calls) > 0 {
		t.Errorf("Slurm was asked: %v", calls)
	}
}

func TestAJobWaitsForAllOfItsNodes(t *testing.T) {
	s := launching(t)
	s.write("waiting", "node01 mix#\nnode02 mix#\n")
	first, second := s.begin("node[01-02]"), s.begin("node02")
	s.until("both wait", func() bool { return s.has(".node01") && s.has(".node02") })
	s.up("node02")
	if err := second(); err != nil {
		t.Errorf("the job on node02 alone: %v", err)
	}
	s.until("the file of node02", func() bool { return s.has("node02") && !s.has(".node02") })
	if !s.has(".node01") {
		t.Error("the job on both nodes does not wait for node01")
	}
	s.write("waiting", "node01 mix\nnode02 mix\n") // otherwise its own query may answer
	s.up("node[01-02]")
	if err := first(); err != nil {
		t.Errorf("the job on both nodes: %v", err)
	}
}

// The node comes up just before launch.sh opens the pipe, so that up.sh finds no reader.
func TestALaunchDoesNotWaitAtAPipeThatWasOpened(t *testing.T) {
	s := launching(t)
	s.write("waiting", "node01 mix#\n")
	s.edit("launch.sh", "every=10", "every=300") // so that it does not look again
	s.write("bin/cat", `#!/bin/sh
cd "$(dirname "$0")/.."
touch comes
until [ -e opened ]; do sleep 0.01; done
cd up
/bin/cat "$@" &
touch ../waits
wait $!
`)
	s.write("bin/dd", `#!/bin/sh
/bin/dd "$@"
status=$?
cd "$(dirname "$0")/.."
touch opened
until [ -e waits ]; do sleep 0.01; done
sleep 0.2 # there is no event for the open; if this is too short, the test is only less strict
exit $status
`)
	end, ended := s.begin("node01"), make(chan error, 1)
	go func() { ended <- end() }()
	s.until("it is about to open the pipe", func() bool { _, err := os.Stat(filepath.Join(s.dir, "comes")); return err == nil })
	s.up("node01")
	s.until("the job starts", func() bool { return len(ended) > 0 })
	s.do(<-ended)
}

// Nobody calls up.sh for a node that was already up, or while no worker runs.
func TestAWaitingJobAsksSlurm(t *testing.T) {
	s := launching(t)
	s.write("waiting", "node01 idle~\nnode01 idle\nnode03 alloc\nnode04 mix*\nnode05 down\nnode06 alloc#\n")
	if err := s.begin("node01")(); err != nil {
		t.Error(err)
	}
	s.until("both files", func() bool { return s.has("node01") && s.has("node03") })
	for _, node := range []string{"node04", "node05", "node06"} {
		if s.has(node) {
			t.Errorf("%s counts as up", node)
		}
	}
	if err := s.begin("node03")(); err != nil {
		t.Error(err)
	}
	s.up() // again, too early
	if calls := s.calls("sinfo"); len(calls) != 1 {
		t.Errorf("Slurm was asked %d times", len(calls))
	}
}

func TestANodeThatIsSuspendedIsAwaitedAgain(t *testing.T) {
	s := launching(t)
	s.up("node[01-02]")
	s.write("up/node03", "")
	s.start("suspend.sh", "node[01-02]", "")
	if s.has("node01") || s.has("node02") || !s.has("node03") {
		t.Error("the wrong files are gone")
	}
	s.untilGone()
}

// Slurm requeues a job whose prolog fails.
func TestALaunchFailsWithTheSitesPrologAlone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(s *scripts)
		status int
	}{
		{"the site's prolog succeeds", func(*scripts) {}, 0},
		{"the site's prolog fails", func(s *scripts) { s.write("own prolog", passes+"exit 3\n") }, 3},
		{"no folder", func(s *scripts) { s.do(os.RemoveAll(filepath.Join(s.dir, "up"))) }, 0},
		{"no room for a pipe", func(s *scripts) { s.write("bin/mkfifo", "#!/bin/sh\nexit 1\n") }, 0},
		{"no scontrol", func(s *scripts) { s.do(os.Remove(filepath.Join(s.dir, "bin", "scontrol"))) }, 0},
		{"no lock", func(s *scripts) { s.write("bin/flock", "#!/bin/sh\nexit 1\n"); s.write("bin/timeout", "#!/bin/sh\n") }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := launching(t)
			s.write("waiting", "node01 idle\nnode02 idle\n")
			tc.spoil(s)
			err := s.begin("node[01-02]")()
			var exit *exec.ExitError
			if status := 0; err != nil {
				if errors.As(err, &exit) {
					status = exit.ExitCode()
				}
				if status != tc.status {
					t.Errorf("exit status %d (%v), want %d", status, err, tc.status)
				}
			} else if tc.status != 0 {
				t.Errorf("exit status 0, want %d", tc.status)
			}
			text, err := os.ReadFile(filepath.Join(s.dir, "prologs"))
			if err != nil || strings.TrimSpace(string(text)) != "node[01-02]" {
				t.Errorf("the site's prolog ran with %q, %v", text, err)
			}
		})
	}
}

// slurmctld does not launch a job while its prolog runs, so no prolog may wait for a hanging tool of Slurm.
func TestAHungQuestionToSlurmIsRepeated(t *testing.T) {
	s := launching(t)
	s.write("waiting", "node01 idle\n")
	s.write("hang", "")
	s.edit("launch.sh", "every=10", "every=1")
	s.edit("launch.sh", "timeout 60", "timeout 1")
	s.edit("up.sh", "-10 seconds", "-0.2 seconds")
	end := s.begin("node01")
	s.until("Slurm is asked again", func() bool { return len(s.calls("sinfo")) > 1 })
	s.do(os.Remove(filepath.Join(s.dir, "hang")))
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestAHungQuestionDoesNotHoldBackTheControlHost makes the control host report the nodes that are up.
func TestAHungQuestionDoesNotHoldBackTheControlHost(t *testing.T) {
	s := launching(t)
	s.write("waiting", "")
	s.write("hang", "")
	end := s.begin("node01")
	s.until("Slurm is asked", func() bool { return len(s.calls("sinfo")) > 0 })
	s.up("node01")
	if err := end(); err != nil {
		t.Error(err)
	}
	s.do(os.Remove(filepath.Join(s.dir, "hang")))
}

// A thousand jobs that wait would otherwise start more processes than slurmctld's host can carry.
func TestAWaitingJobWakesUpSeldomAmongMany(t *testing.T) {
	s := launching(t)
	s.write("waiting", "")
	s.write("bin/timeout", `#!/bin/sh
echo "$1 $2" >>"$(dirname "$0")/../pauses"
exec /usr/bin/timeout "$@"
`)
	for i := range 320 {
		s.write(fmt.Sprintf("up/.other%d", i), "")
	}
	cmd := s.prolog("node01")
	s.do(cmd.Start())
	var pauses string
	s.until("it waits", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.dir, "pauses"))
		_, pauses, _ = strings.Cut(string(text), "--foreground ")
		return strings.HasSuffix(pauses, "\n")
	})
	// The programs have different pauses, so that one of them soon wakes up.
	want := fmt.Sprint(10 + cmd.Process.Pid%41)
	if pause, _, _ := strings.Cut(pauses, "\n"); pause != want {
		t.Errorf("it waits for %s seconds, not %s", pause, want)
	}
	s.up("node01")
	s.do(cmd.Wait())
}

// TestAWaitingJobUsesTheQuestionOfAnother has an answer of less than 10 seconds, and one from before a reboot.
func TestAWaitingJobUsesTheQuestionOfAnother(t *testing.T) {
	for ago, asks := range map[int]bool{0: false, 100: true, -1000: true} {
		t.Run(fmt.Sprint(ago), func(t *testing.T) {
			s := launching(t)
			s.write("waiting", "")
			s.write("bin/flock", "#!/bin/sh\ntouch \"$(dirname \"$0\")/../flocked\"\n")
			text, err := os.ReadFile("/proc/uptime")
			s.do(err)
			var now int
			_, err = fmt.Sscanf(string(text), "%d", &now)
			s.do(err)
			s.write("up/.asked", fmt.Sprintf("%d 6\n", now-ago))
			s.job = 6
			end := s.begin("node01")
			s.until("it waits", func() bool { return s.has(".node01") })
			asked := func() bool { _, err := os.Stat(filepath.Join(s.dir, "flocked")); return err == nil }
			if asks {
				s.until("it asks", asked)
			}
			s.up("node01")
			s.do(end())
			if asked() != asks {
				t.Errorf("it has asked: %t", asked())
			}
		})
	}
}

// slurmctld kills the process group of a prolog that has ended. Other jobs wait for the answer to its query.
func TestAnAnswerReachesAllJobs(t *testing.T) {
	s := launching(t)
	s.write("waiting", "node01 idle\nnode02 idle\n")
	s.write("hang", "")
	s.write("bin/dd", `#!/bin/sh
/bin/dd "$@"
case $* in *node01*) until [ -e "$(dirname "$0")/../killed" ]; do sleep 0.01; done ;; esac
`)
	s.edit("launch.sh", "every=10", "every=300") // so that no other prolog queries
	s.edit("up.sh", "-10 seconds", "-1000 seconds")
	first := s.prolog("node01")
	first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.do(first.Start())
	s.until("Slurm is asked", func() bool { return len(s.calls("sinfo")) > 0 })
	second := make(chan error, 1)
	end := s.begin("node02")
	go func() { second <- end() }()
	s.until("both wait", func() bool { return s.has(".node01") && s.has(".node02") })
	s.do(os.Remove(filepath.Join(s.dir, "hang")))
	s.do(first.Wait())
	if err := syscall.Kill(-first.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	s.write("killed", "")
	s.until("the second job starts", func() bool { return len(second) > 0 })
	s.do(<-second)
	if calls := s.calls("sinfo"); len(calls) != 1 {
		t.Errorf("Slurm was asked %d times", len(calls))
	}
}

// TestJobsStartWithoutRoomForFiles makes a file impossible to create, as on a full disk.
func TestJobsStartWithoutRoomForFiles(t *testing.T) {
	s := launching(t)
	s.write("waiting", "")
	for _, node := range []string{"node01", "node02"} {
		s.do(os.Symlink("/nowhere/at/all", s.path(node)))
	}
	first, second := s.begin("node01"), s.begin("node02")
	s.until("both wait", func() bool { return s.has(".node01") && s.has(".node02") })
	s.write("waiting", "node01 idle\nnode02 idle\n")                                // if a pipe was opened too early
	_ = exec.Command(filepath.Join(s.dir, "scripts", "up.sh"), "node[01-02]").Run() // its exit status does not matter
	s.do(first())
	s.do(second())
}

// Slurm does not start a requeued job before its prolog has ended.
func TestALaunchEndsWithItsJob(t *testing.T) {
	s := launching(t)
	s.write("waiting", "node01 mix#\n")
	s.write("bin/squeue", "#!/bin/sh\ncat \"$(dirname \"$0\")/../jobs\"\n")
	s.write("jobs", "6\n7\n")
	s.edit("launch.sh", "every=10", "every=1")
	s.edit("up.sh", "-10 seconds", "-0.2 seconds")
	s.job = 7
	end := s.begin("node01")
	read := func() (text string) {
		all, _ := os.ReadFile(s.path(".asked"))
		return string(all)
	}
	s.until("Slurm has told of the job", func() bool { return strings.HasSuffix(read(), " 6 7\n") })
	first := read()
	s.until("Slurm has told of it again", func() bool { return strings.HasSuffix(read(), " 6 7\n") && read() != first })
	if !s.busy() {
		t.Fatal("launch.sh has ended before its job")
	}
	s.write("jobs", "6\n")
	if err := end(); err != nil {
		t.Error(err)
	}
}

func (s *scripts) do(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// TestALaunchEndsInTime uses shorter times than the rendered scripts.
func TestALaunchEndsInTime(t *testing.T) {
	for _, tc := range []struct{ name, long, short, up string }{
		{"no node comes up", "now + 900", "now + 1", ""},
		{"one of the nodes is late", "now + 30", "now + 1", "node01"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := launching(t)
			s.write("waiting", "")
			s.edit("launch.sh", tc.long, tc.short)
			if tc.up != "" {
				s.write("up/"+tc.up, "")
			}
			if err := s.begin("node[01-02]")(); err != nil {
				t.Error(err)
			}
			if !s.has(".node02") && tc.up != "" {
				t.Error("it did not wait for node02")
			}
		})
	}
}
