package loss_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// TestAStateIsLost removes Terraform's state while a job runs, and takes it from a backup. A request that comes between
// must change nothing.
func TestAStateIsLost(t *testing.T) {
	old := runningJob(t, "node02")
	before := lab.Identities(t, cluster.ControlNodeName, "node01", "node02")
	lab.Do(t, "backup", "/home/"+cluster.User+"/backup")
	file, err := lab.TakeFile("backup", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const member = "site/terraform/openstack/terraform.tfstate"
	state := filepath.Join(lab.Site, "terraform", "openstack", "terraform.tfstate")
	if err := errors.Join(os.Remove(state), os.Remove(state+".backup")); err != nil {
		t.Fatal(err)
	}
	reconcile := []string{"reconcile", "--recheck", "0s", "--min-age", "0s"}
	found, _ := lab.Call(t, reconcile...)
	if !strings.Contains(found, "state-lost.md") || strings.Contains(found, "server delete") {
		t.Errorf("reconcile said\n%s", found)
	}
	for request, want := range map[string]string{"resume w01": "there is no control node", "deploy": "bring that back"} {
		out, code := lab.Call(t, strings.Fields(request)...)
		if said := strings.Join(strings.Fields(out), " "); code == 0 || !strings.Contains(said, want) {
			t.Errorf("%s has the exit code %d:\n%s", request, code, out)
		}
	}
	if _, there := lab.Server("w01"); there {
		t.Error("w01 was made without a state")
	}

	lab.Do(t, "pause", "--reason", "the state is lost")
	tar := exec.CommandContext(t.Context(), "tar", "--extract", "--gzip", "--to-stdout", "--file", file, member)
	text, err := tar.Output()
	if err != nil {
		t.Fatal(err)
	}
	put := lab.OnControlHost(t.Context(), lab.Directory(), "tee", "terraform/openstack/terraform.tfstate")
	put.Stdin = bytes.NewReader(text)
	if err := put.Run(); err != nil {
		t.Fatal(err)
	}
	lab.Do(t, "continue")
	lab.Do(t, append(reconcile, "--fix")...)
	lab.AssertRunning(t, old)
	lab.AssertSame(t, before)
	lab.LetGo(t, "node02")
	next := lab.Job(t, "--nodelist=w01", "--wrap=true")
	lab.AwaitJob(t, next, "COMPLETED")
	lab.Eventually(t, harness.IdlePatience, func() (bool, string) {
		s, there := lab.Server("node02")
		return !there, fmt.Sprintf("node02 has %+v", s)
	})
	lab.AssertAllIsWell(t)
}
