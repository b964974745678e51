package site

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/ssh"
)

// revoking is a Provisioner that revokes the keys of nodes without an instance after its changes.
type revoking struct {
	operation.Provisioner
	revoke func(context.Context)
}

func (r revoking) Apply(
	ctx context.Context, p reconfigure.Preview, watch operation.Watch, interrupt <-chan struct{},
) (reconfigure.Failures, error) {
	failures, err := r.Provisioner.Apply(ctx, p, watch, interrupt)
	if !p.Plan.Nodes(reconfigure.Remove).Empty() {
		r.revoke(ctx)
	}
	return failures, err
}

// revokeKeys removes the keys of nodes that no longer have an instance in the map of nodes from this host's file of
// authorized keys.
func (s Site) revokeKeys(ctx context.Context, log *journal.Journal) error {
	path, err := s.KeyFile()
	if err != nil || path == "" {
		return err
	}
	return ssh.RevokeKeys(ctx, path, func() (func(string) bool, error) {
		nodes, known, err := log.Nodes(ctx)
		if err != nil || !known {
			return nil, err
		}
		return func(line string) bool { return isRevoked(line, s.Cluster, nodes) }, nil
	})
}

// RevokeAll removes the keys of the control node and of all nodes of the cluster from this host's file.
func (s Site) RevokeAll(ctx context.Context) error {
	path, err := s.KeyFile()
	if err != nil || path == "" {
		return err
	}
	made := s.Cluster
	made.Control.Existing = nil
	return ssh.RevokeKeys(ctx, path, func() (func(string) bool, error) {
		return func(line string) bool { return isRevoked(line, made, nil) }, nil
	})
}

// KeyFile returns the file to which the playbooks write keys; empty if its user does not exist on this host.
func (s Site) KeyFile() (string, error) {
	path, err := expandUser(s.Cluster.Settings.AuthorizedKeys)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return "", nil
	}
	return path, err
}

// isRevoked reports whether a line with a key belongs to a node of the cluster that has no instance. The comment and the
// command are those of the role slurm_scripts.
func isRevoked(line string, c reconfigure.Cluster, nodes map[string]reconfigure.Spec) bool {
	if check.Foreign(line, c.Settings.Directory) {
		return false
	}
	words := strings.Fields(line)
	comment := words[len(words)-1]
	node, isNodes := strings.CutPrefix(comment, "reboot@"+c.Name+"/")
	if !isNodes {
		if comment != "slurm@"+c.Name {
			return false
		}
		if c.Attached() {
			return false // `reconfigure detach` removes it
		}
		node = c.Control.Name
	}
	return nodes[node].ImageID == "" // an entry without an image is a kept port
}

// expandUser expands ~ and ~NAME at the beginning of a path.
func expandUser(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok {
		return path, nil
	}
	name, rest, _ := strings.Cut(rest, "/")
	if name == "" {
		home, err := os.UserHomeDir()
		return filepath.Join(home, rest), err
	}
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return filepath.Join(u.HomeDir, rest), nil
}
