package site_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// call is a call of fresh.sh by slurmd.
type call struct {
	context, job, restart, node string
	fails                       bool // scontrol
	status                      int
	powersDown                  bool
}

// TestAnInstanceServesOneRunOfOneJob runs the script that TestSlurmConf renders, with a scontrol that only records its
// arguments. All calls of a case are on the same instance.
func TestAnInstanceServesOneRunOfOneJob(t *testing.T) {
	begins := func(job, restart string) call {
		return call{context: "prolog_slurmd", job: job, restart: restart, node: "s01"}
	}
	refused := func(job, restart string) call {
		return call{context: "prolog_slurmd", job: job, restart: restart, node: "s01", status: 1, powersDown: true}
	}
	ends := func(job, restart string) call {
		return call{context: "epilog_slurmd", job: job, restart: restart, node: "s01", powersDown: true}
	}
	on := func(node string, c call) call {
		c.node = node
		return c
	}
	fails := func(c call) call {
		c.fails, c.status = true, 1
		return c
	}
	for _, c := range []struct {
		name  string
		calls []call
	}{
		{"one job", []call{begins("4", "0"), ends("4", "0")}},
		{"slurmd is restarted", []call{begins("4", "0"), begins("4", "0")}},
		{"another job beside it", []call{begins("4", "0"), refused("5", "0")}},
		{"another job after it", []call{begins("4", "0"), ends("4", "0"), refused("5", "0")}},
		{"the job again, after its end", []call{begins("4", "0"), ends("4", "0"), refused("4", "0")}},
		// The epilog of a run that was requeued has the number of the next run.
		{"the job again, requeued", []call{begins("4", "0"), ends("4", "1"), refused("4", "1")}},
		{"the job again, without an epilog", []call{begins("4", "0"), refused("4", "1")}},
		{"refused twice", []call{begins("4", "0"), refused("5", "0"), ends("5", "1"), refused("5", "1")}},
		{"a job that was cancelled before it began", []call{ends("4", "0"), refused("5", "0")}},
		{"slurmctld does not answer", []call{begins("4", "0"), fails(ends("4", "0")), fails(refused("5", "0"))}},
		{"nodes of other groups", []call{on("node01", begins("4", "0")), on("node01", begins("5", "0")),
			on("s001", begins("5", "0")), on("s001", begins("6", "0")), on("", begins("7", "0"))}},
		{"a name with a hyphen", []call{on("l-3", begins("4", "0")), on("l-3", refused("5", "0"))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newInstance(t)
			for n, call := range c.calls {
				status, said := i.run(call)
				if status != call.status {
					t.Errorf("call %d exits with status %d, want %d", n, status, call.status)
				}
				if want := "update nodename=" + call.node + " state=power_down_asap reason=fresh: "; call.powersDown !=
					strings.HasPrefix(said, want) || !call.powersDown && said != "" {
					t.Errorf("call %d calls scontrol %s", n, said)
				}
			}
		})
	}
}

// A mark that cannot be written, for example on a full disk, counts like another job's mark.
func TestAnInstanceWithoutRoomForTheMarkGetsNoJob(t *testing.T) {
	i := newInstance(t)
	if err := os.Remove(filepath.Join(i.dir, "slurmd")); err != nil {
		t.Fatal(err)
	}
	if status, said := i.run(call{context: "prolog_slurmd", job: "4", node: "s01"}); status != 1 || said == "" {
		t.Errorf("exit status %d, scontrol %s", status, said)
	}
}

// instance is the disk of an instance with the script.
type instance struct {
	*testing.T
	dir, script string
}

func newInstance(t *testing.T) instance {
	t.Helper()
	i := instance{T: t, dir: t.TempDir()}
	text, err := os.ReadFile("testdata/fresh/fresh.sh")
	if err != nil {
		t.Fatal(err)
	}
	i.script = strings.NewReplacer("PATH=", "PATH="+i.dir+":", "mark=/var/lib/slurm", "mark="+i.dir).Replace(
		string(text))
	scontrol := "#!/bin/sh\necho \"$*\" >" + i.dir + "/said\n[ -z \"$FAILS\" ]\n"
	if err := errors.Join(os.Mkdir(filepath.Join(i.dir, "slurmd"), 0o755),
		os.WriteFile(filepath.Join(i.dir, "scontrol"), []byte(scontrol), 0o755)); err != nil {
		t.Fatal(err)
	}
	return i
}

// run returns the script's exit status, and the arguments of its call of scontrol.
func (i instance) run(c call) (status int, said string) {
	i.Helper()
	cmd := exec.CommandContext(i.Context(), "sh", "-c", i.script)
	cmd.Env = []string{"SLURM_SCRIPT_CONTEXT=" + c.context, "SLURM_JOB_ID=" + c.job,
		"SLURM_JOB_RESTART_COUNT=" + c.restart, "SLURMD_NODENAME=" + c.node}
	if c.fails {
		cmd.Env = append(cmd.Env, "FAILS=1")
	}
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		i.Fatal(err)
	}
	file := filepath.Join(i.dir, "said")
	text, _ := os.ReadFile(file)
	os.Remove(file)
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(string(text))
}
