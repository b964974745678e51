package slurm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reserve reserves a node for SlurmUser, in a reservation of that name; its running jobs continue (scontrol(1),
// IGNORE_JOBS). It may be repeated. A drained node may be reserved.
func (c *Client) Reserve(ctx context.Context, name, node string) error {
	_, err := c.call(ctx, "canary", "reserve", name, node)
	return err
}

// Test submits the site's test job, under that name, to the reserved node, unless it was submitted already, and
// returns its state. Slurm forgets an ended job after MinJobAge (slurm.conf(5)); Test then submits it again. The
// limit is in whole minutes.
func (c *Client) Test(
	ctx context.Context, name, node, partition string, limit time.Duration,
) (ended bool, failure string, err error) {
	minutes := strconv.Itoa(int(limit.Minutes()))
	out, err := c.call(ctx, "canary", "test", name, node, partition, minutes)
	if err != nil {
		return false, "", err
	}
	words := strings.Fields(string(out))
	if len(words) < 2 {
		return false, "", fmt.Errorf("canary test %s: Slurm answers %q", name, out)
	}
	job, state := words[0], words[1]
	switch {
	case state == "COMPLETED":
		return true, "", nil
	case slices.Contains(unended(), state):
		return false, "", nil
	}
	return true, fmt.Sprintf("the test job %s ended as %s; its output is in /tmp/%s.log there", job, state, name), nil
}

// unended returns the states of jobs that have not ended (squeue(1), JOB STATE CODES), including that of a new job.
func unended() []string {
	return []string{
		"SUBMITTED", "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT",
		"RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD",
	}
}

// Release ends the test job and the reservation of that name. It succeeds if neither exists.
func (c *Client) Release(ctx context.Context, name string) error {
	_, err := c.call(ctx, "canary", "release", name)
	return err
}
