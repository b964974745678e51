package loss_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// removeServer removes an instance behind the back of reconfigure, and waits until it is gone.
func removeServer(t *testing.T, node string) {
	t.Helper()
	s, there := lab.Server(node)
	if !there {
		t.Fatalf("%s has no instance", node)
	}
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(lab.Declaration.Cloud),
		clouds.WithLocations(lab.CloudsFile()))
	if err != nil {
		t.Fatal(err)
	}
	provider, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tls))
	if err != nil {
		t.Fatal(err)
	}
	compute, err := openstack.NewComputeV2(provider, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if err := servers.Delete(t.Context(), compute, s.ID).ExtractErr(); err != nil &&
		!gophercloud.ResponseCodeIs(err, 404) {
		t.Fatal(err)
	}
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		_, there := lab.Server(node)
		return !there, node + " is still there"
	})
}

// TestTheControlNodeIsLost removes the control node's instance while a job runs. The new control node gets Slurm's jobs
// from a backup: the job must live, its end must be seen, and the next resume must work.
func TestTheControlNodeIsLost(t *testing.T) {
	generation.OnlyFull(t)
	old := runningJob(t, "node01")
	before := lab.Identities(t, "node01")
	lab.Do(t, "backup", "/home/"+cluster.User+"/backup")
	file, err := lab.TakeFile("backup", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	removeServer(t, cluster.ControlNodeName)

	const member = "state/slurm/slurmctld.tar.gz"
	tar := exec.CommandContext(t.Context(), "tar", "--extract", "--gzip", "--to-stdout", "--file", file, member)
	text, err := tar.Output()
	if err != nil {
		t.Fatalf("%s is not in the backup: %v", member, err)
	}
	put := lab.OnControlHost(t.Context(), lab.Directory(), "sh", "-c", "umask 077; cat >state/ansible/slurmctld.tar.gz")
	put.Stdin = bytes.NewReader(text)
	if out, err := put.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Terraform must forget the instance by hand: no plan replaces the control node.
	if out, code := lab.Call(t, "deploy"); code != 5 {
		t.Errorf("before, deploy has the exit code %d:\n%s", code, out)
	}
	address := `openstack_compute_instance_v2.node["` + cluster.ControlNodeName + `"]`
	if out, err := lab.Terraform(t.Context(), "state", "rm", address).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lab.Do(t, "deploy")
	lab.Do(t, "reconcile", "--recheck", "0s", "--min-age", "0s", "--fix")
	remove := lab.OnControlHost(t.Context(), lab.Directory(), "rm", filepath.Join("state", "ansible", "slurmctld.tar.gz"))
	if out, err := remove.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lab.AwaitJob(t, old, "RUNNING")
	lab.AssertSame(t, before)
	next := lab.Job(t, "--nodelist=w01", "--wrap=true")
	lab.LetGo(t, "node01")
	for _, id := range []string{old, next} {
		lab.AwaitJob(t, id, "COMPLETED")
	}
	lab.AssertNeverRestarted(t, old, next)
	lab.Eventually(t, harness.IdlePatience, func() (bool, string) {
		_, there := lab.Server("w01")
		return !there, fmt.Sprintf("w01 has an instance: %t", there)
	})
	lab.AssertAllIsWell(t)
}

// TestTheJournalIsLost removes the database while a job runs. The next request must go on with the states, the map of
// nodes and the host keys that are in files.
func TestTheJournalIsLost(t *testing.T) {
	generation.OnlyFull(t)
	job := runningJob(t, "node02")
	nodes := []string{cluster.ControlNodeName, "node01", "node02"}
	before := lab.Identities(t, nodes...)
	lost := lab.OnControlHost(t.Context(), lab.Directory(), "sh", "-c", "rm state/journal.db*")
	if out, err := lost.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lab.Do(t, "deploy")
	lab.Do(t, "reconcile", "--recheck", "0s", "--min-age", "0s", "--fix")
	lab.AssertRunning(t, job)
	lab.AssertSame(t, before)
	lab.LetGo(t, "node02")
	next := lab.Job(t, "--nodelist=w02", "--wrap=true")
	for _, id := range []string{job, next} {
		lab.AwaitJob(t, id, "COMPLETED")
	}
	lab.AssertNeverRestarted(t, job, next)
	lab.AssertAllIsWell(t)
}
