// Package slurm reads Slurm's state and changes it through Slurm's own tools, scontrol, sinfo and squeue, on the
// control node by SSH. The key for that may run only slurmscripts/slurm_commands.py there, whose table has every
// command that this package sends. The package decides from JSON and exit statuses, never from the text that the
// tools print for people.
package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// ErrUnreachable means that SSH, the tools or slurmctld do not answer. The call may be retried unchanged.
var ErrUnreachable = errors.New("slurmctld cannot be reached")

// callTimeout bounds one call of a tool. Slurm's tools give up after a few tries of MessageTimeout, 10 s by default
// (slurm.conf(5)).
const callTimeout = time.Minute

// Config says where Slurm's tools are.
type Config struct {
	// SSH has the words of an OpenSSH command whose key runs slurm_commands.py on the control node; the words that
	// follow become SSH_ORIGINAL_COMMAND (sshd(8)). Empty: commands run on this host.
	SSH []string
	// Run runs a command in the environment that it needs. process.Run is one such function.
	Run func(context.Context, process.Cmd) error
	// Keep: the client keeps one SSH connection open from its first call until Close.
	Keep bool
	// LaunchAtOnce: the control node is told of the nodes that have come up, so that the jobs that wait for them start:
	// see slurmscripts/launch.sh.j2.
	LaunchAtOnce bool
}

// Client talks to one Slurm. It is safe for concurrent use, and every call may be repeated.
type Client struct {
	config  Config
	shared  *connection
	closing sync.Once
	lister  atomic.Pointer[lister] // the lister that works; nil: not known yet
	// listsAll: nodes cannot be listed by name
	listsAll atomic.Bool
	arrivals arrivals
}

// New returns a client. It connects at its first call.
func New(config Config) *Client {
	c := &Client{config: config}
	if config.Keep && len(config.SSH) > 0 {
		c.shared = newConnection(config.SSH, config.Run)
	}
	return c
}

// Close ends the connection that the client keeps, when the calls over it have ended. Each later call has a connection
// of its own.
func (c *Client) Close() {
	if c.shared != nil {
		c.closing.Do(c.shared.close)
	}
}

// Ping returns ErrUnreachable unless a slurmctld, the primary or a backup, is up.
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
	out, err := c.run(ctx, append([]string{tool}, args...))
	if err != nil {
		return out, fmt.Errorf("%s %s: %w", tool, args[0], err)
	}
	return out, nil
}

// run runs a command where the tools are. If the shared connection breaks, the command runs again on its own
// connection.
func (c *Client) run(ctx context.Context, words []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.shared != nil {
		if ssh, done, ok := c.shared.use(ctx); ok {
			out, err := c.output(ctx, ssh, words)
			done(err)
			if err == nil || ctx.Err() != nil || !brokenConnection(err) {
				return out, err
			}
		}
	}
	return c.output(ctx, c.config.SSH, words)
}

func (c *Client) output(ctx context.Context, ssh, words []string) ([]byte, error) {
	var out bytes.Buffer
	cmd := build(ssh, words)
	cmd.Stdout = &out
	err := c.config.Run(ctx, cmd)
	return out.Bytes(), err
}

// build returns the command for this host or, quoted for a POSIX shell, for the other end of SSH.
func build(ssh, words []string) process.Cmd {
	if len(ssh) == 0 {
		return process.Cmd{Path: words[0], Args: words[1:]}
	}
	return process.Cmd{Path: ssh[0], Args: append(append([]string{}, ssh[1:]...), quoted(words)...)}
}

func quoted(words []string) []string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = quote(word)
	}
	return all
}

// plainWord matches words that a POSIX shell does not change.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
