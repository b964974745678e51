package usage

import (
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Part is a part of the time from the submission of a job to its start.
type Part string

// The parts, in order.
const (
	PartSlurm    Part = "slurm"           // until Slurm asked for nodes
	PartQueue    Part = "queue"           // until the operation of the node began
	PartFailed   Part = "failed attempts" // the time of instances that did not become ready
	PartCloud    Part = "cloud"           // until the cloud had the instance
	PartBoot     Part = "boot"            // until SSH answered
	PartAnsible  Part = "ansible"         // until the playbooks were done
	PartRegister Part = "registration"    // until slurmd had registered
	PartLaunch   Part = "launch"          // until Slurm started the job
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

// TypicalParts returns how long each part took for a node group: the parts of an instance from the lives of its
// instances, the other parts from the jobs that waited for them. A part that was never measured has no entry.
func TypicalParts(group string, jobs []Job, lives []reconfigure.Life) map[Part]Typical {
	took := map[Part][]time.Duration{}
	add := func(p Part, from, to time.Time) {
		if !from.IsZero() && !to.IsZero() && !to.Add(truncated).Before(from) {
			took[p] = append(took[p], max(to.Sub(from), 0))
		}
	}
	operations := map[operation]int{}
	for _, l := range lives {
		operations[operation{l.Node, l.Plan}]++
	}
	for _, l := range lives {
		if l.Group != group {
			continue
		}
		if operations[operation{l.Node, l.Plan}] == 1 { // else the time before Made includes other attempts
			add(PartCloud, l.Planned, l.Made)
		}
		add(PartBoot, l.Made, l.Booted)
		add(PartAnsible, l.Booted, l.Configured)
		add(PartRegister, l.Configured, l.Registered)
	}
	for _, j := range jobs {
		l, ok := j.slowest()
		if !ok || l.Group != group {
			continue
		}
		add(PartSlurm, j.Submitted, j.Asked)
		add(PartQueue, j.Asked, l.Planned)
		add(PartLaunch, l.Registered, j.Started)
	}
	typical := make(map[Part]Typical, len(took))
	for p, all := range took {
		typical[p] = TypicalOf(all)
	}
	return typical
}

// operation identifies the operation that made an instance.
type operation struct {
	node string
	plan int64
}

// slowest returns the instance for which the job waited longest; false if it has not begun, or waited for none.
func (j Job) slowest() (last reconfigure.Life, ok bool) {
	if j.Started.IsZero() || j.Asked.IsZero() {
		return last, false
	}
	for _, l := range j.Instances {
		waited := l.Planned.After(j.Asked) && !l.Registered.IsZero() && !l.Registered.After(j.Started.Add(truncated))
		if waited && l.Registered.After(last.Registered) {
			last, ok = l, true
		}
	}
	return last, ok
}
