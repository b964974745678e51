package site

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// starter starts slurmd on nodes that need no playbook.
type starter struct{ site Site }

const (
	// startWithin is the time until the login user can log in to a node that has just booted, and slurmd runs.
	startWithin = time.Minute
	// startSlurmd is run by the shell of the login user. The unit of slurmd is ordered after munge and the mounts, so
	// systemd waits for them while the node still boots.
	startSlurmd = "if [ -d /run/systemd/system ]; then sudo -n systemctl start slurmd; " +
		"else sudo -n service slurmd start; fi"
)

// StartSlurmd starts slurmd by the node's service manager. It is tried again while the node refuses logins.
func (s starter) StartSlurmd(ctx context.Context, i reconfigure.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	c := s.site.Cluster
	argv := append(s.site.knownHostsFile().Command(c.LoginUser, i.Address, c.PrivateKeyFile), startSlurmd)
	for {
		var said bytes.Buffer
		err := Run(ctx, process.Cmd{Path: argv[0], Args: argv[1:], Stderr: &said})
		if err == nil {
			return nil
		}
		if sleep.For(ctx, time.Second) != nil {
			return fmt.Errorf("start slurmd on %s: %w: %s", i.Node, err, bytes.TrimSpace(said.Bytes()))
		}
	}
}
