package slurm

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// maxResumeNames is the maximum number of nodes of all jobs in a resume file, where a node of two jobs counts twice:
// sixteen times the maximum size of a cluster. A hostlist of a few bytes names nodeset.MaxNodes.
const maxResumeNames = 16 * nodeset.MaxNodes

// ParseResumeFile reads SLURM_RESUME_FILE (Slurm's power saving guide). Besides an error it returns the jobs that
// could be read. An empty text has no jobs: Slurm without JSON-C does not write the file.
func ParseResumeFile(text []byte) ([]reconfigure.Job, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var content struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, err
	}
	var jobs []reconfigure.Job
	var first error
	unread, names := 0, 0
	for i, one := range content.Jobs {
		job, err := parseJob(one)
		if err == nil && names+job.Nodes.Len() > maxResumeNames {
			return jobs, fmt.Errorf("the jobs have more than %d nodes, from job %d on", maxResumeNames, job.ID)
		}
		if err != nil {
			unread++
			first = cmp.Or(first, fmt.Errorf("job %d of the list: %w", i+1, err))
			continue
		}
		names += job.Nodes.Len()
		jobs = append(jobs, job)
	}
	if unread > 1 {
		first = fmt.Errorf("%d jobs cannot be read; %w", unread, first)
	}
	return jobs, first
}

func parseJob(text []byte) (reconfigure.Job, error) {
	var j resumeJob
	if err := json.Unmarshal(text, &j); err != nil {
		return reconfigure.Job{}, err
	}
	nodes := j.Nodes.Union(j.Resume)
	switch {
	case j.ID <= 0:
		return reconfigure.Job{}, fmt.Errorf("%d is no job id", j.ID)
	case nodes.Len() > nodeset.MaxNodes: // its hostlist could not be read again
		return reconfigure.Job{}, fmt.Errorf("job %d has %d nodes", j.ID, nodes.Len())
	}
	return reconfigure.Job{ID: j.ID, Nodes: nodes, Partition: j.In}, nil
}
