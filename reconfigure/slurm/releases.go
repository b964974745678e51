package slurm

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// This file has the differences between releases of Slurm in its answers and commands. For the differences in the
// arguments of the scripts see reboot.sh; for those in slurm.conf see the variables of the role slurm_conf.

// lister is a command that lists nodes as JSON: scontrol's since 23.02, sinfo's before; later sinfo lists something
// else (Slurm 22.05 and 25.11, run).
type lister string

const (
	byScontrol lister = "scontrol show nodes --json"
	bySinfo    lister = "sinfo --json"
)

// undrain ends a drain. It removes the reason too in 22.05, and not in 24.11 (both run).
const undrain = "State=UNDRAIN"

// noReason removes the reason of a node that is up. In 24.11 an empty reason changes nothing and a blank one is
// stored (run), so a blank reason counts as none.
const noReason = "Reason= "

// node has the fields that we use of a node in JSON, of 22.05 (v0.0.38), which has the flags in a separate field, and
// of later releases.
type node struct {
	Name      string `json:"name"`
	State     words  `json:"state"`
	Flags     words  `json:"state_flags"`
	Reason    string `json:"reason"`
	Address   string `json:"address"`
	BootTime  number `json:"boot_time"`
	AllocCPUs number `json:"alloc_cpus"`
	LastBusy  number `json:"last_busy"`
	// 22.05 has this flag in a separate field too.
	Next      words `json:"next_state_after_reboot"`
	NextFlags words `json:"next_state_after_reboot_flags"`
}

// resumeJob is a job of SLURM_RESUME_FILE. Releases after 22.05 list the nodes of its allocation and those to resume
// separately, and name its partition.
type resumeJob struct {
	ID     int64           `json:"job_id"`
	Nodes  nodeset.NodeSet `json:"nodes"`
	Resume nodeset.NodeSet `json:"nodes_resume"`
	In     string          `json:"partition"`
}

// words is a string or a list of them.
type words []string

// UnmarshalJSONFrom is called for each of thousands of nodes, so it copies no text.
func (w *words) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '"' {
		return json.UnmarshalDecode(from, (*[]string)(w))
	}
	*w = make(words, 1)
	return json.UnmarshalDecode(from, &(*w)[0])
}

// number is a plain number or, in later releases, an object that also says whether the number is set; zero if it is
// not.
type number float64

// UnmarshalJSONFrom is called as that of words.
func (n *number) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '{' {
		return json.UnmarshalDecode(from, (*float64)(n))
	}
	var object struct {
		Set    bool    `json:"set"`
		Number float64 `json:"number"`
	}
	if err := json.UnmarshalDecode(from, &object); err != nil {
		return err
	}
	if object.Set {
		*n = number(object.Number)
	}
	return nil
}
