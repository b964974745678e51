package engine

import (
	"context"
	"maps"
	"sync"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Common is what the batches have in common that are under way at the same time: whose turn it is with the tools that have one user at a time, and what each should
// know of the others. There is one for each worker. No method waits for anything but a turn.
type Common struct {
	terraform, ansible turn

	lock      sync.Mutex
	instances map[string]reconfigure.Instance // what Terraform's state had when it was read last
	apart     map[*batch]nodeset.NodeSet
}

// NewCommon is for batches that know of no others yet.
func NewCommon() *Common {
	return &Common{terraform: make(turn, 1), ansible: make(turn, 1), apart: map[*batch]nodeset.NodeSet{}}
}

// Terraform waits for the turn to have instances made or removed. It lasts from the look on which that is planned until it is done, since a plan has the whole map of
// nodes; done ends it, and may be called again. An error is that of a ctx that has ended.
func (c *Common) Terraform(ctx context.Context) (done func(), err error) {
	return c.terraform.take(ctx)
}

// turn is held by one at a time, and handed on in the order in which they came.
type turn chan struct{}

func (t turn) take(ctx context.Context) (done func(), err error) {
	select {
	case t <- struct{}{}:
		return sync.OnceFunc(func() { <-t }), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// found notes what Terraform's state has. It is read while it is one's turn only, so what is noted last is the newest.
func (c *Common) found(instances map[string]reconfigure.Instance) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.instances = maps.Clone(instances)
}

// known is what Terraform's state had when it was read last, by whichever batch. A batch that is done with Terraform must not read it: another one may be changing it.
func (c *Common) known() map[string]reconfigure.Instance {
	c.lock.Lock()
	defer c.lock.Unlock()
	return maps.Clone(c.instances)
}

// keepApart has the other batches not log in to nodes, in the place of those that the batch named before: their instances come or go, or boot.
func (c *Common) keepApart(b *batch, nodes nodeset.NodeSet) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.apart[b] = nodes
	if nodes.Empty() {
		delete(c.apart, b)
	}
}

// others is the nodes that batches other than this one want left alone.
func (c *Common) others(b *batch) nodeset.NodeSet {
	c.lock.Lock()
	defer c.lock.Unlock()
	var all nodeset.NodeSet
	for other, nodes := range c.apart {
		if other != b {
			all = all.Union(nodes)
		}
	}
	return all
}
