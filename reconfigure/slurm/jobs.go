package slurm

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Jobs is the answer of Client.Jobs.
type Jobs struct {
	// Runs has the jobs that ended since the position and, in the last answer, the jobs that slurmctld knows, except
	// those that wait and have no nodes.
	Runs     []reconfigure.JobRun
	Position int64 // the position in the list for the next call
	More     bool  // whether the list has more entries
	Listed   bool  // whether slurmctld writes the list (slurm.conf(5), JobCompType=jobcomp/filetxt)
	// Skipped has the beginnings of ambiguous lines of the list, at most ten.
	Skipped []string
}

// Jobs reads a part of the list of ended jobs that slurmctld writes (slurm.conf(5), JobCompLoc), from a position on,
// and the jobs that slurmctld knows. If the position is beyond the end, it is from an earlier file, and the list is
// read from the start. The error is ErrUnreachable unless the context ended.
func (c *Client) Jobs(ctx context.Context, position int64) (Jobs, error) {
	out, err := c.call(ctx, "jobs", strconv.FormatInt(position, 10))
	if err != nil {
		return Jobs{}, unreachable(ctx, fmt.Errorf("ask for the jobs: %w", err))
	}
	jobs, err := parseJobs(out)
	if err != nil {
		return Jobs{}, unreachable(ctx, fmt.Errorf("ask for the jobs: unexpected answer: %w", err))
	}
	return jobs, nil
}

// listedJob is a job in the answer of slurm_commands.py.
type listedJob struct {
	ID        int64  `json:"id"`
	User      string `json:"user"`
	Partition string `json:"partition"`
	State     string `json:"state"`
	Nodes     string `json:"nodes"`
	Submitted int64  `json:"submitted"`
	Started   int64  `json:"started"`
	Ended     int64  `json:"ended"`
	Known     bool   `json:"known"` // slurmctld knows the job; it is not from the list
}

func parseJobs(out []byte) (Jobs, error) {
	var answer struct {
		Listed   bool        `json:"listed"`
		Position int64       `json:"position"`
		More     bool        `json:"more"`
		Skipped  []string    `json:"skipped"`
		Jobs     []listedJob `json:"jobs"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return Jobs{}, err
	}
	if answer.Position < 0 {
		return Jobs{}, fmt.Errorf("position %d", answer.Position)
	}
	jobs := Jobs{Position: answer.Position, More: answer.More, Listed: answer.Listed, Skipped: answer.Skipped}
	for _, job := range answer.Jobs {
		run, err := job.run()
		switch {
		case err != nil:
			jobs.Skipped = append(jobs.Skipped, err.Error())
		case !run.Nodes.Empty() || !run.Ended.IsZero():
			jobs.Runs = append(jobs.Runs, run)
		}
	}
	return jobs, nil
}

var (
	stateWord = regexp.MustCompile(`^[A-Z][A-Z_+]{0,39}$`)
	// shortName is a user's or a partition's name, or several partitions.
	shortName = regexp.MustCompile(`^[A-Za-z0-9_.$@,+-]{0,255}$`)
)

// run checks Slurm's data of a job.
func (j listedJob) run() (reconfigure.JobRun, error) {
	r := reconfigure.JobRun{
		ID: j.ID, User: j.User, Partition: j.Partition, State: j.State,
		Submitted: moment(j.Submitted), Started: moment(j.Started), Ended: moment(j.Ended),
	}
	switch {
	case r.ID <= 0 || r.Submitted.IsZero():
		return r, fmt.Errorf("job %d, submitted at %d", j.ID, j.Submitted)
	case !stateWord.MatchString(r.State) || !shortName.MatchString(r.User) || !shortName.MatchString(r.Partition):
		return r, fmt.Errorf("job %d: state %.40q of user %.40q in partition %.40q", j.ID, j.State, j.User, j.Partition)
	}
	var err error
	if j.Nodes != "" {
		if r.Nodes, err = nodeset.Parse(j.Nodes); err != nil {
			return r, fmt.Errorf("job %d: %w", j.ID, err)
		}
	}
	waits := j.Known && slices.Contains([]string{"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD"}, r.State)
	if waits || r.Nodes.Empty() { // Slurm then reports the time at which it expects the job to start
		r.Started = time.Time{}
	}
	if j.Known && slices.Contains(unended(), r.State) { // and the latest time at which the job ends
		r.Ended = time.Time{}
	}
	if !r.Ended.IsZero() && r.Ended.Before(r.Started) {
		r.Started = r.Ended
	}
	return r, nil
}

// moment returns the time that is a number of seconds after 1970; zero if it is not a valid time.
func moment(seconds int64) time.Time {
	if seconds <= 0 || seconds > latest {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
