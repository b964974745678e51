package slurm

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ours are the options that select the test job. A job's name is not enough, since any user may submit one of that name.
func ours(t *testing.T) string {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return "--name=reconfigure_4_1 --user=" + me.Username + " --reservation=reconfigure_4_1"
}

// canaryTools has a scontrol that knows one reservation while a file for it exists.
func canaryTools(t *testing.T) (s tools, reservation string) {
	t.Helper()
	s = newTools(t, map[string]string{"sbatch": "echo '41;cluster'", "squeue": "", "scancel": ""})
	reservation = filepath.Join(s.dir, "there")
	s.set("scontrol", "case $1 in show) test -e "+reservation+" ;; create) touch "+reservation+
		" ;; delete) rm "+reservation+" ;; esac")
	return s, reservation
}

func TestANodeIsReservedOnce(t *testing.T) {
	s, _ := canaryTools(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	c := s.client(false)
	for range 2 {
		if err := c.Reserve(t.Context(), "reconfigure_4_1", "n1"); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"scontrol show reservation reconfigure_4_1",
		"scontrol create reservation ReservationName=reconfigure_4_1 StartTime=now Duration=UNLIMITED Users=" +
			me.Username + " Nodes=n1 Flags=IGNORE_JOBS",
		"scontrol show reservation reconfigure_4_1",
	}
	if d := cmp.Diff(want, s.calls()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for range 2 {
		if err := c.Release(t.Context(), "reconfigure_4_1"); err != nil {
			t.Fatal(err)
		}
	}
	want = []string{
		"scontrol show reservation reconfigure_4_1", "scancel --quiet " + ours(t),
		"scontrol delete ReservationName=reconfigure_4_1", "scontrol show reservation reconfigure_4_1",
	}
	if d := cmp.Diff(want, s.calls()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAReservationThatSlurmRefusesIsAnError(t *testing.T) {
	s, _ := canaryTools(t)
	s.set("scontrol", `[ "$1" = create ] && echo 'Requested nodes are busy' >&2; exit 1`)
	err := s.client(false).Reserve(t.Context(), "reconfigure_4_1", "n1")
	if err == nil || !strings.Contains(err.Error(), "Requested nodes are busy") {
		t.Errorf("error %v", err)
	}
}

func TestTheTestJobIsSubmittedOnce(t *testing.T) {
	s, _ := canaryTools(t)
	ask := func() (bool, string) {
		t.Helper()
		ended, failure, err := s.client(false).Test(t.Context(), "reconfigure_4_1", "n1", "main", 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return ended, failure
	}
	if ended, failure := ask(); ended || failure != "" {
		t.Errorf("submitted: %v, %q", ended, failure)
	}
	script, err := filepath.Abs("../../slurmscripts/canary.sh")
	if err != nil {
		t.Fatal(err)
	}
	list := "squeue --noheader --all --states=all " + ours(t) + " --Format=jobid:20,state:40"
	want := []string{list, "sbatch --parsable --job-name=reconfigure_4_1 --reservation=reconfigure_4_1 --partition=main " +
		"--nodelist=n1 --nodes=1 --exclusive --no-requeue --time=10 --chdir=/tmp --output=/tmp/reconfigure_4_1.log " + script}
	if d := cmp.Diff(want, s.calls()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for state, want := range map[string]struct {
		ended   bool
		failure string
	}{
		"PENDING": {}, "RUNNING": {}, "COMPLETING": {}, "COMPLETED": {ended: true},
		"FAILED":    {true, "the test job 41 ended as FAILED; its output is in /tmp/reconfigure_4_1.log there"},
		"TIMEOUT":   {true, "the test job 41 ended as TIMEOUT; its output is in /tmp/reconfigure_4_1.log there"},
		"NODE_FAIL": {true, "the test job 41 ended as NODE_FAIL; its output is in /tmp/reconfigure_4_1.log there"},
	} {
		s.set("squeue", "printf '%-20s%-40s\\n' 41 "+state)
		if ended, failure := ask(); ended != want.ended || failure != want.failure {
			t.Errorf("%s: %v, %q", state, ended, failure)
		}
		if d := cmp.Diff([]string{list}, s.calls()); d != "" {
			t.Errorf("%s (-want +got):\n%s", state, d)
		}
	}
}

func TestATestThatCannotBeSubmittedIsAnError(t *testing.T) {
	s, _ := canaryTools(t)
	s.set("sbatch", "echo 'sbatch: error: invalid partition specified: main' >&2; exit 1")
	_, _, err := s.client(false).Test(t.Context(), "reconfigure_4_1", "n1", "main", time.Minute)
	if err == nil || !strings.Contains(err.Error(), "invalid partition") {
		t.Errorf("error %v", err)
	}
	s.set("squeue", "exit 1") // it is unknown whether the job exists
	if err := os.Remove(filepath.Join(s.dir, "calls")); err != nil {
		t.Fatal(err)
	}
	if _, _, err = s.client(false).Test(t.Context(), "reconfigure_4_1", "n1", "main", time.Minute); err == nil {
		t.Error("no error")
	}
	if calls := s.calls(); len(calls) != 1 {
		t.Errorf("calls %q", calls)
	}
}
