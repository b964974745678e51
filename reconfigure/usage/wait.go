package usage

import (
	"slices"
	"time"
)

// Part is a part of the time from the submission of a job to its start.
type Part string

// The parts, in order.
const (
	PartSlurm    Part = "slurm"            // until Slurm asked for nodes
	PartQueue    Part = "queue"            // until the operation of the node began
	PartEarlier  Part = "earlier attempts" // that failed, or whose worker ended
	PartCloud    Part = "cloud"            // until the cloud had the instance
	PartBoot     Part = "boot"             // until SSH answered
	PartAnsible  Part = "ansible"          // until the playbooks were done
	PartRegister Part = "registration"     // until slurmd had registered
	PartLaunch   Part = "launch"           // until Slurm started the job
	PartTurn     Part = "next turn"        // after a failure, until Slurm gives the job nodes again
)

// Typical is how long a part took before.
type Typical struct {
	Count  int           // of the measured parts
	Median time.Duration // of them
	P95    time.Duration // the 95th percentile of them
}

// TypicalOf returns the median and the 95th percentile of durations; the zero value for none. It sorts them.
func TypicalOf(all []time.Duration) Typical {
	if len(all) == 0 {
		return Typical{}
	}
	slices.Sort(all)
	rank := (len(all)*95 + 99) / 100 // the nearest rank
	return Typical{Count: len(all), Median: all[(len(all)-1)/2], P95: all[rank-1]}
}
