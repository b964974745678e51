package update_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

func address(t *testing.T, node string) string {
	t.Helper()
	s, ok := lab.Server(node)
	if !ok || len(s.Addresses) == 0 {
		t.Fatalf("%s has no address: %+v", node, s)
	}
	return s.Addresses[0].String()
}

// bumpImage declares another image for the first group until the test ends, and then restores the persistent nodes.
func bumpImage(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		for _, node := range []string{"node01", "node02"} {
			if imageOf(t, node) == cluster.ImageV1 {
				continue
			}
			if out, err := lab.Reconfigure(context.Background(), "update", node).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}
	})
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Image = cluster.ImageV2 })
}

func imageOf(t *testing.T, node string) string {
	t.Helper()
	release, err := lab.Command(node, "cat", "/etc/image-release").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(release))
}

func TestReimageBySlurmdLeavesTheOtherJobAlone(t *testing.T) {
	long := lab.Job(t, "--nodelist=node02", "--wrap=sleep 45")
	lab.AwaitJob(t, long, "RUNNING")
	before := lab.Identities(t, "node01", "node02")
	asked := time.Now()
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage", "node01")
	after := lab.AwaitRenewed(t, "node01", before["node01"])
	if after.ID == before["node01"].ID {
		t.Errorf("the instance is the old one: %+v", after)
	}
	if text, err := lab.Command(cluster.ControlNodeName, "sh", "-c",
		"date +%s -d $(scontrol show node node01 | sed -n 's/.*BootTime=\\([^ ]*\\).*/\\1/p')").Output(); err != nil ||
		strings.TrimSpace(string(text)) <= fmt.Sprint(asked.Unix()) {
		t.Errorf("the node was booted at %s, and the reboot requested at %d (%v)", text, asked.Unix(), err)
	}
	lab.AwaitJob(t, long, "COMPLETED")
	if restarts, err := lab.JobField(long, "Restarts"); restarts != "0" {
		t.Errorf("the other node's job was restarted %s times (%v)", restarts, err)
	}
	if diff := cmp.Diff(before["node02"], lab.Identities(t, "node02")["node02"]); diff != "" {
		t.Errorf("the other node changed (-before +after):\n%s", diff)
	}
	again := lab.Job(t, "--nodelist=node01", "--wrap=hostname")
	lab.AwaitJob(t, again, "COMPLETED")
	lab.AssertTerraformIsClean(t)
}

func TestUpdateWithoutChangeIsAReboot(t *testing.T) {
	before := lab.Identities(t, "node01", "node02")
	out, code := lab.Call(t, "update", "node01")
	if code != 0 || !strings.Contains(out, "rebooted") {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	lab.AwaitIdle(t, "node01")
	after := lab.Identities(t, "node01", "node02")
	if after["node01"].Boot == before["node01"].Boot {
		t.Error("the node was not booted again")
	}
	kept := after["node01"]
	kept.Boot = before["node01"].Boot
	if diff := cmp.Diff(map[string]harness.Identity{"node01": before["node01"], "node02": before["node02"]},
		map[string]harness.Identity{"node01": kept, "node02": after["node02"]}); diff != "" {
		t.Errorf("more than the boot changed (-before +after):\n%s", diff)
	}
}

func TestUpdateToABumpedImageRebuildsInPlace(t *testing.T) {
	before, addr := lab.Identities(t, "node01"), address(t, "node01")
	bumpImage(t)
	preview, _ := lab.Call(t, "update", "--dry-run", "node01")
	if !strings.Contains(preview, "rebuild: disk lost, same address") {
		t.Errorf("the preview lacks the losses:\n%s", preview)
	}
	reread := readings(t)
	if out, code := lab.Call(t, "update", "node01"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	lab.AwaitIdle(t, "node01")
	if now := readings(t); now != reread {
		t.Errorf("slurmctld read slurm.conf %d times, although no address has changed, and then forgets its tasks "+
			"after reboots", now-reread)
	}
	after := lab.Identities(t, "node01")["node01"]
	if after.ID != before["node01"].ID || address(t, "node01") != addr || imageOf(t, "node01") != cluster.ImageV2 ||
		after.Boot == before["node01"].Boot {
		t.Errorf("before %+v at %s, after %+v at %s of image %s", before["node01"], addr, after,
			address(t, "node01"), imageOf(t, "node01"))
	}
	if image := imageOf(t, "node02"); image != cluster.ImageV1 {
		t.Errorf("the other node is of image %s", image)
	}
	lab.AssertTerraformIsClean(t) // with two images in one group
	// A reason may name an image: this restores the old one before the declaration does.
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME",
		"reason=reimage image="+cluster.ImageV1, "node01")
	lab.AwaitRenewed(t, "node01", after)
	if image := imageOf(t, "node01"); image != cluster.ImageV1 {
		t.Errorf("the node is of image %s", image)
	}
	lab.AssertTerraformIsClean(t)
}

// readings returns the number of times slurmctld has read slurm.conf.
func readings(t *testing.T) int {
	t.Helper()
	log, err := lab.Command(cluster.ControlNodeName, "cat", "/var/log/slurm/slurmctld.log").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(log), "Processing Reconfiguration Request")
}

