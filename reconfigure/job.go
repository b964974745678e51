package reconfigure

import (
	"fmt"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Job is a job that waits for nodes, from Slurm's SLURM_RESUME_FILE (power_save guide).
type Job struct {
	ID        int64           `json:"job_id"`
	Nodes     nodeset.NodeSet `json:"nodes"`
	Partition string          `json:"partition,omitempty"` // empty where this release of Slurm does not tell
}

// Merged is each job once, with all nodes: several requests may name one job, each with some of them.
func Merged(jobs []Job) []Job {
	var merged []Job
	place := map[int64]int{}
	for _, job := range jobs {
		i, known := place[job.ID]
		if !known {
			place[job.ID] = len(merged)
			merged = append(merged, job)
			continue
		}
		merged[i].Nodes = merged[i].Nodes.Union(job.Nodes)
	}
	return merged
}

// Waiting is how many jobs wait for each node.
func Waiting(jobs []Job) map[string]int {
	waiting := map[string]int{}
	for _, job := range Merged(jobs) {
		for node := range job.Nodes.All() {
			waiting[node]++
		}
	}
	return waiting
}

// AllOrNothing tells whether a job gets all of its nodes or none: because its partition says so or, where that is not known, all that it could be in do.
func (c Cluster) AllOrNothing(job Job) bool {
	if !slices.ContainsFunc(c.Partitions, func(p Partition) bool { return p.AllOrNothing }) {
		return false
	}
	var groups []string
	for node := range job.Nodes.All() {
		if g, ok := c.GroupOf(node); ok && !slices.Contains(groups, g.Name) {
			groups = append(groups, g.Name)
		}
	}
	possible := slices.DeleteFunc(slices.Clone(c.Partitions), func(p Partition) bool {
		if job.Partition != "" {
			return p.Name != job.Partition
		}
		return slices.ContainsFunc(groups, func(g string) bool { return !slices.Contains(p.Groups, g) })
	})
	return len(possible) > 0 && !slices.ContainsFunc(possible, func(p Partition) bool { return !p.AllOrNothing })
}

// GiveUp is what becomes of nodes when there is no room for others: those are given up that nobody needs any more, as all of their jobs get all of their nodes or
// none. Each names the job, and the node that does not come, whose class it has.
func (c Cluster) GiveUp(jobs []Job, refused Failures, nodes nodeset.NodeSet) Failures {
	type loss struct {
		job  Job
		node string // that it does not get
	}
	lost, needed := map[string]loss{}, map[string]bool{}
	gone := refused.Nodes()
	for _, job := range Merged(jobs) {
		missing := job.Nodes.Intersect(gone)
		ends := !missing.Empty() && c.AllOrNothing(job)
		for node := range job.Nodes.All() {
			if _, known := lost[node]; ends && !known {
				lost[node] = loss{job, missing.Names()[0]}
			}
			needed[node] = needed[node] || !ends
		}
	}
	given := Failures{}
	for node := range nodes.Difference(gone).All() {
		if l, ok := lost[node]; ok && !needed[node] {
			given[node] = GivenUp(l.job, l.node, refused[l.node])
		}
	}
	return given
}

// GivenUp is the failure of a node that is given up with its job, which does not get another one.
func GivenUp(job Job, node string, err error) error {
	return fmt.Errorf("%w: job %d gets all of its nodes or none, and not %s: %w", ErrGivenUp, job.ID, node, err)
}
