package slurm

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

const (
	// longestComment is the maximum length of a job's comment, in bytes. Slurm has no limit, but each listing of jobs
	// includes the comments.
	longestComment = 1024
	// idColumn is the width, in characters, of the job's id in our listings.
	idColumn = 20
	// commentColumn is enough to see whose comment it is.
	commentColumn = 40
	// jobsAtOnce is the maximum number of jobs in a call: the list is one argument of a shell, see longestHostlist.
	jobsAtOnce = 2000
)

// Comment sets the AdminComment of jobs (`scontrol show job`) to a text, marked as ours. It keeps the comments of
// others, and skips jobs that have ended. It may be repeated. The error is ErrUnreachable, the context's, or
// scontrol's; some of the jobs may have the text then.
func (c *Client) Comment(ctx context.Context, jobs []int64, text string) error {
	for len(jobs) > 0 {
		some := jobs[:min(len(jobs), jobsAtOnce)]
		jobs = jobs[len(some):]
		free, err := c.uncommented(ctx, some)
		if err != nil {
			return unreachable(ctx, fmt.Errorf("ask for the comments of jobs: %w", err))
		}
		if len(free) == 0 {
			continue
		}
		comment := "AdminComment=" + marked(text, longestComment)
		if _, err := c.call(ctx, "scontrol", "update", "JobId="+strings.Join(free, ","), comment); err != nil {
			return err
		}
	}
	return nil
}

// uncommented returns the waiting and running jobs without a comment of another user. It lists all waiting and running
// jobs, since squeue fails if the only job that it is asked for does not exist.
func (c *Client) uncommented(ctx context.Context, jobs []int64) ([]string, error) {
	columns := fmt.Sprintf("--Format=jobid:%d,admin_comment:%d", idColumn, commentColumn)
	out, err := c.call(ctx, "squeue", "--noheader", "--all", columns)
	if err != nil {
		return nil, err
	}
	comments := map[string]string{}
	for line := range strings.Lines(string(out)) {
		id, comment, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		comments[id] = strings.TrimSpace(comment)
	}
	var free []string
	for _, job := range jobs {
		id := strconv.FormatInt(job, 10)
		comment, there := comments[id]
		if there && (comment == "" || comment == "(null)" || strings.HasPrefix(comment, reconfigure.ReasonPrefix)) {
			free = append(free, id)
		}
	}
	return free, nil
}
