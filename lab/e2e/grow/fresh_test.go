package grow_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// TestEachJobHasInstancesOfItsOwn runs jobs in a partition with `fresh: job`, one of them twice, on fewer nodes than
// jobs. Then it prevents Slurm from powering nodes down after their jobs.
func TestEachJobHasInstancesOfItsOwn(t *testing.T) {
	const burst = 1
	lab.DeployAfter(t)
	ordinary := lab.Job(t, "--nodelist=b01", harness.Until)
	lab.AwaitJob(t, ordinary, "RUNNING")
	before, _ := lab.Server("b01")

	lab.Redeclare(t, func(d *cluster.Declaration) {
		large := cluster.Group("large", "a", 0, 1)
		large.Flavor, large.Slurm = cluster.FlavorLarge, nil
		d.NodeGroups = slices.Insert(d.NodeGroups, burst, large)
		d.Partitions[0].Groups = []string{"standard"}
		d.Partitions = append(d.Partitions, cluster.Partition{Name: "single", Groups: []string{"large", "burst"},
			Fresh: "job"})
	})
	lab.Do(t, "deploy")
	lab.LetGo(t, "b01")
	lab.AwaitJob(t, ordinary, "COMPLETED")

	submit := func(args ...string) string { return lab.Job(t, append(args, "--partition=single")...) }
	first := submit("--nodelist=b01", "--wrap=true")
	again := submit(harness.Until)
	jobs := []string{first, again, submit("--mem=3000", "--wrap=true")}
	for range 3 {
		jobs = append(jobs, submit("--wrap=true"))
	}
	lab.AwaitJob(t, again, "RUNNING")
	lab.OnControl(t, "scontrol", "requeue", again)
	lab.Restart(t, again)
	lab.AwaitJob(t, again, "RUNNING")
	node, err := lab.JobField(again, "NodeList")
	if err != nil {
		t.Fatal(err)
	}
	lab.LetGo(t, node)
	for _, id := range jobs {
		lab.AwaitJob(t, id, "COMPLETED")
	}
	lab.AwaitQuiet(t)
	assertNoneShared(t, jobs, before.ID)
	for id, want := range map[string]string{jobs[1]: "b02", jobs[2]: "a01"} { // the smallest free node that suffices
		if r := runs(t, []string{id}); r[0].Nodes.String() != want {
			t.Errorf("job %s was on %s, not %s; its runs are %+v\n%s", id, r[0].Nodes, want, r, lab.SlurmLogs())
		}
	}

	// Without the power down, the node is idle after its job, and gets the next one.
	holder := submit("--nodelist=b01", harness.Until)
	lab.AwaitJob(t, holder, "RUNNING")
	used, _ := lab.Server("b01")
	lab.IgnoreTheEndOfJobs(t, "b01")
	lab.LetGo(t, "b01")
	lab.AwaitJob(t, holder, "COMPLETED")
	refused := submit("--nodelist=b01", "--wrap=true")
	lab.AwaitRefused(t, refused)
	lab.Restart(t, refused)
	lab.AwaitJob(t, refused, "COMPLETED")
	if s, _ := lab.Server("b01"); s.ID == used.ID {
		t.Errorf("both jobs ran on %s", s.ID)
	}
	lab.AwaitQuiet(t)
	lab.AssertTerraformIsClean(t)
}

// assertNoneShared checks that each run of the jobs had instances, and that no two runs shared one.
func assertNoneShared(t *testing.T, ids []string, before string) {
	t.Helper()
	served := map[string]string{before: "the job before"}
	all := runs(t, ids)
	if len(all) != len(ids)+1 {
		t.Errorf("%d jobs, one of which was requeued, have the runs %+v", len(ids), all)
	}
	for _, run := range all {
		if len(run.Instances) == 0 {
			t.Errorf("no instance of %+v is known", run)
		}
		for _, life := range run.Instances {
			name := fmt.Sprintf("job %d, started at %s,", run.ID, run.Started)
			if other, shared := served[life.Instance]; shared {
				t.Errorf("instance %s of %s served %s and %s", life.Instance, life.Node, other, name)
			}
			served[life.Instance] = name
		}
	}
}

// runs returns the runs of jobs.
func runs(t *testing.T, ids []string) []usage.Job {
	t.Helper()
	out, err := lab.Reconfigure(t.Context(), append([]string{"jobs", "-o", "json"}, ids...)...).Output()
	var all []usage.Job
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return all
}
