package operation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batcher"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// asked is a query about nodes; without nodes it is about all.
type asked struct {
	scheduler Scheduler // for queries of Slurm's states
	nodes     nodeset.NodeSet
}

// askedAbout returns the nodes of all queries; no nodes if one of the queries is about all.
func askedAbout[Out any](calls []*batcher.Call[asked, Out]) nodeset.NodeSet {
	var nodes nodeset.NodeSet
	for _, c := range calls {
		if c.In.nodes.Empty() {
			return nodeset.NodeSet{}
		}
		nodes = nodes.Union(c.In.nodes)
	}
	return nodes
}

// askStates reads one list of nodes from Slurm and gives it to all waiting calls. All of them came before the query.
func (o *Operator) askStates(r *batcher.Run[asked, map[string]reconfigure.NodeState]) {
	states, err := r.Calls[len(r.Calls)-1].In.scheduler.States(o.ctx, askedAbout(r.Calls))
	for _, c := range r.Calls {
		c.Finish(states, err)
	}
}

// statesOf returns the current states of these nodes, without those that Slurm does not know; without nodes, of all.
func (o *Operator) statesOf(ctx context.Context, nodes nodeset.NodeSet) (map[string]reconfigure.NodeState, error) {
	slurm, err := o.scheduler()
	if err != nil {
		return nil, err
	}
	return o.states.Do(ctx, asked{slurm, nodes})
}

// state returns the node's current state in Slurm; the zero value if Slurm does not know it.
func (o *operation) state(ctx context.Context) (reconfigure.NodeState, error) {
	states, err := o.operator.statesOf(ctx, nodeset.Of(o.change.Node))
	return states[o.change.Node], err
}

// askServers reads one list of servers from the cloud, and the known instances that it lacks, and gives them to all
// waiting calls.
func (o *Operator) askServers(r *batcher.Run[asked, map[string][]reconfigure.Server]) {
	_, deps := o.using()
	nodes, began := askedAbout(r.Calls), time.Now()
	servers, err := deps.Cloud.Servers(o.ctx, nodes)
	if err == nil {
		var gone []string
		servers, gone, err = snapshot.Confirm(o.ctx, servers, o.knownIDs(nodes), deps.Cloud.Server)
		o.areGone(gone)
	}
	servers, aside := snapshot.Divide(servers)
	o.keepsAside(nodes, aside)
	for _, c := range r.Calls {
		c.Finish(servers, err)
	}
	if took := time.Since(began); took > time.Second { // a list of thousands: spare the cloud
		_ = sleep.For(o.ctx, 2*took)
	}
}

// knownIDs returns the ids of the known instances of nodes that may exist; without nodes, of all.
func (o *Operator) knownIDs(nodes nodeset.NodeSet) map[string]string {
	o.lock.Lock()
	defer o.lock.Unlock()
	ids := map[string]string{}
	for node, i := range o.instances {
		if (nodes.Empty() || nodes.Contains(node)) && !o.noMore[i.ID] {
			ids[node] = i.ID
		}
	}
	return ids
}

// areGone records the ids of instances that the cloud no longer has, so that it is not asked for them again.
func (o *Operator) areGone(ids []string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for _, id := range ids {
		o.noMore[id] = true
	}
}

// serversOf returns the current instances of nodes in the cloud; without nodes, of all.
func (o *Operator) serversOf(ctx context.Context, nodes nodeset.NodeSet) (map[string][]reconfigure.Server, error) {
	return o.servers.Do(ctx, asked{nodes: nodes})
}

func (o *Operator) serversOfNode(ctx context.Context, node string) ([]reconfigure.Server, error) {
	servers, err := o.serversOf(ctx, nodeset.Of(node))
	return servers[node], err
}

func (o *Operator) scheduler() (Scheduler, error) {
	control, err := o.control()
	if err != nil {
		return nil, err
	}
	_, deps := o.using()
	return deps.Scheduler(control), nil
}

// updateKind is a kind of command to Slurm about nodes.
type updateKind string

const (
	updateDown      updateKind = "down"
	updatePowerDown updateKind = "power_down"
	updateDrain     updateKind = "drain"
	updateUndrain   updateKind = "undrain"
	updateReason    updateKind = "reason"
)

// update is a command to Slurm about one node.
type update struct {
	node   string
	kind   updateKind
	reason string
}

// update sends a command about the node to Slurm, together with those about others.
func (o *operation) update(ctx context.Context, kind updateKind, reason string) error {
	_, err := o.operator.updates.Do(ctx, update{o.change.Node, kind, reason})
	return err
}

// updateAll sends each kind of command once, for all of its nodes.
func (o *Operator) updateAll(r *batcher.Run[update, struct{}]) {
	slurm, err := o.scheduler()
	type telling struct {
		kind   updateKind
		reason string
	}
	together := map[telling][]*batcher.Call[update, struct{}]{}
	for _, c := range r.Calls {
		if err != nil {
			c.Finish(struct{}{}, err)
			continue
		}
		t := telling{c.In.kind, c.In.reason}
		together[t] = append(together[t], c)
	}
	for t, calls := range together {
		names := make([]string, len(calls))
		for i, c := range calls {
			names[i] = c.In.node
		}
		err := tellSlurm(o.ctx, slurm, t.kind, nodeset.Of(names...), t.reason)
		for _, c := range calls {
			c.Finish(struct{}{}, ofNode(err, c.In.node))
		}
	}
}

// jobNotice is a comment on jobs.
type jobNotice struct {
	jobs []reconfigure.Job
	text string
}

// noticeAll sets each comment once, on all of its jobs.
func (o *Operator) noticeAll(r *batcher.Run[jobNotice, struct{}]) {
	control, err := o.control()
	_, deps := o.using()
	together := map[string][]*batcher.Call[jobNotice, struct{}]{}
	for _, c := range r.Calls {
		if err != nil {
			c.Finish(struct{}{}, err)
			continue
		}
		together[c.In.text] = append(together[c.In.text], c)
	}
	for _, text := range slices.Sorted(maps.Keys(together)) {
		var jobs []int64
		for _, c := range together[text] {
			for _, job := range c.In.jobs {
				jobs = append(jobs, job.ID)
			}
		}
		slices.Sort(jobs)
		err := deps.Commenter(control).Comment(o.ctx, slices.Compact(jobs), text)
		for _, c := range together[text] {
			c.Finish(struct{}{}, err)
		}
	}
}

func tellSlurm(ctx context.Context, slurm Scheduler, kind updateKind, nodes nodeset.NodeSet, reason string) error {
	switch kind {
	case updateDown:
		return slurm.Down(ctx, nodes, reason)
	case updatePowerDown:
		return slurm.PowerDown(ctx, nodes)
	case updateDrain:
		return slurm.Drain(ctx, nodes, reason)
	case updateUndrain:
		return slurm.Undrain(ctx, nodes)
	case updateReason:
		return slurm.ClearReason(ctx, nodes)
	}
	return fmt.Errorf("no command for Slurm is known for %q", kind)
}

// ofNode returns a node's part of an error that may name the nodes that it concerns.
func ofNode(err error, node string) error {
	var named interface {
		error
		Nodes() reconfigure.Failures
	}
	if errors.As(err, &named) {
		return named.Nodes()[node]
	}
	return err
}

// powerDown gives the node back to power saving, unless slurmd has registered meanwhile and a job may be on the node
// (slurm.conf(5), ReturnToService): then it is in use again.
func (o *operation) powerDown(ctx context.Context) error {
	state, err := o.state(ctx)
	if err != nil || state.Running() {
		return err
	}
	return o.update(ctx, updatePowerDown, "")
}
