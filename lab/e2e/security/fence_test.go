package security_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// TestAnotherDeclaredImageChangesNoInstance declares another image; then Slurm suspends and resumes nodes. Existing
// instances must not change, and new ones have the new image.
func TestAnotherDeclaredImageChangesNoInstance(t *testing.T) {
	long := lab.Job(t, "--nodelist=node03", "--wrap=until [ -e /tmp/go ]; do sleep 1; done")
	short := lab.Job(t, "--nodelist=node04", "--wrap=true")
	lab.AwaitJob(t, long, "RUNNING")
	lab.AwaitJob(t, short, "COMPLETED")

	declared := lab.Declaration
	t.Cleanup(func() {
		if err := lab.Declare(declared); err != nil {
			t.Error(err)
		}
	})
	bumped := declared
	bumped.NodeGroups = append([]cluster.NodeGroup(nil), declared.NodeGroups...)
	bumped.NodeGroups[0].Image = cluster.ImageV2
	bumped.ControlNode.Image = cluster.ImageV2
	if err := lab.Declare(bumped); err != nil {
		t.Fatal(err)
	}
	bystanders := []string{cluster.ControlNodeName, "node01", "node02", "node03"}
	before := lab.Identities(t, bystanders...)

	lab.Eventually(t, harness.IdlePatience, func() (bool, string) {
		_, there := lab.Server("node04")
		return !there, "node04 has its instance still"
	})
	resumed := lab.Job(t, "--nodelist=node05", "--wrap=true")
	lab.AwaitJob(t, resumed, "COMPLETED")

	if release, err := lab.Command("node05", "cat",
		"/etc/image-release").Output(); strings.TrimSpace(string(release)) != cluster.ImageV2 {
		t.Errorf("the new node has image %q (%v)", release, err)
	}
	if diff := cmp.Diff(before, lab.Identities(t, bystanders...)); diff != "" {
		t.Errorf("instances changed without a request (-before +after):\n%s", diff)
	}
	lab.AssertTerraformIsClean(t)
	if out, err := lab.Command("node03", "touch", "/tmp/go").CombinedOutput(); err != nil {
		t.Fatalf("touch: %v\n%s", err, out)
	}
	lab.AwaitJob(t, long, "COMPLETED")
	if restarts, err := lab.JobField(long, "Restarts"); restarts != "0" {
		t.Errorf("the running job was restarted %s times (%v)", restarts, err)
	}
	lab.AwaitQuiet(t)
}
