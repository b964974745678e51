package site

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// OpenExisting is Open for a declaration whose control node exists. The error says so if it does not.
func OpenExisting(dir string) (Site, error) {
	s, err := Open(dir)
	if err == nil && s.Cluster.Control.Existing == nil {
		err = fmt.Errorf("%s has no control_node.existing, the host of the control node to attach to", s.DeclarationFile())
	}
	return s, err
}

// ExistingControl returns the control node that exists as an instance, with its IP address. The call may be repeated.
func (s Site) ExistingControl(ctx context.Context) (reconfigure.Instance, error) {
	host := s.Cluster.Control.Existing.Host
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return reconfigure.Instance{}, fmt.Errorf("the address of control_node.existing: %w", err)
	}
	return reconfigure.Instance{Node: s.Cluster.Control.Name, ID: reconfigure.ExistingID,
		Address: addresses[0].Unmap().String(), Made: reconfigure.Spec{Group: reconfigure.ControlGroup}}, nil
}

// addExisting adds the control node to the instances if the site runs it.
func (s Site) addExisting(ctx context.Context, instances map[string]reconfigure.Instance) error {
	if !s.Cluster.Attached() {
		return nil
	}
	control, err := s.ExistingControl(ctx)
	if err != nil {
		return err
	}
	instances[control.Node] = control
	return nil
}

// Playbooks returns what runs the playbooks.
func (a *Adapters) Playbooks(ctx context.Context) (*ansible.Runner, error) { return a.playbooks(ctx) }

// OnControlNode runs a program on the control node that exists, and returns its output. The login is that of a person:
// ssh uses the configuration and the known hosts of the caller. The call may be repeated if the program may.
func (s Site) OnControlNode(ctx context.Context, program string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	command := sshCommand(*s.Cluster.Control.Existing, s.Cluster.PrivateKeyFile, append([]string{program}, args...))
	command.Stdout = &out
	if err := Run(ctx, command); err != nil {
		return nil, fmt.Errorf("%s on %s: %w", program, s.Cluster.Control.Existing.Host, err)
	}
	return out.Bytes(), nil
}

// sshCommand returns the command. Slurm's programs may be in a folder that only login shells have in their PATH.
func sshCommand(control reconfigure.ExistingControl, key string, words []string) process.Cmd {
	remote := fmt.Sprintf("PATH=$PATH:%s LC_ALL=C SLURM_CONF=%s", control.Path(), control.SlurmConf)
	for _, word := range words {
		remote += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return process.Cmd{Path: "ssh", Args: []string{"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
		"-o", "ServerAliveInterval=15", "-i", filepath.Clean(key), "-l", control.User, "--", control.Host, remote}}
}
