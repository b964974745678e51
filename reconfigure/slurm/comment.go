package slurm

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

const (
	// longestComment is how much of a text a job is given, in bytes. Slurm sets no limit; but each listing of jobs carries
	// it.
	longestComment = 1024
	// idColumn is the width, in characters, of the job's id in a listing of ours.
	idColumn = 20
	// commentColumn is enough to see whose comment it is.
	commentColumn = 40
	// jobsAtOnce bounds what one call names: the list goes through a shell as one argument, as in longestHostlist.
	jobsAtOnce = 2000
)

// Comment has jobs carry a text as their AdminComment (`scontrol show job`), marked as ours. A comment that somebody
// else has made stays, and a job that has ended is passed over. It may be repeated. The error is ErrUnreachable, the
// context's, or what scontrol said; some of the jobs may carry the text then.
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

// uncommented is those of the jobs that wait or run and that nobody else has commented on. All such jobs are listed, as
// it is an error to squeue when the only one that it is asked for has gone.
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
