package slurm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// TestTheKeyForSlurmRunsNothingElse tries with the key what Slurm's tools and a shell could do.
func TestTheKeyForSlurmRunsNothingElse(t *testing.T) {
	const down = "scontrol update NodeName=c1 State=DOWN Reason='reconfigure: x'"
	s := newTools(t, map[string]string{"scontrol": "", "sinfo": "", "squeue": "", "sacctmgr": "", "id": ""})
	refused := map[string]string{
		"no command":                   "",
		"a shell":                      "/bin/sh",
		"an interactive shell":         "-i",
		"a program":                    "id",
		"a program by its path":        s.dir + "/scontrol ping",
		"a command after it":           "scontrol ping; id",
		"a command beside it":          "scontrol ping & id",
		"a command if it works":        "scontrol ping && id",
		"a command on the next line":   "scontrol ping\nid",
		"a command for the output":     "scontrol ping | id",
		"a file for the output":        "scontrol ping > " + s.dir + "/written",
		"a command in its place":       "scontrol $(id)",
		"a command in back quotes":     "scontrol `id`",
		"a variable":                   "scontrol update NodeName=$HOME State=UNDRAIN",
		"an environment":               "SLURM_CONF=/tmp/conf scontrol ping",
		"an open quote":                "scontrol ping '",
		"an escaped digit":             `scontrol ping\0`,
		"a copy over SSH":              "scp -f /etc/shadow",
		"a file transfer":              "internal-sftp",
		"a server of files":            "/usr/lib/openssh/sftp-server",
		"an option":                    "scontrol -M other ping",
		"one more option":              "scontrol ping --uid=0",
		"jobs of others":               "scontrol show jobs",
		"a part of the configuration":  "scontrol show partitions",
		"a job's script":               "scontrol write batch_script 1 -",
		"a shutdown":                   "scontrol shutdown",
		"another configuration":        "scontrol reconfigure",
		"a debug level":                "scontrol setdebug debug5",
		"a reboot":                     "scontrol reboot c1",
		"a token":                      "scontrol token",
		"a partition":                  "scontrol update PartitionName=main State=DOWN",
		"a reservation":                "scontrol create reservation user=root",
		"a job's account":              "scontrol update JobId=1 Account=other",
		"a job's priority":             "scontrol update JobId=1 Priority=99",
		"a comment and more":           "scontrol update JobId=1 'AdminComment=reconfigure: x' Priority=99",
		"more in the comment":          `scontrol update JobId=1 "AdminComment=reconfigure: x' Priority=99"`,
		"somebody else's comment":      "scontrol update JobId=1 AdminComment=billed",
		"all jobs of a user":           "scontrol update UserId=alice 'AdminComment=reconfigure: x'",
		"no job":                       "scontrol update JobId= 'AdminComment=reconfigure: x'",
		"a step":                       "scontrol update JobId=1.0 'AdminComment=reconfigure: x'",
		"all nodes":                    "scontrol update NodeName=ALL State=UNDRAIN",
		"all nodes among others":       "scontrol update NodeName=c1,all State=UNDRAIN",
		"no nodes":                     "scontrol update NodeName= State=UNDRAIN",
		"nodes with a blank":           "scontrol update 'NodeName=c1 State=FAIL' State=UNDRAIN",
		"another state":                "scontrol update NodeName=c1 State=RESUME",
		"a power-up with a reason":     "scontrol update NodeName=c1 State=POWER_UP Reason=x",
		"exceptions and more":          "scontrol update SuspendExcNodes=c1 SuspendTime=1",
		"exceptions in a word":         "scontrol update 'SuspendExcNodes=c1 SuspendTime=1'",
		"another setting":              "scontrol update SuspendExcParts=main",
		"a node's address":             "scontrol update NodeName=c1 NodeAddr=192.0.2.66",
		"a node's features":            "scontrol update NodeName=c1 Features=x",
		"a reason without a state":     "scontrol update NodeName=c1 'Reason=reconfigure: x'",
		"somebody else's reason":       "scontrol update NodeName=c1 State=DOWN Reason=memory",
		"a reason with a line":         strings.ReplaceAll(down, "x'", "x\ny'"),
		"a reason with a quote":        `scontrol update NodeName=c1 State=DOWN "Reason=reconfigure: 'x"`,
		"a reason with a color":        strings.ReplaceAll(down, "x'", "\x1b[31m'"),
		"a reason that is too long":    strings.ReplaceAll(down, "x'", strings.Repeat("x", 2000)+"'"),
		"a reason that is not text":    strings.ReplaceAll(down, "x'", "\xff'"),
		"a line that is too long":      strings.ReplaceAll(down, "c1", strings.Repeat("c", 70000)),
		"a setting after the reason":   down + " Weight=1",
		"another order":                "scontrol update State=UNDRAIN NodeName=c1",
		"a power-down unmarked":        "scontrol update NodeName=c1 State=POWER_DOWN_ASAP",
		"another case":                 "scontrol UPDATE NodeName=c1 State=UNDRAIN",
		"jobs with other columns":      "squeue --noheader --all --Format=jobid:20,command:400",
		"jobs in a file":               "squeue --noheader --all --Format=jobid:20,admin_comment:40 --helpformat",
		"no list of nodes":             "states",
		"another list":                 "states 'scontrol show jobs --json'",
		"another list after a good":    "states 'sinfo --json' id",
		"a list with an option":        "states 'sinfo --json -M other'",
		"a list of an option":          "states 'scontrol show nodes --json -M other'",
		"a list of an option's value":  "states 'scontrol show nodes --json --cluster=other'",
		"a list of nodes and more":     "states 'scontrol show nodes --json c1 other'",
		"a list of nodes by sinfo":     "states 'sinfo --json c1'",
		"a list of a command":          "states 'scontrol show nodes --json c1;id'",
		"three lists":                  "states 'sinfo --json' 'sinfo --json' 'sinfo --json'",
		"no node that is up":           "up",
		"all nodes are up":             "up ALL",
		"an option of up":              "up --all",
		"two lists of nodes":           "up c1 c2",
		"a path of a node":             "up c1/../../x",
		"words for the kept one":       "hold on",
		"accounts":                     "sacctmgr -i modify user alice set adminlevel=admin",
		"jobs":                         "scancel 1",
		"a job":                        "sbatch --wrap id",
		"a job of root's on a node":    "srun --uid=0 id",
		"another program of the name":  "./scontrol ping",
		"another program by its case":  "SCONTROL ping",
		"a pattern":                    "scontrol pin?",
		"another canary's name":        "canary reserve mine c1",
		"a canary of many nodes":       "canary reserve reconfigure_1_1 c[1-2]",
		"a canary of some nodes":       "canary reserve reconfigure_1_1 c1,c2",
		"a canary of all nodes":        "canary reserve reconfigure_1_1 ALL",
		"a canary of an option":        "canary reserve reconfigure_1_1 --all",
		"a canary with a user":         "canary reserve reconfigure_1_1 c1 root",
		"a canary's own command":       "canary test reconfigure_1_1 c1 main 10 id",
		"a canary without a limit":     "canary test reconfigure_1_1 c1 main 0",
		"a canary with another limit":  "canary test reconfigure_1_1 c1 main UNLIMITED",
		"a canary's option":            "canary test reconfigure_1_1 c1 --uid=0 10",
		"another reservation":          "canary release maintenance",
		"another word for a canary":    "canary run reconfigure_1_1",
		"no word for a canary":         "canary",
		"jobs from nowhere":            "jobs",
		"jobs of a file":               "jobs /etc/shadow",
		"jobs of a position and more":  "jobs 0 /etc/shadow",
		"jobs before the first":        "jobs -1",
		"a call back with a mode":      "call-back resume",
		"deletion of a reservation":    "scontrol delete ReservationName=reconfigure_1_1",
		"nothing but blanks":           "   ",
		"a comment":                    "# scontrol ping",
		"an escape":                    `scontrol\ ping`,
		"more than one word in a word": "'scontrol ping'",
	}
	for name, line := range refused {
		t.Run(name, func(t *testing.T) {
			err := s.run(t.Context(), process.Cmd{Path: "/bin/sh", Args: []string{"-c", forced(t), "sh", line}})
			failed, ok := errors.AsType[*process.Error](err)
			if !ok || failed.Code != 77 || !strings.Contains(failed.Stderr, "this key may not run that command") {
				t.Fatalf("error %v", err)
			}
			if strings.Count(failed.Stderr, "\n") > 1 {
				t.Errorf("it says %q", failed.Stderr)
			}
		})
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "[cw][ar][li]*")); err != nil || len(left) > 0 {
		t.Errorf("%v, error %v", left, err)
	}
}

