// Package explain computes from the journal's data, a snapshot and the usage of instances what happened to a job, a
// node or a request, what it waits for now, and what a person can do. It also has the lines of the history. It asks no
// source except the journal, by Read, and changes nothing.
package explain

import (
	"fmt"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// Subject is what is explained: one field is set.
type Subject struct {
	Job     int64                 `json:"job,omitempty"`
	Node    string                `json:"node,omitempty"`
	Request reconfigure.RequestID `json:"request,omitempty"`
}

// String returns the subject in the form of the command's arguments, except for "node".
func (s Subject) String() string {
	switch {
	case s.Job != 0:
		return fmt.Sprintf("job %d", s.Job)
	case s.Request != 0:
		return "request " + s.Request.String()
	}
	return s.Node
}

// Story is what is known about a subject. Texts of other programs and of users are on one line and have no control
// characters.
type Story struct {
	Subject
	State string `json:"state"`
	Steps []Step `json:"steps"` // by their beginning
	// Wait is the time of a job from its submission to its start, or until now.
	Wait []Part `json:"wait,omitempty"`
	// Failures counts the failures of attempts by class and by host.
	Failures []Failures `json:"failures,omitempty"`
	// Now has what each source says about the node now.
	Now []Answer `json:"now,omitempty"`
	// WaitsFor is nil if nothing is awaited.
	WaitsFor *Waiting `json:"waits_for,omitempty"`
	// Deadline is the time at which the wait ends at the latest; zero if it has no limit or nothing is awaited.
	Deadline time.Time `json:"deadline,omitzero"`
	// Advice is what a person can do, with the command.
	Advice []string `json:"advice"`
	// Missing has the sources that did not answer or were not asked.
	Missing []snapshot.Unreachable `json:"missing"`
}

// Step is one thing that happened.
type Step struct {
	Begin time.Time `json:"begin"`
	// End is Begin for a step without a duration, and zero for a step that has not ended, or whose end is unknown.
	End    time.Time         `json:"end,omitzero"`
	Source Source            `json:"source"`
	Nodes  nodeset.NodeSet   `json:"nodes"`
	What   string            `json:"what"`
	Result Result            `json:"result,omitempty"`
	Class  reconfigure.Class `json:"class,omitempty"`
	// Reason is why it failed; of a step that lasts, what was reported last.
	Reason string `json:"reason,omitempty"`
	Link   Link   `json:"link,omitzero"`

	phase reconfigure.Phase
}

// Source is the program that does a step.
type Source string

// The sources.
const (
	Caller    Source = "caller"
	Slurm     Source = "slurm"
	Worker    Source = "worker"
	Terraform Source = "terraform"
	Cloud     Source = "cloud"
	SSH       Source = "ssh"
	Ansible   Source = "ansible"
	Slurmd    Source = "slurmd"
)

// Result is how a step ended.
type Result string

// The results. A step without a duration may have none.
const (
	Lasts       Result = "lasts"
	Done        Result = "done"
	Failed      Result = "failed"
	Interrupted Result = "interrupted" // its worker ended
	Rejected    Result = "rejected"
	Refused     Result = "refused"
	Cancelled   Result = "cancelled"
)

// bad reports whether a person wants to know why.
func (r Result) bad() bool { return r != "" && r != Lasts && r != Done }

// Link is where more about a step is found.
type Link struct {
	Request  reconfigure.RequestID `json:"request,omitempty"`
	Plan     int64                 `json:"plan,omitempty"`
	Instance string                `json:"instance,omitempty"`
	Host     string                `json:"host,omitempty"`
	Evidence string                `json:"evidence,omitempty"` // the command that shows it
}

// Part is a part of a job's wait.
type Part struct {
	Part   usage.Part `json:"part"`
	Node   string     `json:"node,omitempty"` // the node that took longest
	Begin  time.Time  `json:"begin"`
	End    time.Time  `json:"end,omitzero"` // zero: it lasts
	Took   Seconds    `json:"seconds"`
	Median Seconds    `json:"median_seconds,omitempty"` // of the node's group; zero: unknown
	P95    Seconds    `json:"p95_seconds,omitempty"`
}

// Seconds is a duration in seconds.
type Seconds float64

func seconds(d time.Duration) Seconds { return Seconds(d.Round(time.Millisecond).Seconds()) }

// Duration returns it as a duration.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// Failures is the number of failed attempts of one class, on one host.
type Failures struct {
	Class reconfigure.Class `json:"class"`
	Host  string            `json:"host,omitempty"` // empty: unknown, or there was no instance
	Count int               `json:"count"`
	Last  time.Time         `json:"last"`
}

// Answer is what a source says now.
type Answer struct {
	Source Source `json:"source"`
	Text   string `json:"text"`
}

// Waiting is what is awaited.
type Waiting struct {
	For   string          `json:"for"`
	Nodes nodeset.NodeSet `json:"nodes"`
	Since time.Time       `json:"since"`
	// Usual is the 95th percentile of the same wait in the group; zero: unknown.
	Usual Seconds `json:"usual_seconds,omitempty"`
}
