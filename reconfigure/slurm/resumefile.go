package slurm

import (
	"encoding/json"
	"errors"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// ParseResumeFile reads SLURM_RESUME_FILE (Slurm's power saving guide). With an error it returns the jobs that could
// be read. Empty text is no jobs: Slurm without JSON-C does not write the file. Releases after 22.05 use other names
// for a job's nodes, list the nodes of its allocation and those to resume separately, and name its partition.
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
	var errs []error
	for _, one := range content.Jobs {
		var j struct {
			ID     int64           `json:"job_id"`
			Nodes  nodeset.NodeSet `json:"nodes"`
			Resume nodeset.NodeSet `json:"nodes_resume"`
			In     string          `json:"partition"`
		}
		if err := json.Unmarshal(one, &j); err != nil {
			errs = append(errs, err)
			continue
		}
		jobs = append(jobs, reconfigure.Job{ID: j.ID, Nodes: j.Nodes.Union(j.Resume), Partition: j.In})
	}
	return jobs, errors.Join(errs...)
}
