package reconfigure

import (
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Mode is what a caller asks for. Only the planner looks at it: every later step follows from the actions of the plan.
type Mode string

// The modes. Deploy makes the control node and the persistent nodes and configures everything that is there; Destroy removes the whole cluster.
const (
	Resume  Mode = "resume"
	Suspend Mode = "suspend"
	Deploy  Mode = "deploy"
	Destroy Mode = "destroy"
)

// RequestID numbers the requests of one journal, from 1.
type RequestID int64

func (id RequestID) String() string { return strconv.FormatInt(int64(id), 10) }

// Request is one caller's wish.
type Request struct {
	ID        RequestID       `json:"id"`
	Mode      Mode            `json:"mode"`
	Nodes     nodeset.NodeSet `json:"nodes"` // empty for the modes that mean the whole cluster
	Reason    string          `json:"reason,omitempty"`
	Caller    string          `json:"caller,omitempty"` // who asks: user and, over SSH, from where
	Jobs      []Job           `json:"jobs,omitempty"`   // whom the nodes are for, where Slurm said so
	Submitted time.Time       `json:"submitted"`
}

// Job is a job that waits for nodes, from Slurm's SLURM_RESUME_FILE (power_save guide).
type Job struct {
	ID    int64           `json:"job_id"`
	Nodes nodeset.NodeSet `json:"nodes"`
}
