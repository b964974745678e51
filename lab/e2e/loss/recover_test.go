package loss_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// keptElsewhere are the files that a site has outside of the control host: the declaration in git, the cloud's
// credentials, and the key that the nodes accept.
var keptElsewhere = []string{"group_vars/all.yml", "group_vars/cluster.yml", "clouds.yaml", "../.ssh/id_ed25519"}

// onHost returns the path of one of these files on the control host.
func onHost(name string) string {
	if rest, ok := strings.CutPrefix(name, "../"); ok {
		return filepath.Join("/home", cluster.User, rest)
	}
	return filepath.Join(lab.Directory(), name)
}

// TestTheDiskOfTheControlHostIsLostWithoutABackup recovers the cluster from the cloud while a job runs. The first call
// is killed. The job must live, no instance may change, and the next resume and suspend must work.
func TestTheDiskOfTheControlHostIsLostWithoutABackup(t *testing.T) {
	generation.OnlyFull(t)
	job := runningJob(t, "node02")
	nodes := []string{cluster.ControlNodeName, "node01", "node02"}
	before, last := lab.Identities(t, nodes...), lab.LastRequest(t)
	texts := map[string][]byte{}
	for _, name := range keptElsewhere {
		text, err := lab.OnControlHost(t.Context(), lab.Directory(), "cat", onHost(name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = text
	}

	err := errors.Join(lab.StopControlHost(), lab.LoseDisk(t.Context()), lab.StartControlHost(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range texts {
		const write = `umask 077; mkdir -p "$(dirname "$1")"; cat >"$1"`
		put := lab.OnControlHost(t.Context(), lab.Directory(), "sh", "-c", write, "sh", onHost(name))
		put.Stdin = bytes.NewReader(text)
		if out, err := put.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	killed := lab.Reconfigure(t.Context(), "recover")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(lab.Site, "terraform", "openstack", "terraform.tfstate")
	lab.Eventually(t, harness.IdlePatience, func() (bool, string) {
		_, err := os.Stat(state)
		return err == nil, "the killed recovery has written no state"
	})
	_ = killed.Process.Kill()
	_ = killed.Wait()

	said := lab.Do(t, "recover")
	for _, want := range []string{"instances: " + cluster.ControlNodeName + ",node[01-02]",
		"host keys: " + cluster.ControlNodeName + ",node[01-02]", "A pause has begun"} {
		if !strings.Contains(said, want) {
			t.Errorf("recover did not say %q:\n%s", want, said)
		}
	}
	lab.AssertTerraformIsClean(t)
	if out, code := lab.Call(t, "resume", "--no-wait", "w01"); code != 0 {
		t.Errorf("a call during the pause has the exit code %d:\n%s", code, out)
	}
	if r := lab.LastRequest(t); r.ID <= last.ID {
		t.Errorf("the new request has the number %s, and the lost journal had %s", r.ID, last.ID)
	}
	if _, there := lab.Server("w01"); there {
		t.Error("the pause was ignored")
	}
	lab.Do(t, "cancel", lab.LastRequest(t).ID.String())
	lab.Do(t, "continue")
	lab.Do(t, "deploy")
	lab.Do(t, "reconcile", "--recheck", "0s", "--min-age", "0s", "--fix")
	lab.AssertRunning(t, job)
	lab.AssertSame(t, before)
	if out, code := lab.Call(t, "recover"); code != 2 || !strings.Contains(out, "knows the nodes") {
		t.Errorf("recover of a cluster in use has the exit code %d:\n%s", code, out)
	}
	lab.LetGo(t, "node02")
	next := lab.Job(t, "--nodelist=w02", "--wrap=true")
	for _, id := range []string{job, next} {
		lab.AwaitJob(t, id, "COMPLETED")
	}
	lab.AssertNeverRestarted(t, job, next)
	lab.AssertAllIsWell(t)
}
