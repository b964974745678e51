package resize_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
)

// TestASlurmConfThatWouldEndJobsIsRefused edits the hardware of one group and then enlarges another one: a restarted
// slurmctld would end every job of the first. Then it removes a partition in which a job waits.
func TestASlurmConfThatWouldEndJobsIsRefused(t *testing.T) {
	resizesBack(t)
	declared := lab.Declaration
	lab.On(t, "node01", "rm", "-f", "/tmp/go") // of another test's job
	here := lab.Job(t, "--nodelist=node01", harness.Until)
	other := lab.Job(t, "--partition=burst", "--nodelist=b01", harness.Until)
	lab.AwaitJob(t, here, "RUNNING")
	lab.AwaitJob(t, other, "RUNNING")
	refuses := func(words []string, args ...string) {
		t.Helper()
		out, code := lab.Call(t, args...)
		if code == 0 && args[0] != "plan" {
			t.Errorf("%v is not refused", args)
		}
		for _, word := range words {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), word) {
				t.Errorf("%v does not say %q:\n%s", args, word, out)
			}
		}
		lab.AssertRunning(t, here, other)
	}

	edited := lab.Declaration
	edited.NodeGroups = slices.Clone(edited.NodeGroups)
	edited.NodeGroups[1].Slurm = maps.Clone(edited.NodeGroups[1].Slurm)
	edited.NodeGroups[1].Slurm["CPUs"] = 4
	if err := lab.Declare(edited); err != nil {
		t.Fatal(err)
	}
	words := []string{"slurm.conf would end the jobs on b01", "CPUs=4", "scontrol update nodename=b01 state=drain"}
	refuses(words, "plan", "deploy")
	refuses(words, "deploy")
	refuses(words, "enlarge", "standard", "--to", "3")
	if _, there := lab.Server("node03"); there {
		t.Error("node03 was made for a request that is refused")
	}

	edited.NodeGroups = slices.Clone(edited.NodeGroups)
	edited.NodeGroups[1].Slurm = map[string]any{"CPUs": 2, "RealMemory": 500}
	edited.NodeGroups[0].MinNodes = 2
	all := edited.Partitions
	edited.Partitions = slices.DeleteFunc(slices.Clone(all), func(p cluster.Partition) bool { return p.Name == "wide" })
	if err := lab.Declare(edited); err != nil {
		t.Fatal(err)
	}
	waiting := lab.Job(t, "--partition=wide", "--begin=now+1hour", harness.Until)
	refuses([]string{"slurm.conf would end the 1 job(s) of partition wide"}, "deploy")
	lab.OnControl(t, "scancel", waiting)

	// The hardware of nodes without jobs may change, and so may the group's when its jobs have ended.
	edited.Partitions = all
	edited.NodeGroups[1].Slurm = map[string]any{"CPUs": 4, "RealMemory": 500}
	if err := lab.Declare(edited); err != nil {
		t.Fatal(err)
	}
	lab.LetGo(t, "b01")
	lab.AwaitJob(t, other, "COMPLETED")
	lab.AwaitQuiet(t)
	lab.Do(t, "enlarge", "standard", "--to", "3")
	if cpus := lab.OnControl(t, "sinfo", "--noheader", "--nodes=b01", "--partition=burst", "--format=%c"); cpus != "4" {
		t.Errorf("b01 has %s CPUs", cpus)
	}
	lab.AssertRunning(t, here)
	lab.AssertNeverRestarted(t, here)
	lab.AssertTerraformIsClean(t)

	lab.LetGo(t, "node01")
	lab.AwaitJob(t, here, "COMPLETED")
	if err := lab.Declare(declared); err != nil {
		t.Fatal(err)
	}
	lab.Do(t, "deploy")
	lab.AwaitQuiet(t)
}

// TestTheDeclaredHardwareIsCheckedAgainstTheNodes declares less hardware than the nodes have. Slurm accepts that only
// without config_overrides.
func TestTheDeclaredHardwareIsCheckedAgainstTheNodes(t *testing.T) {
	t.Cleanup(func() { // after the declaration was restored
		if out, err := lab.Reconfigure(context.Background(), "deploy").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	const finding = `"check":"hardware"`
	check := func() string {
		out, _ := lab.Call(t, "check", "--json")
		return strings.ReplaceAll(out, `": "`, `":"`)
	}
	if out := check(); strings.Contains(out, finding) {
		t.Errorf("with config_overrides the hardware is compared:\n%s", out)
	}
	lab.Redeclare(t, func(d *cluster.Declaration) {
		d.Slurm.Extra = maps.Clone(d.Slurm.Extra)
		delete(d.Slurm.Extra, "SlurmdParameters")
		for i := range d.NodeGroups {
			d.NodeGroups[i].Slurm = map[string]any{"CPUs": 1, "RealMemory": 100}
		}
	})
	lab.Do(t, "deploy")
	out := check()
	for _, words := range []string{finding, "group standard: slurmd -C on node01 prints ", "declared is ",
		"RealMemory=100", "in all.yml, node_groups, standard: slurm: {"} {
		if !strings.Contains(out, words) {
			t.Errorf("there is no %q in\n%s", words, out)
		}
	}
}
