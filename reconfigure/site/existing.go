package site

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// OpenExisting is Open for a declaration whose control node exists. The error says so if it does not.
func OpenExisting(dir string) (Site, error) {
	s, err := opened(dir)
	if err == nil && s.Cluster.Control.Existing == nil {
		err = fmt.Errorf("%s has no control_node.existing, the host of the control node to attach to", s.DeclarationFile())
	}
	return s, err
}

// onlyMade returns an error for a site whose control node exists: only one command knows such a site.
func onlyMade(s Site) error {
	if s.Cluster.Control.Existing == nil {
		return nil
	}
	return fmt.Errorf("%s has control_node.existing: this release only plans an attachment, by `reconfigure plan attach`",
		s.DeclarationFile())
}

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
	remote := fmt.Sprintf("PATH=$PATH:/usr/local/bin:/opt/slurm/bin:/usr/local/slurm/bin:%s LC_ALL=C SLURM_CONF=%s",
		path.Join(path.Dir(path.Dir(control.SlurmConf)), "bin"), control.SlurmConf)
	for _, word := range words {
		remote += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return process.Cmd{Path: "ssh", Args: []string{"-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
		"-o", "ServerAliveInterval=15", "-i", filepath.Clean(key), "-l", control.User, "--", control.Host, remote}}
}