// callBack calls CallBack with scripts of the control node that print the output of hand_over.sh.
func callBack(t *testing.T, s tools) error {
	text, err := os.ReadFile("../../slurmscripts/slurm_commands.py")
	if err != nil {
		return err
	}
	commands := filepath.Join(s.dir, "slurm_commands.py")
	if err := os.WriteFile(commands, text, 0o700); err != nil {
		return err
	}
	c := s.client(false, "/bin/sh", "-c", `exec "`+commands+`" "$*"`, "sh")
	for _, want := range []struct {
		script   string
		accepted bool
		problems string
	}{
		{"", true, ""},
		{"echo one does not >&2", true, "one does not\n"},
		{"echo none does >&2; exit 1", false, "none does\n"},
	} {
		s.set("hand_over.sh", want.script)
		accepted, problems, err := c.CallBack(t.Context())
		if err != nil || accepted != want.accepted || problems != want.problems {
			return fmt.Errorf("%+v: %v, %q, %w", want, accepted, problems, err)
		}
		if called := s.calls(); !slices.Contains(called, "hand_over.sh check control") {
			return fmt.Errorf("calls: %q", called)
		}
	}
	return nil
}

// TestTheKeyForSlurmRunsWhatTheClientSends calls each method of the client, with the longest arguments.
func TestTheKeyForSlurmRunsWhatTheClientSends(t *testing.T) {
	s := later(t)
	listing := filepath.Join(s.dir, "jobs")
	if err := os.WriteFile(listing, []byte(jobListing(map[int]string{4: "", 1 << 60: ""})), 0o600); err != nil {
		t.Fatal(err)
	}
	s.set("scontrol", "case $* in 'show config') echo 'ResumeTimeout = 60 sec' ;; show*) "+
		print(t, "scontrol-25.11.json")+" ;; esac")
	s.set("squeue", "case $* in *--name=*) ;; *jobid*) cat "+listing+" ;; esac")
	s.set("sbatch", "echo 7")
	s.set("scancel", "")
	c := s.client(false)
	many := []string{"c1", "c3", "recall", "all1"}
	for i := range 8000 { // no two are adjacent
		many = append(many, fmt.Sprintf("a-long-name%05d", 2*i))
	}
	nodes, long := nodeset.Of(many...), strings.Repeat("é — it's \"all\" ", 200)
	calls := map[string]func() error{
		"States":        func() error { _, err := c.States(t.Context(), nodeset.NodeSet{}); return err },
		"some States":   func() error { _, err := c.States(t.Context(), nodeset.Of("c1", "c2", "ctl-a")); return err },
		"Settings":      func() error { _, err := c.Settings(t.Context()); return err },
		"Ping":          func() error { return c.Ping(t.Context()) },
		"Down":          func() error { return c.Down(t.Context(), nodes, long) },
		"Drain":         func() error { return c.Drain(t.Context(), nodes, long) },
		"Undrain":       func() error { return c.Undrain(t.Context(), nodes) },
		"PowerDown":     func() error { return c.PowerDown(t.Context(), nodes) },
		"PowerDownASAP": func() error { return c.PowerDownASAP(t.Context(), nodes, long) },
		"PowerDownIdle": func() error { return c.PowerDownIdle(t.Context(), nodes) },
		"PowerUp":       func() error { return c.PowerUp(t.Context(), nodes) },
		"SetExceptions": func() error { return c.SetExceptions(t.Context(), "c1,a-long[01-20]:2,recall") },
		"ClearReason":   func() error { return c.ClearReason(t.Context(), nodes) },
		"Comment":       func() error { return c.Comment(t.Context(), []int64{4, 1 << 60}, long) },
		"Close":         func() error { return nil },
		"Reserve":       func() error { return c.Reserve(t.Context(), "reconfigure_12_3", "a-node-01.x") },
		"Test": func() error {
			_, _, err := c.Test(t.Context(), "reconfigure_12_3", "a-node-01.x", "main", 24*time.Hour)
			return err
		},
		"CallBack": func() error { return callBack(t, s) },
		"Release":  func() error { return c.Release(t.Context(), "reconfigure_12_3") },
		"Jobs":     func() error { _, err := c.Jobs(t.Context(), 1<<59); return err },
	}
	client := reflect.TypeFor[*Client]()
	for i := range client.NumMethod() {
		name := client.Method(i).Name
		if calls[name] == nil {
			t.Errorf("%s is not tried here", name)
		} else if err := calls[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
