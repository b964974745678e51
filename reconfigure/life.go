package reconfigure

import (
	"cmp"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Life is the record of one instance: its source, and the time of each step. A rebuild, and a start after a stop,
// begin a new life of the same instance. Times that are unknown or in the future are zero.
type Life struct {
	Node     string `json:"node"`
	Instance string `json:"instance"` // its id in the cloud
	Plan     int64  `json:"plan"`     // the number of the plan that made it; 0: it was found already running
	Group    string `json:"group,omitempty"`
	ImageID  string `json:"image_id,omitempty"`
	FlavorID string `json:"flavor_id,omitempty"`
	Image    string `json:"image,omitempty"`  // the declared name, if it meant this image
	Flavor   string `json:"flavor,omitempty"` // as Image
	Host     string `json:"host,omitempty"`   // as Server.Host

	Planned    time.Time `json:"planned,omitzero"` // the operation began
	Made       time.Time `json:"made,omitzero"`    // the cloud has it
	Booted     time.Time `json:"booted,omitzero"`  // SSH answers
	Configured time.Time `json:"configured,omitzero"`
	Registered time.Time `json:"registered,omitzero"` // slurmd
	Removed    time.Time `json:"removed,omitzero"`
	// Failed is why it did not become ready.
	Failed string `json:"failed,omitempty"`
	// Continues reports whether an earlier plan made the instance: this life then completes the record of its last
	// life, with that plan and the earlier times.
	Continues bool `json:"-"`
}

// After returns the life as the continuation of an earlier one, of the same instance; the zero value is none.
func (l Life) After(last Life) Life {
	if last.Instance == "" {
		return l
	}
	l.Plan, l.Planned, l.Made = last.Plan, last.Planned, last.Made
	for _, step := range []struct{ of, was *time.Time }{
		{&l.Booted, &last.Booted}, {&l.Configured, &last.Configured}, {&l.Registered, &last.Registered},
	} {
		if !step.was.IsZero() {
			*step.of = *step.was
		}
	}
	l.Host, l.Image, l.Flavor = cmp.Or(l.Host, last.Host), cmp.Or(l.Image, last.Image), cmp.Or(l.Flavor, last.Flavor)
	return l
}

// Ended reports whether the instance is gone, or was stopped or rebuilt.
func (l Life) Ended() bool { return !l.Removed.IsZero() }

// JobRun is one run of a job in Slurm. A requeued job has several, each with its own time of submission. The id and
// the time of submission together identify a run, since slurmctld may begin again with the first number.
type JobRun struct {
	ID        int64  `json:"job_id"`
	User      string `json:"user,omitempty"`
	Partition string `json:"partition,omitempty"`
	// State is in Slurm's words (squeue(1), JOB STATE CODES).
	State string `json:"state"`
	// Nodes has the nodes that it has or had; empty if it never got any.
	Nodes     nodeset.NodeSet `json:"nodes"`
	Submitted time.Time       `json:"submitted"`
	// Started is zero until its nodes have booted.
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
}

// LifeFilter selects lives. Each field that is not zero must match.
type LifeFilter struct {
	Since, Until time.Time // the instance existed between them, both included
	Nodes        []string  // of one of these nodes
	Host, Image  string    // as in Life
}
