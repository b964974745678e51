package reconfigure

import "github.com/eiffel-hpc/eiffel/reconfigure/nodeset"

// SlurmConf is slurmctld's next configuration, with the dangers of a restart for jobs.
type SlurmConf struct {
	Files   map[string]string // by name: slurm.conf and, where there are any, gres.conf and cgroup.conf
	Dangers []Danger
	// Hardware has the hardware in slurm.conf for groups that do not declare it, by the group's name.
	Hardware map[string]Hardware
	// Err is why it could not be compared with slurmctld's running configuration; empty: it was. With an Err there
	// are no Files.
	Err string
}

// Danger is a change of slurm.conf or gres.conf after which a restarted slurmctld ends jobs, or may end them. Either
// Nodes or Partition selects the jobs.
type Danger struct {
	Nodes     nodeset.NodeSet // the jobs on these nodes
	Partition string          // the jobs of this partition, including waiting ones
	Jobs      int             // the number of these jobs; unknown for nodes
	What      string          // what changes: "CPUs is 8 instead of 4"
	Unsure    bool            // it is unknown whether the jobs end
}

// Hardware is the part of a node that Slurm may use.
type Hardware struct {
	CPUs       int `json:"CPUs"`
	RealMemory int `json:"RealMemory"` // MiB
	// Weight is Slurm's preference among the nodes that fit a job: the smallest comes first (slurm.conf(5), Weight).
	// 0: Slurm's default.
	Weight int `json:"Weight,omitempty"`
}

// HardwareOf returns the hardware of a flavor. The kernel reserves a part of the memory, and Slurm drains nodes that
// have less than RealMemory. So it subtracts a twentieth and 128 MiB.
func HardwareOf(flavor Use) Hardware {
	return Hardware{CPUs: flavor.Cores, RealMemory: max(1, flavor.RAM*19/20-128)}
}

// Measured is the hardware of a node as slurmd detects it.
type Measured struct {
	Node     string `json:"node"`
	FlavorID string `json:"flavor_id"` // of its instance; empty: unknown
	Printed  string `json:"printed"`   // the line that `slurmd -C` prints (slurmd(8)), as the node sent it: not trusted
}
