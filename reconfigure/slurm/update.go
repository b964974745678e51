package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// ReasonPrefix marks the reasons that are ours. A node whose reason does not start with it was not drained or set DOWN
// by this tool.
const ReasonPrefix = reconfigure.ReasonPrefix + " "

// longestReason is the size of slurmdbd's column for a node's reason, in bytes. slurmctld itself accepts longer ones.
const longestReason = 255

// longestHostlist is the maximum length of the hostlist in a call, in bytes: SSH passes a whole command to the shell
// as one argument, which Linux limits to 128 KiB (execve(2)).
const longestHostlist = 32 << 10

// Refused means that Slurm refused a change for some nodes. It made the change for the others.
type Refused struct{ Failures reconfigure.Failures }

func (r *Refused) Error() string {
	names := slices.Sorted(maps.Keys(r.Failures))
	return fmt.Sprintf("Slurm refuses %s: %v", nodeset.Of(names...), r.Failures[names[0]])
}

// Nodes returns the nodes that Slurm refused, each with the reason.
func (r *Refused) Nodes() reconfigure.Failures { return r.Failures }

// Down sets nodes DOWN, which requeues their jobs at once. The reason is marked as ours. It may be repeated. The error
// is ErrUnreachable, a *Refused or the context's.
func (c *Client) Down(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	return c.update(ctx, nodes, "State=DOWN", "Reason="+marked(reason, longestReason))
}

// PowerDown makes Slurm power down nodes in any state, even with jobs: Slurm calls SuspendProgram for them, and a
// cloud node can then be used again, even if it was DOWN. It may be repeated. The errors are those of Down.
func (c *Client) PowerDown(ctx context.Context, nodes nodeset.NodeSet) error {
	return c.update(ctx, nodes, "State=POWER_DOWN_FORCE")
}

// PowerDownIdle makes Slurm power down nodes without jobs, as after SuspendTime. One that has got a job meanwhile is
// powered down when it has ended. It may be repeated. The errors are those of Down.
func (c *Client) PowerDownIdle(ctx context.Context, nodes nodeset.NodeSet) error {
	return c.update(ctx, nodes, "State=POWER_DOWN")
}

// PowerUp makes Slurm power up nodes that are powered down: it calls ResumeProgram for them, as for a job. Nothing
// happens to nodes that are up. The errors are those of Down.
func (c *Client) PowerUp(ctx context.Context, nodes nodeset.NodeSet) error {
	return c.update(ctx, nodes, "State=POWER_UP")
}

// SetExceptions sets the nodes that slurmctld does not suspend (slurm.conf(5), SuspendExcNodes), until it is
// reconfigured or restarted. It may be repeated. Releases before 23.02 refuse it: see Settings.Exceptions.
func (c *Client) SetExceptions(ctx context.Context, nodes string) error {
	if _, err := c.call(ctx, "scontrol", "update", "SuspendExcNodes="+nodes); err != nil {
		return fmt.Errorf("set SuspendExcNodes to %q: %w", nodes, err)
	}
	return nil
}

// PowerDownASAP makes Slurm start no more jobs on nodes, and power each node down when its jobs have ended
// (scontrol(1), POWER_DOWN_ASAP). The drain ends then; the reason, which is marked as ours, stays until the node
// comes up. It may be repeated. The errors are those of Down.
func (c *Client) PowerDownASAP(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	return c.update(ctx, nodes, "State=POWER_DOWN_ASAP", "Reason="+marked(reason, longestReason))
}

// Drain makes Slurm start no more jobs on nodes; running jobs continue. The reason is marked as ours, and replaces any
// other. It may be repeated. The errors are those of Down.
func (c *Client) Drain(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	return c.update(ctx, nodes, "State=DRAIN", "Reason="+marked(reason, longestReason))
}

// Undrain ends all drains of nodes, also those of others, and removes their reasons. It does not change the rest of
// the state: a DOWN node stays DOWN (scontrol(1), UNDRAIN). It may be repeated. The errors are those of Down.
func (c *Client) Undrain(ctx context.Context, nodes nodeset.NodeSet) error {
	err := c.update(ctx, nodes, undrain)
	if refused := (*Refused)(nil); nodes.Empty() || err != nil && !errors.As(err, &refused) {
		return err
	}
	states, unknown := c.States(ctx, nodes)
	var left []string
	for _, name := range nodes.Names() {
		if state := states[name]; state.Reason != "" && !state.Down() && !state.Drained() {
			left = append(left, name)
		}
	}
	return errors.Join(err, unknown, c.ClearReason(ctx, nodeset.Of(left...)))
}

// ClearReason removes the reasons of nodes that are up; slurmctld keeps the reason of a failure until it is cleared. It
// may be repeated. The errors are those of Down.
func (c *Client) ClearReason(ctx context.Context, nodes nodeset.NodeSet) error {
	return c.update(ctx, nodes, noReason)
}

func (c *Client) update(ctx context.Context, nodes nodeset.NodeSet, settings ...string) error {
	failures := reconfigure.Failures{}
	if err := c.updateInto(ctx, failures, nodes, settings); err != nil {
		return err
	}
	if len(failures) > 0 {
		return &Refused{failures}
	}
	return nil
}

// updateInto finds the nodes that Slurm refuses. Slurm changes nodes in order up to the first that it refuses, and
// does not name that one. So updateInto halves a refused list and repeats the calls, until each refused node is alone
// in its list.
func (c *Client) updateInto(
	ctx context.Context, failures reconfigure.Failures, nodes nodeset.NodeSet, settings []string,
) error {
	hostlist := nodes.String()
	switch {
	case nodes.Empty():
		return nil
	case len(hostlist) <= longestHostlist:
		_, err := c.call(ctx, "scontrol", append([]string{"update", "NodeName=" + hostlist}, settings...)...)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if down := c.Ping(ctx); down != nil {
			return down
		}
		if nodes.Len() == 1 {
			failures[hostlist] = err
			return nil
		}
	}
	names := nodes.Names()
	for _, half := range [][]string{names[:len(names)/2], names[len(names)/2:]} {
		if err := c.updateInto(ctx, failures, nodeset.Of(half...), settings); err != nil {
			return err
		}
	}
	return nil
}

// marked adds our mark to a reason and makes it fit for Slurm: one line of at most longest bytes, without the quotes
// that are special in Slurm's output and configuration.
func marked(reason string, longest int) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r == '"' || r == '\'' || r == '`' || r == utf8.RuneError:
			return -1
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		}
		return r
	}, reason)
	plain = strings.Join(strings.Fields(plain), " ")
	prefix := strings.TrimSpace(ReasonPrefix)
	for strings.HasPrefix(plain, prefix) {
		plain = strings.TrimSpace(strings.TrimPrefix(plain, prefix))
	}
	text := ReasonPrefix + plain
	if len(text) <= longest {
		return text
	}
	const more = "…"
	end := longest - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
