package site

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// starter starts slurmd on nodes that need no playbook.
type starter struct{ site Site }

const (
	// startWithin is the time limit for the first login to a node after its boot and for the start of slurmd, without the
	// health checks.
	startWithin = time.Minute
	// The login user's shell runs startSlurmd. The unit of slurmd is ordered after munge and the mounts, so systemd
	// waits for them while the node still boots.
	startSlurmd = "if [ -d /run/systemd/system ]; then sudo -n systemctl start slurmd; " +
		"else sudo -n service slurmd start; fi"
	// checkHealth runs the health checks, and ends the shell with its status if one of them fails.
	checkHealth = "sudo -n " + reconfigure.HealthFolder + "/run || exit $?; "
	unhealthy   = 93 // the status of ansible/health/run; ssh, sudo and the shell do not use it
)

// StartSlurmd starts slurmd by the node's service manager. It retries while the node refuses logins.
func (s starter) StartSlurmd(ctx context.Context, i reconfigure.Instance) error {
	check, limit := s.health(i.Node)
	ctx, cancel := context.WithTimeout(ctx, startWithin+limit)
	defer cancel()
	return s.run(ctx, i, check+startSlurmd, "start slurmd")
}

// CheckHealth runs the health checks of a node. It retries while the node refuses logins.
func (s starter) CheckHealth(ctx context.Context, i reconfigure.Instance) error {
	check, limit := s.health(i.Node)
	if check == "" {
		return errors.New("its group declares no health_check")
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin+limit)
	defer cancel()
	return s.run(ctx, i, check, "check the health")
}

// run runs a command of the login user's shell, until it succeeds or ctx ends. A failed health check ends it at once.
func (s starter) run(ctx context.Context, i reconfigure.Instance, command, what string) error {
	c := s.site.Cluster
	argv := append(s.site.knownHostsFile().Command(c.LoginUser, i.Address, c.PrivateKeyFile), command)
	for {
		var said bytes.Buffer
		err := Run(ctx, process.Cmd{Path: argv[0], Args: argv[1:], Stdout: &said, Stderr: &said})
		if err == nil {
			return nil
		}
		if failed := (*process.Error)(nil); errors.As(err, &failed) && failed.Code == unhealthy {
			return sick(said.String())
		}
		if sleep.For(ctx, time.Second) != nil {
			return fmt.Errorf("%s of %s: %w: %s", what, i.Node, err, bytes.TrimSpace(said.Bytes()))
		}
	}
}

// health returns the command that runs the health checks of a node, and the longest time that they may take; empty if
// its group declares none.
func (s starter) health(node string) (command string, limit time.Duration) {
	g, ok := s.site.Cluster.GroupOf(node)
	if !ok || len(g.HealthChecks) == 0 {
		return "", 0
	}
	return checkHealth, g.HealthTime()
}

// sick is the failure of a node's health check, which has printed what is wrong.
func sick(said string) error {
	said = strings.TrimSpace(said)
	return reconfigure.WithOutput(said+"\n",
		reconfigure.Classify(reconfigure.ClassUnhealthy, errors.New(cmp.Or(said, "a health check failed"))))
}
