package slurm

import (
	"context"
	"encoding/json"
	"fmt"
)

// CallBack has the control node call the control hosts as Slurm's scripts do, without a request. It returns whether one
// of them accepts the call, and what was wrong with those before it.
func (c *Client) CallBack(ctx context.Context) (accepted bool, problems string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := c.output(ctx, c.config.SSH, []string{"call-back"})
	if err != nil {
		return false, "", fmt.Errorf("call-back: %w", err)
	}
	var answer struct {
		Accepted bool
		Said     string
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return false, "", fmt.Errorf("call-back: the control node answers %.200q", out)
	}
	return answer.Accepted, answer.Said, nil
}
