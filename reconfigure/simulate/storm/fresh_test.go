package storm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// single returns the cluster with a partition over the group whose jobs get fresh instances, and with a second group of
// ordinary nodes, which has the persistent nodes.
func single(c reconfigure.Cluster) reconfigure.Cluster {
	other := c.Groups[0]
	other.Name, other.Prefix, other.Max = "other", "q", 3
	c.Groups = []reconfigure.NodeGroup{c.Groups[0], other}
	c.Groups[0].Min = 0
	c.Partitions = []reconfigure.Partition{
		{Name: "single", Groups: []string{"group"}, Fresh: true}, {Name: "main", Groups: []string{"other"}},
	}
	return c
}

// queue has the jobs of the partition in Slurm.
type queue struct{ jobs []*job }

// job is a job on one node.
type job struct {
	number, restarts int
	node             string // the node that it is given; empty: it waits for one
	ended            bool
}

func (j *job) String() string { return fmt.Sprintf("%s on %q", j.run(), j.node) }

// run returns the name of the job's current run.
func (j *job) run() string { return fmt.Sprintf("job %d, restart %d", j.number, j.restarts) }

func (j *job) again() { j.restarts, j.node = j.restarts+1, "" }

func (q *queue) String() string {
	if q == nil {
		return ""
	}
	return fmt.Sprint(slices.DeleteFunc(slices.Clone(q.jobs), func(j *job) bool { return j.ended }))
}

func (q *queue) empty() bool {
	return q == nil || !slices.ContainsFunc(q.jobs, func(j *job) bool { return !j.ended })
}

func (q *queue) add(n int) {
	for range n {
		q.jobs = append(q.jobs, &job{number: len(q.jobs) + 1})
	}
}

// place gives nodes to the jobs that wait, with one call of ResumeProgram for those that are powered down.
func (q *queue) place(s *storm) {
	r := ask(reconfigure.Resume)
	for _, j := range q.jobs {
		if j.ended || j.node != "" {
			continue
		}
		for _, node := range declared(0, most).Nodes().Names() {
			resumes, ok := s.world.Give(node, j.run())
			if !ok {
				continue
			}
			if j.node = node; resumes {
				nodes := ask(reconfigure.Resume, node).Nodes
				r.Nodes = r.Nodes.Union(nodes)
				r.Jobs = append(r.Jobs, reconfigure.Job{ID: int64(j.number), Nodes: nodes})
			}
			break
		}
	}
	if !r.Nodes.Empty() {
		s.submit(r)
	}
}

// advance does what Slurm does each minute: it requeues jobs that have lost their nodes, powers down nodes, and gives
// nodes to jobs.
func (q *queue) advance(s *storm) {
	if q == nil {
		return
	}
	for _, j := range q.jobs {
		if j.node == "" || j.ended {
			continue
		}
		if given, _ := s.world.HasRun(j.node, j.run()); !given {
			j.again()
		}
	}
	if nodes := s.world.PowersDownDue(); len(nodes) > 0 {
		s.submit(ask(reconfigure.Suspend, nodes...))
	}
	q.place(s)
	synctest.Wait()
}

// on returns the jobs with one of these nodes, and those of them that have begun there.
func (q *queue) on(s *storm, nodes []string) (given, begun []*job) {
	if q == nil {
		return nil, nil
	}
	for _, j := range q.jobs {
		if j.ended || !slices.Contains(nodes, j.node) {
			continue
		}
		is, begins := s.world.HasRun(j.node, j.run())
		if is {
			given = append(given, j)
		}
		if begins {
			begun = append(begun, j)
		}
	}
	return given, begun
}

func (q *queue) end(s *storm, nodes []string) {
	_, begun := q.on(s, nodes)
	for _, j := range begun {
		j.ended = true
		q.leave(s, j.node)
	}
}

// requeue ends the runs of jobs (scontrol(1), requeue).
func (q *queue) requeue(s *storm, nodes []string) {
	_, begun := q.on(s, nodes)
	for _, j := range begun {
		node := j.node
		j.again()
		q.leave(s, node)
	}
}

// cancel ends jobs, also those that wait for their node; the node then comes up without a job (scancel(1)).
func (q *queue) cancel(s *storm, nodes []string) {
	given, _ := q.on(s, nodes)
	for _, j := range given {
		j.ended = true
		q.leave(s, j.node)
	}
}

func (q *queue) leave(s *storm, node string) {
	if s.world.EndJob(node) {
		s.submit(ask(reconfigure.Suspend, node))
	}
}

// free makes Slurm use all nodes again that were drained or are DOWN, or power them down.
func (q *queue) free(s *storm) {
	if q == nil {
		return
	}
	nodes := declared(0, most).Nodes().Names()
	s.world.Resumes(nodes...)
	s.giveUp(step{nodes: nodes})
}

// resume ends drains as an administrator does, except for this tool's drains: such a drain means that the node is about
// to reboot, and a job that starts during the call to the cloud would be lost.
func (s *storm) resume(nodes []string) {
	for _, node := range nodes {
		n := s.world.Node(node)
		if !strings.Contains(n.State, "DRAIN") || !strings.HasPrefix(n.Reason, reconfigure.ReasonPrefix) {
			s.world.Resumes(node)
		}
	}
}

// others moves steps to the group of ordinary nodes: those about the group's jobs, and some of the others.
func others(steps []step) []step {
	for i, d := range steps {
		if (d.what == "jobs end on" || d.what == "somebody resumes") && d.on {
			steps[i].nodes = declared(0, most).Nodes().Names()
			continue
		}
		if ordinary := d.what == "jobs need" || d.what == "jobs start on"; !ordinary && d.n%4 > 0 {
			continue
		}
		for j, node := range d.nodes {
			steps[i].nodes[j] = map[string]string{"p1": "q1", "p2": "q2", "p3": "q3", "p4": "q2", "p5": "q3"}[node]
		}
		slices.Sort(d.nodes)
		steps[i].nodes = slices.Compact(d.nodes)
	}
	return steps
}

// TestStormOfJobsOnFreshInstances runs storms in which no two runs of jobs may have the same disk, and every job must
// end.
func TestStormOfJobsOnFreshInstances(t *testing.T) {
	kinds := []string{
		"jobs need", "jobs start on", "declare", "deploy", "Slurm gives up", "power_down_force", "update", "Slurm reboots",
		"kill", "kill now", "stop", "journal fails", "builds are slow", "removals hang", "node fault",
		"cluster fault", "slurmd is slow", "boots are slow", "somebody drains", "somebody resumes", "somebody stops",
		"somebody starts", "somebody requeues", "somebody cancels", "node fault", "node fault", "node fault", "removals hang",
	}
	kinds = append(kinds, slices.Repeat([]string{"jobs come", "jobs end on", "somebody resumes", "time passes"}, 5)...)
	faults := append(nodeFaults(), slices.Repeat([]simulate.Fault{simulate.NeverRemoved}, 10)...)
	busy := func(s *storm) { s.queue = &queue{}; s.queue.add(most + 1) }
	blowWith(t, busy, func(t *rapid.T) []step { return others(drawStepsOf(t, kinds, faults)) })
}
