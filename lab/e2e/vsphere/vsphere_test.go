// Package vsphere_test tests a cluster in a simulated vCenter, whose virtual machines are machines of the lab: with
// real Terraform with its provider for vSphere, SSH, Ansible and Slurm. `make test-vsphere` runs it; `make test` skips
// it, since the provider takes minutes to build.
package vsphere_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/machine"
	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/lab/tools"
	"github.com/eiffel-hpc/eiffel/lab/vcenter"
)

var (
	lab    harness.Lab
	center *vcenter.Cloud
)

const checkout = "../../.."

func TestMain(m *testing.M) {
	if os.Getenv("EIFFEL_VSPHERE") == "" {
		os.Exit(m.Run()) // each test is skipped
	}
	if _, err := tools.FindVSphere(checkout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(lab.Main(m, cluster.Config{
		Name: "vsphere", Gateway: netip.MustParsePrefix("10.78.0.1/24"),
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 1, 3)},
		OtherCloud: func(ctx context.Context, c labcloud.Config, h *machine.Host) (_ cluster.Cloud, err error) {
			if center, err = vcenter.New(ctx, c, h); err != nil {
				return nil, err
			}
			return center, nil
		},
	}, declare))
}

// declare changes the lab's declaration to vSphere.
func declare(d *cluster.Declaration) {
	d.Provider = "vsphere"
	d.ControlNode.Network, d.NodeGroups[0].Network = vcenter.Network, vcenter.Network
}