func TestUsersUpdateWaitsForTheJob(t *testing.T) {
	id := lab.Job(t, "--nodelist=node01", "--wrap=sleep 40")
	lab.AwaitJob(t, id, "RUNNING")
	before := lab.Identities(t, "node01")
	update := lab.Reconfigure(t.Context(), "update", "node01")
	var said strings.Builder
	update.Stdout, update.Stderr = &said, &said
	if err := update.Start(); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, harness.JobPatience, func() (bool, string) {
		state, err := lab.NodeState("node01")
		reason, _ := lab.NodeReason("node01")
		return strings.Contains(state, "DRAIN") && strings.HasPrefix(reason, "reconfigure: update"),
			fmt.Sprintf("node01 is %s, %q (%v)", state, reason, err)
	})
	// Requests for other nodes are still carried out.
	other := lab.Job(t, "--nodelist=node03", "--wrap=true")
	lab.AwaitJob(t, other, "COMPLETED")
	lab.AwaitJob(t, id, "COMPLETED")
	if restarts, err := lab.JobField(id, "Restarts"); restarts != "0" {
		t.Errorf("the job was restarted %s times (%v)", restarts, err)
	}
	if err := update.Wait(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, said.String(), lab.WorkerLogs())
	}
	lab.AwaitIdle(t, "node01")
	if after := lab.Identities(t, "node01")["node01"]; after.Boot == before["node01"].Boot {
		t.Errorf("the node was not booted again\n%s", said.String())
	}
	lab.AwaitQuiet(t)
}

func TestTheDryRunEqualsTheRun(t *testing.T) {
	bumpImage(t)
	for _, call := range [][]string{{"update", "node[01-02],node04"}, {"deploy"}, {"resume", "node03"},
		{"suspend", "node01,node03"},
		{"enlarge", "standard", "--to", "3"}, {"shrink", "standard", "--to", "2"}} {
		switch call[0] { // otherwise Slurm may power node03 down between preview and run
		case "suspend":
			lab.AwaitJob(t, lab.Job(t, "--nodelist=node03", harness.Until), "RUNNING")
		case "enlarge":
			lab.LetGo(t, "node03")
			lab.AwaitQuiet(t)
		}
		foreseen, _ := reconfigureJSON(t, append([]string{"plan"}, call...)...)
		var preview struct {
			Nodes    []struct{ Node, Action string }
			Rejected []struct{ Node string }
		}
		if err := json.Unmarshal([]byte(foreseen), &preview); err != nil {
			t.Fatalf("plan %v: %v\n%s", call, err, foreseen)
		}
		want := map[string]string{}
		for _, n := range preview.Nodes {
			want[n.Node] = n.Action
		}
		for _, n := range preview.Rejected {
			want[n.Node] = "rejected"
		}
		others := lab.Identities(t, cluster.ControlNodeName, "node01", "node02")
		told, _ := reconfigureJSON(t, call...)
		if diff := cmp.Diff(others, lab.Identities(t, cluster.ControlNodeName, "node01", "node02")); diff != "" &&
			call[0] != "update" {
			t.Errorf("%v, with another image declared, changed instances without a request (-before +after):\n%s", call,
				diff)
		}
		var outcome struct {
			Verdicts []struct{ Node, Action, Status string }
		}
		if err := json.Unmarshal([]byte(told), &outcome); err != nil {
			t.Fatalf("%v: %v\n%s", call, err, told)
		}
		got := map[string]string{}
		for _, v := range outcome.Verdicts {
			switch v.Status {
			case "done":
				got[v.Node] = v.Action
			case "unchanged":
			default:
				got[v.Node] = v.Status
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-preview +run):\n%s", call, diff)
		}
	}
	lab.AwaitQuiet(t)
	lab.AssertTerraformIsClean(t)
}

func reconfigureJSON(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	out, err := lab.Reconfigure(t.Context(), append([]string{"--json"}, args...)...).Output()
	return string(out), err
}

