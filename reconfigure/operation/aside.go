package operation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/provision"
)

// setAside keeps the instance of a failed attempt, stopped, and reports whether it does. Its host may be the cause, and
// the cloud's scheduler, which prefers the host with the most room, would choose the same host again for the next
// attempt. An instance that Slurm uses is left alone. The state of Terraform forgets the instance first: a worker that
// ends in between leaves an unknown instance, which the next run for the node removes.
func (o *operation) setAside(failure error) bool {
	cloud, keeps := o.deps().Cloud.(Keeper)
	id := o.instance.ID
	if !keeps || id == "" || !reconfigure.ClassOf(failure).Boots() || o.change.Node == o.round.Cluster.Control.Name {
		return false
	}
	late := fmt.Errorf("it is not done after %s", o.operator.timing.Aside)
	ctx, cancel := context.WithTimeoutCause(o.term.ctx, o.operator.timing.Aside, late)
	defer cancel()
	err := o.hasRoom(ctx)
	if err == nil {
		err = o.unused(ctx)
	}
	if err == nil {
		_, err = o.ask(ctx, o.forgets())
	}
	if err == nil { // again, since the state may have been locked for long
		err = o.unused(ctx)
	}
	if err == nil {
		err = cloud.SetAside(ctx, id)
	}
	if err != nil {
		o.note("its instance is not kept until another one is up: " + err.Error())
		return false
	}
	o.endLife()
	o.gone()
	o.aside = id
	o.note("its instance " + id + " is kept, stopped, until another one is up, so that the cloud chooses another host")
	return true
}

// hasRoom returns an error unless the quota has room for another instance beside that of the node.
func (o *operation) hasRoom(ctx context.Context) error {
	room, err := o.deps().Quota.Room(ctx)
	if err != nil {
		return err
	}
	return provision.Shortage(room.In(o.shard()), o.attempted(o.round.Plan.Desired[o.change.Node]).FlavorID)
}

// unused returns an error if a job runs or may start on the instance, or if that is unknown.
func (o *operation) unused(ctx context.Context) error {
	state, err := o.state(ctx)
	return provision.InUse(o.instance.Instance, state, err)
}

// lacksRoomBeside reports whether the cloud has no room while an instance is set aside. Its host may be the only one
// with room.
func (o *operation) lacksRoomBeside(err error) bool {
	return o.aside != "" && reconfigure.ClassOf(err).NoRoom() && o.term.ctx.Err() == nil
}

// removeAside removes the instances of the node that were set aside, also by a worker that has ended. It waits for a
// limited time: the cloud has the requests by then, and the worker's comparison removes what is left.
func (o *operation) removeAside() {
	if o.operator.ctx.Err() != nil {
		return
	}
	ids := o.operator.asideOf(o.change.Node)
	if o.aside != "" && !slices.Contains(ids, o.aside) {
		ids = append(ids, o.aside)
	}
	o.aside = ""
	slow := errors.New("the cloud is still removing it")
	ctx, cancel := context.WithTimeoutCause(o.operator.ctx, o.operator.timing.Straggler, slow)
	defer cancel()
	anyAge := time.Now().AddDate(1, 0, 0)
	for _, id := range ids {
		if err := o.deps().Cloud.RemoveServer(ctx, id, o.change.Node, anyAge); err != nil {
			o.note("instance " + id + ", which was kept, may still exist: " + err.Error())
		}
	}
}

// keepsAside stores the instances that are set aside, as the cloud has listed them for these nodes; without nodes, for
// all.
func (o *Operator) keepsAside(nodes nodeset.NodeSet, listed map[string][]reconfigure.Server) {
	o.lock.Lock()
	defer o.lock.Unlock()
	maps.DeleteFunc(o.aside, func(node string, _ []reconfigure.Server) bool {
		return nodes.Empty() || nodes.Contains(node)
	})
	maps.Copy(o.aside, listed)
}

// asideOf returns the ids of a node's instances that are set aside, for their removal, and forgets them.
func (o *Operator) asideOf(node string) (ids []string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	for _, s := range o.aside[node] {
		ids = append(ids, s.ID)
	}
	delete(o.aside, node)
	return ids
}
