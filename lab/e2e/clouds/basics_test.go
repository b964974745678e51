package clouds_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

func TestNodesComeAndGoWithAJob(t *testing.T) {
	scenario(t, "a job's nodes are made, have the addresses of their ports, and are removed after it")
	id := lab.Job(t, "--nodelist=node[02-03]", "--nodes=2", harness.Until)
	lab.AwaitJob(t, id, "RUNNING")
	for _, node := range []string{cluster.ControlNodeName, "node01", "node02", "node03"} {
		assertAddress(t, node)
	}
	lab.AssertTerraformIsClean(t)
	lab.LetGo(t, "node02")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertNeverRestarted(t, id)
	awaitPeace(t)
}

// assertAddress checks on the node itself that it has the address that the cloud reports.
func assertAddress(t *testing.T, node string) {
	t.Helper()
	s, ok := lab.Server(node)
	if !ok || len(s.Addresses) != 1 {
		t.Fatalf("%s: %+v", node, s)
	}
	if own := lab.On(t, node, "hostname", "-I"); !slices.Contains(strings.Fields(own), s.Addresses[0].String()) {
		t.Errorf("%s has %s, and %s in the cloud", node, own, s.Addresses[0])
	}
}

// awaitPeace waits until only the control node and the persistent node exist and no request is open, and checks that
// Terraform plans no change.
func awaitPeace(t *testing.T) {
	t.Helper()
	lab.AwaitQuiet(t)
	lab.AwaitIdle(t, "node01")
	if all := names(lab.Servers()); all != cluster.ControlNodeName+",node01" {
		t.Errorf("the cloud has %s\n%s", all, lab.WorkerLogs())
	}
	lab.AssertTerraformIsClean(t)
}

func TestPlainReboot(t *testing.T) {
	scenario(t, "a node is rebooted, for an administrator and for Slurm")
	before := lab.Identities(t, "node01")["node01"]
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	between := lab.Identities(t, "node01")["node01"]
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=maintenance", "node01")
	after := lab.AwaitRenewed(t, "node01", between)
	if before.Boot == between.Boot || between.Boot == after.Boot || before.ID != after.ID || before.Image != after.Image {
		t.Errorf("%+v, then %+v, then %+v", before, between, after)
	}
	awaitPeace(t)
}

func TestBumpedImageReimages(t *testing.T) {
	scenario(t, "another image is declared: an update rebuilds the node, a reimage by Slurm replaces it")
	before := lab.Identities(t, "node01")["node01"]
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Image = cluster.ImageV2 })
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	rebuilt := lab.Identities(t, "node01")["node01"]
	if rebuilt.ID != before.ID || rebuilt.Boot == before.Boot || lab.ImageOf(t, "node01") != cluster.ImageV2 {
		t.Errorf("before %+v, after %+v of image %s", before, rebuilt, lab.ImageOf(t, "node01"))
	}
	assertAddress(t, "node01")
	lab.AssertTerraformIsClean(t)
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage image="+cluster.ImageV1, "node01")
	after := lab.AwaitRenewed(t, "node01", rebuilt)
	if lab.ImageOf(t, "node01") != cluster.ImageV1 {
		t.Errorf("after the reimage %+v of image %s", after, lab.ImageOf(t, "node01"))
	}
	assertAddress(t, "node01")
	id := lab.Job(t, "--nodelist=node01", "--wrap=hostname")
	lab.AwaitJob(t, id, "COMPLETED")
	awaitPeace(t)
}

func names(servers []labcloud.Server) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}