func TestRebootFromTheController(t *testing.T) {
	declared := lab.Declaration
	t.Cleanup(func() {
		if err := lab.Declare(declared); err != nil {
			t.Error(err)
		}
		// The test's own context has ended here.
		if out, err := lab.Reconfigure(context.Background(), "deploy").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	changed := declared
	changed.Slurm.ControllerParameters = append(slices.Clone(declared.Slurm.ControllerParameters),
		"reboot_from_controller")
	if err := lab.Declare(changed); err != nil {
		t.Fatal(err)
	}
	if out, code := lab.Call(t, "deploy"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	lab.AwaitIdle(t, "node01")
	lab.AwaitIdle(t, "node02")
	before := lab.Identities(t, "node01", "node02")
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=maintenance", "node[01-02]")
	for _, node := range []string{"node01", "node02"} {
		if after := lab.AwaitRenewed(t, node, before[node]); after.ID != before[node].ID ||
			after.Image != before[node].Image {
			t.Errorf("%s should only be rebooted: before %+v, after %+v", node, before[node], after)
		}
	}
	// Later releases pass a hostlist, and the features to reboot with.
	before = lab.Identities(t, "node01", "node02")
	lab.OnControl(t, "runuser", "-u", "slurm", "--", "/usr/local/libexec/reconfigure/reboot.sh",
		"node[01-02]", "standard")
	for _, node := range []string{"node01", "node02"} {
		lab.AwaitRenewed(t, node, before[node])
	}
}

func TestUpdateToAnotherFlavorKeepsTheDisk(t *testing.T) {
	t.Cleanup(func() {
		// Here the old flavor is declared again, and the test's context has ended.
		if out, err := lab.Reconfigure(context.Background(), "update", "node02").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	if out, err := lab.Command("node02", "touch", "/var/lib/kept").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	before, addr := lab.Identities(t, "node02")["node02"], address(t, "node02")
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Flavor = cluster.FlavorLarge })
	if preview, _ := lab.Call(t, "plan", "update", "node02"); !strings.Contains(preview, "resize: restarted") {
		t.Errorf("the preview lacks the changes:\n%s", preview)
	}
	if out, code := lab.Call(t, "update", "node02"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	lab.AwaitIdle(t, "node02")
	after := lab.Identities(t, "node02")["node02"]
	if after.ID != before.ID || address(t, "node02") != addr || after.Flavor == before.Flavor ||
		after.Image != before.Image || after.Boot == before.Boot {
		t.Errorf("before %+v at %s, after %+v at %s", before, addr, after, address(t, "node02"))
	}
	if out, err := lab.Command("node02", "ls", "/var/lib/kept").CombinedOutput(); err != nil {
		t.Errorf("the disk is another one: %s", out)
	}
	lab.AssertTerraformIsClean(t)
}

// TestUpdateToAnotherZoneIsAnotherInstance shows that a rebuild does not do: it would stay on its host.
func TestUpdateToAnotherZoneIsAnotherInstance(t *testing.T) {
	beside := lab.Job(t, "--nodelist=node01", "--wrap=sleep 20")
	lab.AwaitJob(t, beside, "RUNNING")
	others, before, addr := lab.Identities(t, "node01"), lab.Identities(t, "node02")["node02"], address(t, "node02")
	if s, _ := lab.Server("node02"); s.Zone != cluster.ZoneUsual {
		t.Fatalf("before, it is in zone %q", s.Zone)
	}
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].Zone = cluster.ZoneOther })
	if status, _ := lab.Call(t, "status", "--json"); !strings.Contains(status, `"placement"`) {
		t.Errorf("status does not say what is outdated:\n%s", status)
	}
	if preview, _ := lab.Call(t, "plan", "update", "node02"); !strings.Contains(preview, "its placement differs") ||
		!strings.Contains(preview, "replace") {
		t.Errorf("the preview lacks the change:\n%s", preview)
	}
	if out, code := lab.Call(t, "update", "node02"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	lab.AwaitIdle(t, "node02")
	after := lab.Identities(t, "node02")["node02"]
	if s, _ := lab.Server("node02"); s.Zone != cluster.ZoneOther || after.ID == before.ID || address(t, "node02") != addr {
		t.Errorf("%+v at %s became %+v in zone %q at %s", before, addr, after, s.Zone, address(t, "node02"))
	}
	if diff := cmp.Diff(others, lab.Identities(t, "node01")); diff != "" {
		t.Errorf("the other node changed (-before +after):\n%s", diff)
	}
	lab.AwaitJob(t, beside, "COMPLETED")
	lab.AssertTerraformIsClean(t)
}

// Slurm uses a node again when its reboot has timed out. So the failure must be set in Slurm after that.
func TestFailedReimageIsToldToSlurm(t *testing.T) {
	before := lab.Identities(t, "node02")["node02"]
	lab.Order(t, labcloud.Fault{Kind: labcloud.NoSSHD, Server: "node02"})
	lab.OnControl(t, "scontrol", "reboot", "ASAP", "nextstate=RESUME", "reason=reimage", "node02")
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		state, err := lab.NodeState("node02")
		reason, _ := lab.NodeReason("node02")
		return strings.Contains(state, "DOWN") && strings.Contains(state, "DRAIN") &&
			strings.HasPrefix(reason, "reconfigure:"), fmt.Sprintf("node02 is %s, %q (%v)", state, reason, err)
	})
	lab.AwaitNothingWaits(t)
	if out, _ := lab.Call(t, "status", "node02"); !strings.Contains(out, "no-ssh") {
		t.Errorf("the status does not say why:\n%s", out)
	}
	if out, code := lab.Call(t, "update", "--reimage", "node02"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	lab.AwaitIdle(t, "node02")
	if after := lab.Identities(t, "node02")["node02"]; after.ID == before.ID {
		t.Errorf("the instance is the old one: %+v", after)
	}
	lab.AssertTerraformIsClean(t)
}
