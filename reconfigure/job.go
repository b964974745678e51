package reconfigure

import (
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Job is a job that waits for nodes, from Slurm's SLURM_RESUME_FILE (power_save guide).
type Job struct {
	ID        int64           `json:"job_id"`
	Nodes     nodeset.NodeSet `json:"nodes"`
	Partition string          `json:"partition,omitempty"` // empty: unknown in this release of Slurm
}

// Merged returns each job once, with all of its nodes: several requests may name a job, each with some of its nodes.
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

// Waiting returns the number of jobs that wait for each node.
func Waiting(jobs []Job) map[string]int {
	waiting := map[string]int{}
	for _, job := range Merged(jobs) {
		for node := range job.Nodes.All() {
			waiting[node]++
		}
	}
	return waiting
}

// AllOrNothing reports whether a job gets all of its nodes or none: if its partition is declared so or, for an
// unknown partition, if all partitions with the job's nodes are declared so.
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