// scenario gives a test its words in docs/how-it-works/tested.md.
func scenario(t *testing.T, words string) {
	t.Helper()
	needs.VSphere(t, checkout)
	t.Attr("scenario", words)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestNodesComeAndGoWithAJob(t *testing.T) {
	scenario(t, "a job's nodes are made, have the addresses that vCenter says, and are removed after it")
	id := lab.Job(t, "--nodelist=node[02-03]", "--nodes=2", harness.Until)
	lab.AwaitJob(t, id, "RUNNING")
	for _, node := range []string{cluster.ControlNodeName, "node01", "node02", "node03"} {
		assertAddress(t, node)
	}
	assertClean(t)
	lab.LetGo(t, "node02")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertNeverRestarted(t, id)
	awaitPeace(t)
}

// assertAddress checks that a node has the address that vCenter reports.
func assertAddress(t *testing.T, node string) {
	t.Helper()
	s, ok := lab.Server(node)
	if !ok || len(s.Addresses) != 1 {
		t.Fatalf("%s: %+v", node, s)
	}
	if own := lab.On(t, node, "hostname", "-I"); own != s.Addresses[0].String() {
		t.Errorf("%s has %s, and %s in vCenter", node, own, s.Addresses[0])
	}
}

// assertClean runs `terraform plan` as an administrator would; it must plan no change.
func assertClean(t *testing.T) {
	t.Helper()
	site := lab.Directory()
	out, err := lab.OnControlHost(t.Context(), filepath.Join(site, "terraform", "vsphere"), "env",
		"SSL_CERT_FILE="+filepath.Join(site, "vsphere.pem"), fmt.Sprint(lab.Declaration.Reconfigure["terraform"]),
		"plan", "-input=false", "-no-color", "-detailed-exitcode", "-lock-timeout=2m").CombinedOutput()
	if err != nil {
		t.Errorf("terraform plan is not clean: %v\n%s", err, out)
	}
}

// awaitPeace waits until only the control node and the persistent node exist and no request is open, and checks that
// Terraform plans no change.
func awaitPeace(t *testing.T) {
	t.Helper()
	lab.AwaitQuiet(t)
	lab.AwaitIdle(t, "node01")
	if all := names(); all != cluster.ControlNodeName+",node01" {
		t.Errorf("vCenter has %s\n%s", all, lab.WorkerLogs())
	}
	assertClean(t)
}

func names() string {
	var all []string
	for _, s := range lab.Servers() {
		all = append(all, s.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
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

func TestAnotherTemplateReplaces(t *testing.T) {
	scenario(t, "another template is declared: an update replaces the node, and a reimage by Slurm does")
	before := lab.Identities(t, "node01")["node01"]
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Image = vcenter.ImageV2 })
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	renewed := lab.Identities(t, "node01")["node01"]
	if renewed.ID == before.ID || imageOf(t, "node01") != vcenter.ImageV2 {
		t.Errorf("before %+v, after %+v of image %s", before, renewed, imageOf(t, "node01"))
	}
	assertClean(t)
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage image="+vcenter.ImageV1, "node01")
	if after := lab.AwaitRenewed(t, "node01", renewed); imageOf(t, "node01") != vcenter.ImageV1 {
		t.Errorf("after the reimage %+v of image %s", after, imageOf(t, "node01"))
	}
	assertAddress(t, "node01")
	id := lab.Job(t, "--nodelist=node01", "--wrap=hostname")
	lab.AwaitJob(t, id, "COMPLETED")
	awaitPeace(t)
}

// imageOf returns the name of the image that a node's disk was made from.
func imageOf(t *testing.T, node string) string {
	t.Helper()
	return lab.On(t, node, "cat", "/etc/image-release")
}

func TestSwitchedOffBehindOurBack(t *testing.T) {
	scenario(t, "a persistent node is switched off by somebody else")
	before := lab.Identities(t, "node01")["node01"]
	vm, err := center.Machine(t.Context(), named("node01"))
	check(t, err)
	task, err := vm.PowerOff(t.Context())
	check(t, err)
	check(t, task.Wait(t.Context()))
	if s, _ := lab.Server("node01"); s.Status != "SHUTOFF" || lab.Command("node01", "true").Run() == nil {
		t.Errorf("%+v still runs", s)
	}
	if out, code := lab.Call(t, "reconcile", "--recheck", "1s"); code != 10 || !strings.Contains(out, "stopped") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	lab.Do(t, "update", "node01")
	lab.AwaitIdle(t, "node01")
	if after := lab.Identities(t, "node01")["node01"]; after.ID != before.ID || after.Boot == before.Boot {
		t.Errorf("before %+v, after %+v", before, after)
	}
	awaitPeace(t)
}

// named returns the name of a node's instance in vCenter.
func named(node string) string { return lab.Declaration.ClusterName + "-" + node }

func TestKilledWhileAGuestBoots(t *testing.T) {
	scenario(t, "the worker and Terraform are killed while a guest boots: its instance is removed, and another one made")
	center.Mute(named("node02"))
	id := lab.Job(t, "--nodelist=node02", harness.Until)
	var left labcloud.Server
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		left, _ = lab.Server("node02")
		return left.Status == "ACTIVE", fmt.Sprintf("node02 is %+v", left)
	})
	lab.KillWorkers(t)
	lab.Do(t, "worker", "--once")
	lab.AwaitJob(t, id, "RUNNING")
	if is, _ := lab.Server("node02"); is.ID == left.ID || names() != cluster.ControlNodeName+",node01,node02" {
		t.Errorf("before %+v, after %+v, and vCenter has %s", left, is, names())
	}
	lab.LetGo(t, "node02")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertNeverRestarted(t, id)
	awaitPeace(t)
}

func TestAGuestThatSaysNoAddress(t *testing.T) {
	scenario(t, "a guest never says its address: another instance is made")
	center.Mute(named("node02"))
	id := lab.Job(t, "--nodelist=node02", harness.Until)
	var silent labcloud.Server
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		silent, _ = lab.Server("node02")
		return silent.Status == "ACTIVE", fmt.Sprintf("node02 is %+v", silent)
	})
	lab.AwaitJob(t, id, "RUNNING")
	if is, _ := lab.Server("node02"); is.ID == silent.ID {
		t.Errorf("the job runs on %+v", is)
	}
	lab.LetGo(t, "node02")
	lab.AwaitJob(t, id, "COMPLETED")
	lab.AssertNeverRestarted(t, id)
	awaitPeace(t)
}

// TestWholeClusterIsRemoved is the last one.
func TestWholeClusterIsRemoved(t *testing.T) {
	scenario(t, "the whole cluster is removed")
	lab.Do(t, "destroy", "--yes")
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		left := names()
		return left == "", "vCenter has " + left
	})
	assertClean(t)
}
