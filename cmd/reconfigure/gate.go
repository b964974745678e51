package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/gate"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// gateTimeout is the time for one call: Slurm's scripts wait a little longer.
const gateTimeout = 55 * time.Second

func gateCommand() *cli.Command {
	return command(cli.Command{
		Name:  "gate",
		Usage: "carry out what SSH_ORIGINAL_COMMAND asks for, if the key of the caller may ask for it",
		Description: "The forced command of the keys of Slurm's scripts (authorized_keys, sshd(8)). The role controller " +
			"may resume, suspend and update nodes and show the status; the role node may update its own node. Refused " +
			"calls are in the journal; see docs/how-it-works/gate.md.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "role", Usage: "`ROLE` is controller or node"},
			&cli.StringFlag{Name: "node", Usage: "the `NODE` whose key this is"},
		},
		Action: func(c *cli.Context) error {
			key := gate.Key{Role: gate.Role(c.String("role")), Node: c.String("node")}
			if err := key.Check(); err != nil {
				return usagef(c, "%v", err)
			}
			if err := site.CheckOwner(directory(c)); err != nil {
				return usagef(c, "%v", err)
			}
			ctx, cancel := context.WithTimeout(c.Context, gateTimeout)
			defer cancel()
			ctx, call, err := client.Gate(ctx, directory(c), key)
			if errors.Is(err, gate.ErrRefused) {
				return &usageError{message: err.Error()}
			}
			if err == nil {
				err = passOn(ctx, c, key, call)
			}
			if key.Role == gate.Node && err != nil {
				return errors.New("not accepted") // nodes get no details
			}
			return err
		},
	})
}

// passOn runs the command that a call asks for. Nodes get none of its output.
func passOn(ctx context.Context, c *cli.Context, key gate.Key, call gate.Call) error {
	stdout, stderr := c.App.Writer, c.App.ErrWriter
	if key.Role == gate.Node {
		stdout, stderr = io.Discard, io.Discard
	}
	app := newApp(c.App.Reader, stdout, stderr)
	app.ExitErrHandler = c.App.ExitErrHandler
	return runApp(ctx, app, append([]string{app.Name, "--dir", directory(c)}, call.Arguments()...))
}
