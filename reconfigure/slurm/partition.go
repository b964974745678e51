package slurm

import (
	"context"
	"fmt"
	"strings"
)

// PartitionJobs returns the number of jobs that run, wait or are suspended, by partition. A job that waits for any of
// several partitions counts in each. The error is ErrUnreachable unless the context ended.
func (c *Client) PartitionJobs(ctx context.Context) (map[string]int, error) {
	const states = "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING"
	out, err := c.call(ctx, "squeue", "--noheader", "--all", states, "--format=%P")
	if err != nil {
		return nil, unreachable(ctx, fmt.Errorf("ask for the jobs of partitions: %w", err))
	}
	jobs := map[string]int{}
	for list := range strings.FieldsSeq(string(out)) {
		for name := range strings.SplitSeq(list, ",") {
			jobs[name]++
		}
	}
	return jobs, nil
}
