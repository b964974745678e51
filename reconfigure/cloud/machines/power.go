package machines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// The statuses of a machine.
const (
	statusOn      = reconfigure.ServerActive
	statusOff     = reconfigure.ServerStopped
	statusError   = reconfigure.ServerFailed
	statusUnknown = reconfigure.ServerStatus("UNKNOWN") // its command failed
)

// machine is a node with its flavor and address.
type machine struct {
	node, address string
	flavor        Flavor
}

// machine returns a node's machine. Its flavor is the one with which it was taken into service.
func (c *Client) machine(ctx context.Context, node, flavor string) (machine, error) {
	f, known := c.table.Flavors[flavor]
	if !known {
		return machine{}, reconfigure.Classify(reconfigure.ClassMissing,
			fmt.Errorf("%s has no flavor %q, which %s needs", File, flavor, node))
	}
	return machine{node, c.address(ctx, node), f}, nil
}

// run runs a command for a machine, and returns what it prints.
func (c *Client) run(ctx context.Context, m machine, argv []string) (string, error) {
	select {
	case c.commands <- struct{}{}:
		defer func() { <-c.commands }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	limit := seconds(c.table.CommandSeconds)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	argv = command(argv, m.node, m.address)
	var out bytes.Buffer
	err := process.Run(limited, process.Cmd{
		Path: argv[0], Args: argv[1:], Dir: c.access.Dir, Env: c.access.Means.Environ, Stdout: &out,
	})
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case limited.Err() != nil && err != nil:
		return "", reconfigure.Classify(reconfigure.ClassCloud,
			fmt.Errorf("%s for %s did not end within %s", argv[0], m.node, limit))
	case err != nil:
		return "", failed(argv[0], m.node, out.String(), err)
	}
	return out.String(), nil
}

// failed returns the failure of a command: the last line that it printed, and a class by its exit code. The arguments
// are left out, since they may have a password. EX_TEMPFAIL (sysexits.h) means that there is no room now; 126 and 127
// are the codes of env(1) and of shells for a program that cannot be run.
func failed(program, node, printed string, err error) error {
	const (
		tempFail  = 75
		notRun    = 126
		notThere  = 127
		mostWords = 300 // bytes
	)
	ended, began := errors.AsType[*process.Error](err)
	if !began {
		return reconfigure.Classify(reconfigure.ClassMissing, err)
	}
	class := reconfigure.ClassCloud
	switch ended.Code {
	case tempFail:
		class = reconfigure.ClassCapacity
	case notRun, notThere:
		class = reconfigure.ClassMissing
	}
	words := fmt.Sprintf("%s for %s ended with exit code %d", program, node, ended.Code)
	for _, text := range []string{ended.Stderr, printed} {
		if line := lastLine(text); line != "" {
			words += ": " + line[:min(len(line), mostWords)]
			break
		}
	}
	return reconfigure.Classify(class, errors.New(words))
}

// lastLine returns the last non-empty line of a text.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// status asks for the status of a machine. With an error it is statusUnknown.
func (c *Client) status(ctx context.Context, m machine) (reconfigure.ServerStatus, error) {
	if !m.flavor.switched() {
		return statusOn, ctx.Err()
	}
	printed, err := c.run(ctx, m, m.flavor.State)
	if err != nil {
		return statusUnknown, err
	}
	return parseStatus(m, printed)
}

// parseStatus reads the last word of a command's output, for example ipmitool(1)'s "Chassis Power is on" and
// virsh(1)'s "running" and "shut off".
func parseStatus(m machine, printed string) (reconfigure.ServerStatus, error) {
	words := strings.Fields(strings.ToLower(printed))
	if len(words) > 0 {
		switch strings.Trim(words[len(words)-1], `".,`) {
		case "on", "running":
			return statusOn, nil
		case "off":
			return statusOff, nil
		case "error", "crashed":
			return statusError, nil
		}
	}
	return statusUnknown, fmt.Errorf("%s for %s printed %q, which ends with neither on nor off", m.flavor.State[0], m.node,
		lastLine(printed))
}

// on switches a machine on if it is off.
func (c *Client) on(ctx context.Context, m machine) error {
	if status, err := c.status(ctx, m); err != nil || status == statusOn {
		return err
	}
	if _, err := c.run(ctx, m, m.flavor.On); err != nil {
		return err
	}
	err := c.await(ctx, m, statusOn, seconds(c.table.SwitchSeconds))
	if ctx.Err() != nil {
		return err
	}
	return reconfigure.Classify(reconfigure.ClassBoot, err)
}

// off switches a machine off if it is on. The machine's services end first, if it accepts the login.
func (c *Client) off(ctx context.Context, m machine) error {
	if !m.flavor.switched() {
		return nil
	}
	if status, err := c.status(ctx, m); err != nil || status == statusOff {
		return err
	}
	if c.shutDown(ctx, m) {
		return nil
	}
	if _, err := c.run(ctx, m, m.flavor.Off); err != nil {
		return err
	}
	return c.await(ctx, m, statusOff, seconds(c.table.SwitchSeconds))
}

// shutDown runs the shutdown command on a machine, and reports whether it is off.
func (c *Client) shutDown(ctx context.Context, m machine) bool {
	if len(c.table.Shutdown) == 0 || m.address == "" || c.access.Means.Login == nil {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, seconds(c.table.CommandSeconds))
	err := c.access.Means.Login(limited, reconfigure.Instance{Node: m.node, ID: m.node, Address: m.address},
		command(c.table.Shutdown, m.node, m.address))
	cancel()
	return err == nil && c.await(ctx, m, statusOff, seconds(c.table.ShutdownSeconds)) == nil
}

// await returns when a machine has a status.
func (c *Client) await(ctx context.Context, m machine, want reconfigure.ServerStatus, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(c.poll)
	defer tick.Stop()
	last := string(statusUnknown)
	for {
		status, err := c.status(limited, m)
		switch {
		case err == nil && status == want:
			return nil
		case limited.Err() == nil && err != nil:
			last = string(statusUnknown) + ": " + err.Error()
		case limited.Err() == nil:
			last = string(status)
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%s is %s, not %s, after %s", m.node, last, want, limit)
		}
	}
}
