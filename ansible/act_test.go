package site_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestRunSlurmctldIsRepairedAfterEachKill runs the module with doubles of slurmctld and of the commands.
func TestRunSlurmctldIsRepairedAfterEachKill(t *testing.T) {
	t.Parallel()
	needs.Lab(t) // the full disk is mounted
	for _, what := range []string{"refusals", "kills", "twice", "together", "full"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "/usr/bin/python3", "-B",
				"testdata/run_slurmctld/kills.py", what)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestAttachSlurmctldIsRepairedAfterEachKill runs the module with doubles of slurmctld and of Slurm's commands.
func TestAttachSlurmctldIsRepairedAfterEachKill(t *testing.T) {
	t.Parallel()
	needs.Lab(t) // it changes owners
	for _, what := range []string{"refusals", "kills"} {
		for _, how := range []string{"restart", "reconfigure"} {
			t.Run(what+" "+how, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-B", "testdata/attach_slurmctld/kills.py", what, how)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// TestANewSlurmConfIsOneAct breaks the connection to the control node while slurmctld is restarted, and then kills the
// module. slurmctld must run with the slurm.conf that is left, and the job keeps running.
func TestANewSlurmConfIsOneAct(t *testing.T) {
	t.Parallel()
	m := newMachines(t, 25)
	for number, name := range []string{"ctl", "node01", "node02"} {
		m.boot(name, byte(10+number))
	}
	m.configure("ctl", "node01", "node02")
	m.until("node01 has registered", func() bool { return strings.HasPrefix(m.slurm("node01"), "IDLE") })
	jobs := m.jobs("node01")
	everywhere := reconfigure.Extent{Everywhere: true, Addresses: true}
	during := func(stage, does string) reconfigure.Failures {
		t.Helper()
		done := make(chan reconfigure.Failures)
		go func() {
			failures, said := m.extend(everywhere)
			m.Log(said)
			done <- failures
		}()
		m.until("slurmctld is stopped", func() bool {
			return m.host.Command("ctl", "test", "-e", "/etc/slurm/deploy/"+stage).Run() == nil
		})
		m.on("ctl", "sh", "-c", does)
		return <-done
	}
	runs := func(value string) {
		t.Helper()
		m.until("slurmctld answers", func() bool { return m.host.Command("ctl", "scontrol", "ping").Run() == nil })
		m.until("the module is done", func() bool {
			return m.host.Command("ctl", "test", "-e", "/etc/slurm/deploy").Run() != nil
		})
		if conf := m.on("ctl", "scontrol", "show", "config"); !strings.Contains(conf, value) {
			t.Errorf("slurmctld does not run with %s:\n%s", value, conf)
		}
		if diff := cmp.Diff(m.on("ctl", "cat", "/etc/slurm/last-good/slurm.conf"),
			m.on("ctl", "cat", "/etc/slurm/slurm.conf")); diff != "" {
			t.Errorf("last-good has another slurm.conf (-last-good +there):\n%s", diff)
		}
	}

	// sshd refuses new sessions, so that Ansible's second attempt fails too.
	m.declares("suspend_time: 600", "suspend_time: 700")
	failures := during("stopping", "touch /run/nologin; pkill -9 -u "+image.LoginUser)
	if failures["ctl"] == nil {
		t.Errorf("the control node did not fail: %v", failures)
	}
	runs("= 700 sec")
	m.on("ctl", "rm", "/run/nologin")
	// The control host does not know that slurmctld runs with another file.
	if failures, said := m.extend(everywhere); len(failures) > 0 {
		t.Fatalf("%v\n%s", failures, said)
	}
	m.agree("node[01-02]", "node[03-04]")

	m.declares("suspend_time: 700", "suspend_time: 800")
	// The module may be killed just before it ends slurmctld.
	_ = during("stopping", "touch /run/nologin; pkill -9 python3; pkill -x slurmctld; pkill -9 -u "+image.LoginUser)
	m.until("slurmctld has ended", func() bool { return m.host.Command("ctl", "pgrep", "-x", "slurmctld").Run() != nil })
	m.on("ctl", "rm", "/run/nologin")
	if failures, said := m.extend(everywhere); len(failures) > 0 {
		t.Fatalf("%v\n%s", failures, said)
	}
	runs("= 800 sec")
	m.agree("node[01-02]", "node[03-04]")
	jobs.run("after both")
	jobs.end()
}
