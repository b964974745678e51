package clouds_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// The environment variables with the number of kills and the random seed.
const (
	killsVariable = "EIFFEL_KILLS"
	seedVariable  = "EIFFEL_SEED"
)

// TestStormOfKills kills the worker, its Terraform, or the worker with all of its processes, at random moments, while
// nodes are made, booted, rebuilt, stopped, started and removed. After each kill all sources must agree again.
func TestStormOfKills(t *testing.T) {
	kills := 5
	if real != nil {
		kills = 50
	}
	kills = number(t, killsVariable, kills)
	scenario(t, fmt.Sprintf("%d kills at random moments of the worker, of Terraform, and of both", kills))
	seed := number(t, seedVariable, int(time.Now().UnixNano()))
	t.Logf("%s=%d plays the same steps; not at the same moments", seedVariable, seed)
	s := &storm{T: t, rand: rand.New(rand.NewPCG(uint64(seed), 0))}
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].WhenIdle = "stop" })
	log := lab.Journal(t)
	t.Cleanup(func() {
		if t.Failed() {
			s.explain(log)
		}
	})
	for i := range kills {
		t.Logf("kill %d of %d", i+1, kills)
		s.round()
		if t.Failed() {
			return // later checks say nothing about its cause
		}
	}
	for _, job := range s.jobs {
		awaitRequeued(t, job, "COMPLETED")
	}
	lab.AwaitNothingWaits(t)
	lab.Redeclare(t, func(d *cluster.Declaration) { d.NodeGroups[0].WhenIdle = "" })
	// Stopped nodes are removed. One that Slurm powers down at this moment is rejected.
	lab.Eventually(t, harness.UpdatePatience, func() (bool, string) {
		said, code := lab.Call(t, "update", "--reimage", "node[01-03]")
		return code == 0, said
	})
	lab.AwaitIdle(t, "node01")
	awaitPeace(t)
}

// number returns the number in an environment variable.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), strconv.Itoa(otherwise)))
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// storm has the random choices of a run.
type storm struct {
	*testing.T
	rand *rand.Rand
	jobs []string
}

func draw[T any](s *storm, from ...T) T { return from[s.rand.IntN(len(from))] }

// round begins an action, kills, lets the next worker continue, and compares the sources.
func (s *storm) round() {
	s.Helper()
	s.begin()
	victims := draw(s, harness.WorkersAndChildren, harness.Workers, harness.Terraforms)
	moment := time.Duration(s.rand.IntN(8000)) * time.Millisecond
	running := s.running()
	s.kill(victims, moment)
	lab.StartWorker(s.T)
	lab.AwaitNothingWaits(s.T)
	s.agree()
	assertNothingDoubled(s.T)
	// Slurm may power up the nodes of a requeued job at any time.
	lab.Eventually(s.T, harness.UpdatePatience, func() (bool, string) { return lab.TerraformIsClean(s.T) })
	for job, restarts := range running {
		if now, err := lab.JobField(job, "Restarts"); now != restarts {
			s.Errorf("job %s, which was running at the kill, was restarted %s times, before %s times (%v)",
				job, now, restarts, err)
		}
	}
}

// begin requests an action. The calls do not wait until it ends.
func (s *storm) begin() {
	s.Helper()
	nodes := draw(s, "node01", "node02", "node03", "node[02-03]", "node[01-03]")
	job := func() {
		seconds := 5 + s.rand.IntN(30)
		id := lab.Job(s.T, "--nodelist="+nodes, fmt.Sprintf("--nodes=%d", map[string]int{
			"node01": 1, "node02": 1, "node03": 1, "node[02-03]": 2, "node[01-03]": 3,
		}[nodes]), fmt.Sprintf("--wrap=sleep %d", seconds))
		s.jobs = append(s.jobs, id)
		s.Logf("job %s on %s for %d s", id, nodes, seconds)
	}
	call := func(args ...string) {
		s.Logf("reconfigure %s", strings.Join(args, " "))
		lab.Do(s.T, append([]string{args[0], "--no-wait"}, args[1:]...)...)
	}
	switch draw(s, "job", "job", "reboot", "another image", "reimage") {
	case "job":
		job()
	case "reboot":
		call("update", "node01")
	case "another image":
		declared := lab.Declaration
		declared.NodeGroups = slices.Clone(declared.NodeGroups)
		group := &declared.NodeGroups[0]
		if group.Image = cluster.ImageV1; s.rand.IntN(2) == 0 {
			group.Image = cluster.ImageV2
		}
		check(s.T, lab.Declare(declared))
		s.Logf("image %s", group.Image)
		call("update", "node01")
		job()
	case "reimage":
		call("update", "--reimage", nodes)
	}
}

// explain logs the events of the last requests.
func (s *storm) explain(log *journal.Journal) {
	const last = 8
	requests, err := log.Requests(context.Background(), last)
	if err != nil {
		s.Log(err)
	}
	for _, r := range requests {
		s.Logf("request %d: %s %s", r.ID, r.Mode, r.Nodes)
		events, err := log.EventsOf(context.Background(), r.ID)
		if err != nil {
			s.Log(err)
		}
		for _, e := range events[r.ID] {
			s.Logf("  %+v", e)
		}
	}
}

// running returns the number of restarts of the running jobs.
func (s *storm) running() map[string]string {
	s.Helper()
	all := map[string]string{}
	for _, job := range s.jobs {
		if state, err := lab.JobState(job); err == nil && state == "RUNNING" {
			restarts, err := lab.JobField(job, "Restarts")
			check(s.T, err)
			all[job] = restarts
		}
	}
	return all
}

// kill waits until its victim runs, and then for a further delay. If no such process starts soon, it kills the next
// worker with its children.
func (s *storm) kill(victims harness.Victims, moment time.Duration) {
	s.Helper()
	if victims == harness.Terraforms {
		moment /= 4 // its runs are short
	}
	soon := time.Now().Add(20 * time.Second)
	lab.Eventually(s.T, harness.JobPatience, func() (bool, string) {
		if time.Now().After(soon) {
			s.wake()
			victims = harness.WorkersAndChildren
		}
		if !lab.Runs(s.T, victims) {
			return false, "nothing runs of " + string(victims)
		}
		time.Sleep(moment)
		moment /= 2
		if !lab.Kill(s.T, victims) {
			return false, "there was nothing to kill"
		}
		s.Logf("killed %s", victims)
		return true, ""
	})
}

// wake begins an action if no request waits for a worker.
func (s *storm) wake() {
	s.Helper()
	pending, err := lab.Journal(s.T).Pending(s.Context())
	check(s.T, err)
	if len(pending) == 0 {
		lab.Do(s.T, "update", "--no-wait", "node01")
	}
}

// agree waits until reconfigure finds no difference between Nova, Terraform, the journal and Slurm, and no job is lost.
func (s *storm) agree() {
	s.Helper()
	lab.Eventually(s.T, harness.UpdatePatience, func() (bool, string) {
		for _, job := range s.jobs {
			state, err := lab.JobState(job)
			if err != nil || !slices.Contains([]string{"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "COMPLETED"}, state) {
				return false, fmt.Sprintf("job %s is %q (%v)", job, state, err)
			}
			lab.Hurry(s.T, job)
		}
		out, code := lab.Call(s.T, "reconcile", "--recheck", "1s")
		return code == 0, fmt.Sprintf("reconcile: exit code %d\n%s", code, out)
	})
}
