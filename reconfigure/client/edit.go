package client

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// Edit is a change of the declaration that belongs to a request. A nil Edit is no change.
type Edit struct {
	config.MinNodes
	prepared config.Edit
}

// NewEdit prepares a change of min_nodes of a group; nil if it already has that value.
func NewEdit(s site.Site, g reconfigure.NodeGroup, n int) (*Edit, error) {
	if n == g.Min {
		return nil, nil
	}
	e := Edit{MinNodes: config.MinNodes{Group: g.Name, From: g.Min, To: n}}
	var err error
	e.prepared, err = config.Prepare(s.Dir, e.MinNodes)
	return &e, err
}

// Make makes the change, and logs it.
func (e *Edit) Make(ctx context.Context, log *slog.Logger) error {
	if e == nil {
		return nil
	}
	if err := e.prepared.Write(ctx); err != nil {
		return err
	}
	log.InfoContext(ctx, e.String())
	return nil
}

// Stands returns the error of a request that could not be made although its edit was.
func (e *Edit) Stands(err error) error {
	if e == nil {
		return err
	}
	return fmt.Errorf(
		"all.yml now has min_nodes %d of %s, but the request was not made; `reconfigure resize %s` makes "+
			"it: %w",
		e.To,
		e.Group,
		e.Group,
		err,
	)
}
