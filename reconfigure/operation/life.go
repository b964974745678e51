package operation

import (
	"cmp"
	"context"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// beginLife records that an attempt has an instance; continues is that of Life.
func (o *operation) beginLife(id string, continues bool) {
	if id == "" || o.change.Action == reconfigure.Stop { // without an id it would be an end
		return
	}
	spec := o.attempted(o.change.Spec)
	o.attempt.life = reconfigure.Life{
		Node: o.change.Node, Instance: id, Plan: o.round.Number, Group: spec.Group, ImageID: spec.ImageID,
		FlavorID: spec.FlavorID, Planned: o.term.began, Made: time.Now(), Continues: continues,
	}
	if a := o.progress.get().server; a.ID == id {
		o.attempt.life.Made, o.attempt.life.Host = o.progress.get().at, a.Host
	}
	source := o.sources()[0]
	if means := o.round.Seen.Sources[source]; means.ImageID == spec.ImageID {
		o.attempt.life.Image = source.Image
	}
	o.attempt.life.Flavor = o.flavorName(spec.FlavorID)
	o.recordLife(o.attempt.life)
}

// sources returns what is declared for the node's instance, with each flavor that it may have.
func (o *operation) sources() []reconfigure.Source {
	if group, ok := o.round.Cluster.GroupOf(o.change.Node); ok {
		return group.Sources()
	}
	return []reconfigure.Source{o.round.Cluster.Control.Source}
}

// flavorName returns the name of a flavor; empty if it is unknown.
func (o *operation) flavorName(id string) string {
	for _, source := range o.sources() {
		if o.round.Seen.Sources[source].FlavorID == id {
			return source.Flavor
		}
	}
	return ""
}

// passed records that the new instance has passed a step. Operations that make no instance have no life to record.
func (o *operation) passed(step func(*reconfigure.Life) *time.Time) {
	if o.attempt.life.Instance != "" {
		*step(&o.attempt.life) = time.Now()
		o.recordLife(o.attempt.life)
	}
}

func booted(l *reconfigure.Life) *time.Time     { return &l.Booted }
func configured(l *reconfigure.Life) *time.Time { return &l.Configured }
func registered(l *reconfigure.Life) *time.Time { return &l.Registered }

// failLife records why the new instance did not come up, also if the cloud has given it up.
func (o *operation) failLife(err error) {
	if a := o.progress.get().server; o.attempt.life.Instance == "" && a.ID != "" {
		o.beginLife(a.ID, false)
	}
	if o.attempt.life.Instance != "" && o.attempt.life.Registered.IsZero() {
		o.attempt.life.Failed = said(err)
		o.recordLife(o.attempt.life)
	}
}

// endLife records that the node no longer has an instance, or has a stopped one.
func (o *operation) endLife() {
	o.attempt.life = reconfigure.Life{}
	o.progress.forget()
	o.recordLife(reconfigure.Life{Node: o.change.Node, Removed: time.Now()})
}

// onHost records the host of the instance. The first answer counts, since the instance may have moved later.
func (o *operation) onHost(s reconfigure.Server) {
	o.attempt.life.Host = cmp.Or(o.attempt.life.Host, s.Host)
}

// findHost records the host of an instance that failed before the cloud had named its host.
func (o *operation) findHost(ctx context.Context) {
	life := &o.attempt.life
	if life.Instance == "" || life.Host != "" || !life.Registered.IsZero() {
		return
	}
	servers, _ := o.operator.serversOfNode(ctx, o.change.Node) // without an answer the host stays unknown
	for _, s := range servers {
		if s.ID == life.Instance && s.Host != "" {
			o.onHost(s)
			o.recordLife(*life)
		}
	}
}

// recordLife, like record, writes nothing after the operator's end.
func (o *operation) recordLife(l reconfigure.Life) {
	if o.operator.ctx.Err() != nil {
		return
	}
	o.deps().Recorder.Record(reconfigure.Event{Time: time.Now(), Plan: o.round.Number, Node: o.change.Node, Life: &l})
}
