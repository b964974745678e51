package update_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// listed is a line of `reconfigure --json image list`.
type listed struct {
	ID, Name, Status, Node string
	Declared               []string
	Nodes                  string
	Unused                 bool
	ReadySeconds           float64 `json:"ready_seconds"`
}

// images returns the images as the tool lists them.
func images(t *testing.T) []listed {
	t.Helper()
	out, err := reconfigureJSON(t, "image", "list")
	var all []listed
	if err != nil || json.Unmarshal([]byte(out), &all) != nil {
		t.Fatalf("image list: %v\n%s", err, out)
	}
	return all
}

// TestImageOfACloudNode makes an image of a cloud node, on which a job runs at first, and kills the worker while the
// cloud saves the image. Then it resumes a node with the image.
func TestImageOfACloudNode(t *testing.T) {
	const node = "node03"
	job := lab.Job(t, "--nodelist="+node, harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	lab.On(t, node, "sh", "-c", "echo built >/etc/of-the-image; echo 0123456789abcdef0123456789abcdef >/etc/machine-id")
	hostKey := lab.On(t, node, "cat", "/etc/ssh/ssh_host_ed25519_key.pub")
	others := lab.Identities(t, cluster.ControlNodeName, "node01", "node02")

	create := lab.Reconfigure(t.Context(), "image", "create", node, "--name", "fresh")
	var said strings.Builder
	create.Stdout, create.Stderr = &said, &said
	if err := create.Start(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		state, err := lab.NodeState(node)
		reason, _ := lab.NodeReason(node)
		return strings.Contains(state, "DRAIN") && strings.HasPrefix(reason, "reconfigure: image"),
			fmt.Sprintf("it is %s, %q (%v)", state, reason, err)
	})
	lab.AssertRunning(t, job)
	saving, err := lab.Cloud.Faults().Add(labcloud.Fault{
		Kind: labcloud.Hang, Call: "GET /image/v2/images/{id}", Count: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lab.Cloud.Faults().Clear(saving) })
	lab.LetGo(t, node)
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AssertNeverRestarted(t, job)
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		return slices.ContainsFunc(lab.Cloud.Faults().List(), func(f labcloud.Fault) bool {
			return f.ID == saving && f.Hits > 0
		}), "the image is not begun\n" + lab.WorkerLogs()
	})
	if state := lab.State(t, node); strings.Contains(state, "IDLE") && !strings.Contains(state, "DRAIN") &&
		!strings.Contains(state, "POWER") {
		t.Errorf("while the image is saved, the node is %s", state)
	}
	lab.KillWorkers(t)
	lab.Cloud.Faults().Clear(saving)
	if err := create.Wait(); err != nil { // it starts another worker
		t.Fatalf("%v\n%s\n%s", err, said.String(), lab.WorkerLogs())
	}
	t.Log(said.String())

	all := images(t)
	i := slices.IndexFunc(all, func(i listed) bool { return i.Name == "fresh" })
	if i < 0 || !all[i].Unused || all[i].Node != node || all[i].Status != "active" {
		t.Fatalf("the images are %+v", all)
	}
	fresh := all[i]
	if again := slices.Delete(all, i, i+1); slices.ContainsFunc(again, func(i listed) bool { return i.Name == "fresh" }) {
		t.Errorf("there are two: %+v", again)
	}
	for _, want := range []string{fresh.ID, `image: "fresh"`, "node group standard"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("image create does not say %q:\n%s", want, said.String())
		}
	}
	assertClean(t, fresh.ID)
	if _, there := lab.Server(node); there {
		t.Error("the cleaned instance still exists")
	}
	if diff := cmp.Diff(others, lab.Identities(t, cluster.ControlNodeName, "node01", "node02")); diff != "" {
		t.Errorf("other nodes changed (-before +after):\n%s", diff)
	}
	lab.AssertTerraformIsClean(t)

	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Image = "fresh" })
	job = lab.Job(t, "--nodelist="+node, harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	if built := lab.On(t, node, "cat", "/etc/of-the-image"); built != "built" {
		t.Errorf("the new node has %q", built)
	}
	if key := lab.On(t, node, "cat", "/etc/ssh/ssh_host_ed25519_key.pub"); key == hostKey {
		t.Error("the new node has the host key of the other one")
	}
	if id := lab.On(t, node, "cat", "/etc/machine-id"); strings.HasPrefix(id, "0123456789abcdef") {
		t.Errorf("the new node has the machine id of the other one: %s", id)
	}
	all = images(t)
	i = slices.IndexFunc(all, func(i listed) bool { return i.Name == "fresh" })
	want := listed{
		ID: fresh.ID, Name: "fresh", Status: "active", Node: node, Declared: []string{"standard"}, Nodes: node,
		ReadySeconds: all[i].ReadySeconds,
	}
	if diff := cmp.Diff(want, all[i]); diff != "" || all[i].ReadySeconds == 0 {
		t.Errorf("image list (-want +got):\n%s\nready in %v s", diff, all[i].ReadySeconds)
	}
	// The lab's nodes have no cloud-init, which is a warning.
	if out, code := lab.Call(t, "image", "check", "fresh"); code != 12 || !strings.Contains(out, "slurmd      slurm") ||
		!strings.Contains(out, "cloud-init is not installed") {
		t.Errorf("image check: exit code %d\n%s", code, out)
	}
	lab.LetGo(t, node)
	lab.AwaitJob(t, job, "COMPLETED")
	lab.AwaitQuiet(t) // it is powered down
}

// TestImageOfAPersistentNode makes an image of a node, which then comes back with its address and its former image.
func TestImageOfAPersistentNode(t *testing.T) {
	lab.AwaitIdle(t, "node02")
	before, addr := lab.Identities(t, "node02")["node02"], address(t, "node02")
	preview, _ := lab.Call(t, "image", "create", "node02", "--dry-run")
	if !strings.Contains(preview, "replace: new instance, after the image") {
		t.Errorf("the preview lacks the losses:\n%s", preview)
	}
	said := lab.Do(t, "image", "create", "node02", "--name", "of-node02")
	if !strings.Contains(said, `image: "of-node02"`) {
		t.Errorf("it does not say what to declare:\n%s", said)
	}
	lab.AwaitIdle(t, "node02")
	after := lab.Identities(t, "node02")["node02"]
	if after.ID == before.ID || after.Image != before.Image || address(t, "node02") != addr {
		t.Errorf("before %+v at %s, after %+v at %s", before, addr, after, address(t, "node02"))
	}
	again := lab.Job(t, "--nodelist=node02", "--wrap=hostname")
	lab.AwaitJob(t, again, "COMPLETED")
	if out, code := lab.Call(t, "image", "create", "node02", "--name", "of-node02"); code != 1 ||
		!strings.Contains(out, "there is already an image named") {
		t.Errorf("a second image of that name: exit code %d\n%s", code, out)
	}
	lab.AwaitIdle(t, "node02")
	lab.AssertTerraformIsClean(t)
}

// assertClean checks the files of an image.
func assertClean(t *testing.T, id string) {
	t.Helper()
	folder := filepath.Join(filepath.Dir(lab.Site), "images", id)
	files := 0
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		files++
		for _, secret := range []string{"munge.key", "slurm.conf", "id_ed25519", "ssh_host_*"} {
			match, _ := filepath.Match(secret, filepath.Base(path))
			if err == nil && match && d.Type()&os.ModeDevice == 0 { // a device stands for a removed file
				t.Errorf("the image has %s", path)
			}
		}
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, error %v", files, err)
	}
}
