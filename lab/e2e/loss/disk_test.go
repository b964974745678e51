package loss_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// TestTheDiskOfTheControlHostIsLost restores a backup that is older than the cloud, while jobs run: node02 has had its
// instance since before the backup, and w01 got one after it. Neither job may end, the next resume and suspend must
// work, and what the backup does not know must not stay when its job has ended.
func TestTheDiskOfTheControlHostIsLost(t *testing.T) {
	lab.AwaitQuiet(t)
	hold := func(node string) (job string) {
		t.Helper()
		job = lab.Job(t, "--nodelist="+node, harness.Until)
		lab.AwaitJob(t, job, "RUNNING")
		return job
	}
	old := hold("node02")
	lab.Do(t, "backup", "/home/"+cluster.User+"/backup")
	file, err := lab.TakeFile("backup", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	recent := hold("w01")
	lab.AwaitNothingWaits(t)
	nodes := []string{cluster.ControlNodeName, "node01", "node02", "w01"}
	before := lab.Identities(t, nodes...)

	err = errors.Join(lab.StopControlHost(), lab.LoseDisk(t.Context()), lab.StartControlHost(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	there, err := lab.GiveFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if said := lab.Do(t, "restore", there); !strings.Contains(said, "A pause has begun") {
		t.Errorf("restore said\n%s", said)
	}
	reconcile := []string{"reconcile", "--recheck", "0s", "--min-age", "0s"}
	found, code := lab.Call(t, reconcile...)
	if code != 10 || !strings.Contains(found, "orphan") || strings.Contains(found, "server delete") {
		t.Errorf("reconcile has the exit code %d:\n%s", code, found)
	}
	lab.Do(t, "continue")
	lab.Do(t, "deploy")
	lab.Call(t, append(reconcile, "--fix")...) // the orphan stays a finding
	lab.AssertRunning(t, old, recent)
	lab.AssertSame(t, before)

	lab.LetGo(t, "node02")
	lab.LetGo(t, "w01")
	next := lab.Job(t, "--nodelist=w02", "--wrap=true")
	for _, id := range []string{old, recent, next} {
		lab.AwaitJob(t, id, "COMPLETED")
	}
	lab.AssertNeverRestarted(t, old, recent, next)
	lab.Eventually(t, harness.IdlePatience, func() (bool, string) {
		state, err := lab.NodeState("w01")
		return strings.Contains(state, "POWERED_DOWN"), fmt.Sprintf("w01 is %s (%v)", state, err)
	})
	lab.Call(t, append(reconcile, "--fix")...)
	if s, there := lab.Server("w01"); there {
		t.Errorf("reconcile has left the instance of w01: %+v", s)
	}
	lab.AssertAllIsWell(t)
}
