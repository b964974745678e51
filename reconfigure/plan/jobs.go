package plan

import (
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// GiveUp returns the nodes that are given up because there is no room for others: each of their jobs gets all of its
// nodes or none, and lacks a refused node. The failure names the job and the refused node, and has the class of its
// failure.
func GiveUp(
	c reconfigure.Cluster, jobs []reconfigure.Job, refused reconfigure.Failures, nodes nodeset.NodeSet,
) reconfigure.Failures {
	type loss struct {
		job  reconfigure.Job
		node string // the refused one
	}
	lost, needed := map[string]loss{}, map[string]bool{}
	gone := refused.Nodes()
	for _, job := range reconfigure.Merged(jobs) {
		missing := job.Nodes.Intersect(gone)
		ends := !missing.Empty() && c.AllOrNothing(job)
		for node := range job.Nodes.All() {
			if _, known := lost[node]; ends && !known {
				lost[node] = loss{job, missing.Names()[0]}
			}
			needed[node] = needed[node] || !ends
		}
	}
	given := reconfigure.Failures{}
	for node := range nodes.Difference(gone).All() {
		if l, ok := lost[node]; ok && !needed[node] {
			given[node] = GivenUp(l.job, l.node, refused[l.node])
		}
	}
	return given
}

// GivenUp returns the failure of a node that is given up because the job does not get another node.
func GivenUp(job reconfigure.Job, node string, err error) error {
	return fmt.Errorf("%w: job %d gets all of its nodes or none, and not %s: %w", reconfigure.ErrGivenUp, job.ID, node, err)
}
