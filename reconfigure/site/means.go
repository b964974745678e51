package site

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// means returns the means of the adapter of existing machines. Without a journal they can only read.
func (s Site) means(log *journal.Journal) reconfigure.Means {
	m := reconfigure.Means{
		Control: s.Cluster.Control.Name,
		Nodes: func(ctx context.Context) (map[string]reconfigure.Spec, error) {
			nodes, _, err := s.NodeMap(log).Read(ctx)
			return nodes, err
		},
		Login: func(ctx context.Context, i reconfigure.Instance, command []string) error {
			return s.login(ctx, log, i, command)
		},
		States: func(
			ctx context.Context, control reconfigure.Instance, nodes nodeset.NodeSet,
		) (map[string]reconfigure.NodeState, error) {
			if err := s.KnownHosts(log).Refresh(ctx); err != nil {
				return nil, err
			}
			return s.scheduler(control, false).States(ctx, nodes)
		},
		Environ: Environment(os.Environ()),
	}
	if log != nil {
		m.KeepNodes = log.KeepNodes
	}
	return m
}

// login runs a command on a node as the login user. A shell there interprets the words of the command.
func (s Site) login(ctx context.Context, log *journal.Journal, i reconfigure.Instance, command []string) error {
	if err := s.KnownHosts(log).Refresh(ctx); err != nil {
		return err
	}
	argv := append(s.KnownHosts(log).Command(s.Cluster.LoginUser, i.Address, s.Cluster.PrivateKeyFile), command...)
	var said bytes.Buffer
	if err := Run(ctx, process.Cmd{Path: argv[0], Args: argv[1:], Stderr: &said}); err != nil {
		return fmt.Errorf("log in to %s: %w: %s", i.Node, err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}
