package reconfigure

import "github.com/eiffel-hpc/eiffel/reconfigure/nodeset"

// SlurmConf is the configuration of Slurm that slurmctld would be restarted with, and what that would do to jobs.
type SlurmConf struct {
	Files   map[string]string // by name: slurm.conf and, where there are any, gres.conf and cgroup.conf
	Dangers []Danger
	// Hardware is what slurm.conf has of the nodes of a group that does not declare it, by the group's name.
	Hardware map[string]Hardware
	// Err is why it could not be compared with the one that slurmctld runs with; empty: it was. Then there are no Files.
	Err string
}

// Danger is a change of slurm.conf or gres.conf with which a restarted slurmctld ends jobs, or may end them. Either Nodes
// or Partition says which jobs.
type Danger struct {
	Nodes     nodeset.NodeSet // the jobs on these nodes
	Partition string          // the jobs of this partition, also those that wait
	Jobs      int             // the number of these jobs; for nodes it is not known
	What      string          // what changes: "CPUs is 8 instead of 4"
	Unsure    bool            // it is not known whether the jobs end
}

// Hardware is what Slurm is to use of a node.
type Hardware struct {
	CPUs       int `json:"CPUs"`
	RealMemory int `json:"RealMemory"` // MiB
	// Weight is Slurm's preference among the nodes that fit a job: it takes the smallest (slurm.conf(5), Weight). 0:
	// Slurm's default.
	Weight int `json:"Weight,omitempty"`
}

// HardwareOf returns the hardware of a flavor. A kernel keeps a part of the memory for itself, and Slurm drains nodes
// that have less than RealMemory: so a twentieth and 128 MiB are left out.
func HardwareOf(flavor Use) Hardware {
	return Hardware{CPUs: flavor.Cores, RealMemory: max(1, flavor.RAM*19/20-128)}
}

// Measured is what slurmd finds of the hardware of a node.
type Measured struct {
	Node     string `json:"node"`
	FlavorID string `json:"flavor_id"` // of its instance; empty: not known
	Printed  string `json:"printed"`   // the line that `slurmd -C` prints (slurmd(8)), as the node sent it: not trusted
}
