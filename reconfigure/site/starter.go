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
	// startWithin is the time limit for the first login to a node after its boot and for the start of slurmd.
	startWithin = time.Minute
	// The login user's shell runs startSlurmd. The unit of slurmd is ordered after munge and the mounts, so systemd
	// waits for them while the node still boots.
	startSlurmd = "if [ -d /run/systemd/system ]; then sudo -n systemctl start slurmd; " +
		"else sudo -n service slurmd start; fi"
)

// StartSlurmd starts slurmd by the node's service manager. It retries while the node refuses logins.
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
