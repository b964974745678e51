// Package slurm asks and tells Slurm through its own tools: scontrol, sinfo and squeue, here or on the control node by SSH. It decides from JSON and exit
// statuses, never from the tools' prose.
package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// ErrUnreachable tells that nobody answered: SSH, the tools or slurmctld are not there. What was asked for may be tried again, all of it.
var ErrUnreachable = errors.New("slurmctld cannot be reached")

// patience bounds one call of a tool. Slurm's tools give up after MessageTimeout, 10 s by default, tried a few times (slurm.conf(5)).
const patience = time.Minute

// Client talks to one Slurm. It is safe for concurrent use, and everything that it does may be repeated.
type Client struct {
	remote []string
	run    func(context.Context, process.Cmd) error
}

// New makes a client. The words of remote are put before a tool's name and run the rest in a shell elsewhere, as ssh does, so the tool's arguments are
// quoted for a shell; without any, the tools run here. The function run, process.Run for instance, gives the environment that the command needs.
func New(remote []string, run func(context.Context, process.Cmd) error) *Client {
	return &Client{remote: remote, run: run}
}

// Ping answers ErrUnreachable unless a slurmctld, the primary or a backup, is up.
func (c *Client) Ping(ctx context.Context) error {
	if _, err := c.call(ctx, "scontrol", "ping"); err != nil {
		return unreachable(ctx, err)
	}
	return nil
}

func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

func (c *Client) call(ctx context.Context, tool string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out bytes.Buffer
	cmd := build(c.remote, tool, args)
	cmd.Stdout = &out
	if err := c.run(ctx, cmd); err != nil {
		return out.Bytes(), fmt.Errorf("%s %s: %w", tool, args[0], err)
	}
	return out.Bytes(), nil
}

func build(remote []string, tool string, args []string) process.Cmd {
	if len(remote) == 0 {
		return process.Cmd{Path: tool, Args: args}
	}
	words := append([]string{}, remote[1:]...)
	words = append(words, tool)
	for _, arg := range args {
		words = append(words, quote(arg))
	}
	return process.Cmd{Path: remote[0], Args: words}
}

// harmless is what a POSIX shell takes as it stands.
var harmless = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func quote(word string) string {
	if harmless.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
