package ansible

import (
	"context"
	"errors"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// imagePlaybook prepares a node for an image.
const imagePlaybook = "image.yml"

// Clean runs image.yml on an instance: it stops slurmd, and removes what belongs only to the node or the cluster. It
// may be repeated, and may run at the same time as Configure if that does not log in to the node.
func (r *Runner) Clean(ctx context.Context, c reconfigure.Cluster, i reconfigure.Instance) (err error) {
	s, err := newScratch(c.Settings.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	node := nodeset.Of(i.Node)
	inv := newInventory(c, map[string]reconfigure.Instance{i.Node: i}, nil)
	err = errors.Join(
		s.writeVars(c, reconfigure.Extent{Changed: node}, r.vars()), s.writeInventory(r.sources(), inv.only(node)),
	)
	if err != nil {
		return err
	}
	seen, err := r.execute(ctx, executor{Runner: r, scratch: s, playbook: imagePlaybook}, func(event) {})
	failures, err := seen.verdicts(node, err)
	if err == nil {
		err = failures[i.Node]
	} else if ctx.Err() == nil { // Ansible did not start, or could not read the playbook: that is no fault of the node
		err = noResult(err)
	}
	if err != nil {
		return fmt.Errorf("clean the disk of %s: %w", i.Node, err)
	}
	return nil
}
