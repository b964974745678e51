package attach_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/existing"
	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// TestTheSitesNodeIsAdoptedAndReleased adopts the site's own node while a job of the site runs there, and is killed
// twice. The job goes on, and after the release the server is as it was.
func TestTheSitesNodeIsAdoptedAndReleased(t *testing.T) {
	generation.OnlyFull(t)
	own := lab.StartOwnJob(t)
	before := server(t)
	control, files := lab.Sums(t, cluster.ControlNodeName), lab.Sums(t, existing.Static)
	if out, code := lab.Call(t, "adopt", "node01"); code != 1 || !strings.Contains(out, "the cloud has no server with") {
		t.Errorf("a node without a server: exit code %d:\n%s", code, out)
	}
	group := cluster.Group("site", "static", 1, 1)
	group.Width = 1
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups = append(d.NodeGroups, group) })
	lab.Do(t, "attach")

	log := lab.Journal(t)
	for _, kill := range []struct {
		when   string
		moment func() bool
	}{
		{"the pause has begun", func() bool { _, paused, err := log.Paused(t.Context()); return err == nil && paused }},
		{"the map has it", func() bool {
			nodes, _, err := log.Nodes(t.Context())
			return err == nil && nodes[existing.Static].HasInstance()
		}},
	} {
		cmd := lab.Reconfigure(t.Context(), "adopt", existing.Static)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, time.Minute, func() (bool, string) { return kill.moment(), kill.when })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if cmd.Wait() == nil {
			t.Errorf("the adoption had ended when %s", kill.when)
		}
		out, code := lab.Call(t, "adopt", "node01")
		if code != 2 || !strings.Contains(out, "adopt static1` is in progress; if it was interrupted, repeat it") {
			t.Errorf("another adoption after a kill when %s: exit code %d:\n%s", kill.when, code, out)
		}
	}
	out := lab.Do(t, "adopt", existing.Static)
	if !strings.Contains(out, "adopted: "+existing.Static) {
		t.Errorf("adopt:\n%s", out)
	}
	lab.AssertRunning(t, own)
	if out, code := lab.Call(t, "reconcile"); code != 0 {
		t.Errorf("the sources differ (exit code %d):\n%s", code, out)
	}
	if out, code := lab.Call(t, "adopt", existing.Static); code != 1 || !strings.Contains(out, "already") {
		t.Errorf("once more: exit code %d:\n%s", code, out)
	}
	lab.AssertUnchanged(t, existing.Static, files, "after the adoption")

	lab.Do(t, "release", existing.Static)
	if diff := cmp.Diff(before, server(t), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("after the release, the server differs (-before +after):\n%s", diff)
	}
	lab.AssertUnchanged(t, existing.Static, files, "after the release")
	lab.Do(t, "detach")
	lab.AssertUnchanged(t, cluster.ControlNodeName, control, "after the detachment")
	lab.EndOwnJob(t, own)
}

// TestAnAdoptedServerIsUsedAndReplaced adopts a server that runs no slurmd. A job boots it, and a reboot by Slurm
// replaces it: Nova removes its port with it, so that Terraform's first attempt fails.
func TestAnAdoptedServerIsUsedAndReplaced(t *testing.T) {
	generation.OnlyFull(t)
	if _, err := lab.MakeServers(t.Context(), "node01"); err != nil {
		t.Fatal(err)
	}
	before, _ := lab.Server("node01")
	lab.Do(t, "attach")
	lab.Do(t, "adopt", "node01")
	lab.Do(t, "deploy")
	job := lab.Job(t, "--partition=burst", "--nodelist=node01", harness.Until)
	lab.AwaitJob(t, job, "RUNNING")
	if after, _ := lab.Server("node01"); after.ID != before.ID {
		t.Errorf("node01 has another server: %+v, before %+v", after, before)
	}
	lab.Reimage(t, "node01", job, "node01")
	lab.AwaitQuiet(t)
	lab.Do(t, "destroy", "--yes")
	lab.Do(t, "detach")
}

// server returns the server of the site's node.
func server(t *testing.T) labcloud.Server {
	t.Helper()
	s, ok := lab.Server(existing.Static)
	if !ok {
		t.Fatal("the site's node has no server")
	}
	return s
}
