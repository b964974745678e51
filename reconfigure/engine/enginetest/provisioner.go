package enginetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Desired is the map of nodes as it was last applied.
func (w *World) Desired(context.Context) (map[string]reconfigure.Spec, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return maps.Clone(w.desired), nil
}

// Instances is every instance, the half-made ones too.
func (w *World) Instances(ctx context.Context) (map[string]reconfigure.Instance, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := map[string]reconfigure.Instance{}
	for node, m := range w.machines {
		all[node] = m.Instance
		if i := all[node]; m.ID != "" {
			i.Made = m.spec
			all[node] = i
		}
	}
	return all, nil
}

// Preview tells what Apply would do.
func (w *World) Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error) {
	defer w.happened(AfterPreview)
	w.spend(ctx, Planning)
	w.lock.Lock()
	defer w.lock.Unlock()
	switch {
	case ctx.Err() != nil:
		return reconfigure.Preview{}, ctx.Err()
	case w.ordered(StateLocked):
		return reconfigure.Preview{}, failure{StateLocked}
	case !p.Provisions():
		return reconfigure.Preview{Plan: p}, nil
	}
	unreadable := reconfigure.Failures{}
	for node := range p.Nodes(reconfigure.Replace).Intersect(w.faults[Unreadable]).All() {
		unreadable[node] = failure{Unreadable}
	}
	if len(unreadable) > 0 {
		return reconfigure.Preview{}, &reconfigure.Unplannable{Failures: unreadable}
	}
	changes, unasked := w.foresee(p)
	if len(unasked) > 0 {
		return reconfigure.Preview{}, &reconfigure.Refusal{Changes: unasked}
	}
	preview := reconfigure.Preview{Plan: p, File: fmt.Sprint("preview-", w.number()), Changes: changes}
	w.previews[preview.File] = p
	return preview, nil
}

// foresee sorts what Terraform would do into what was asked for and what was not.
func (w *World) foresee(p reconfigure.Plan) (changes, unasked []reconfigure.ResourceChange) {
	if p.Shared && w.shared != (len(p.Desired) > 0) {
		effect := reconfigure.EffectDelete
		if !w.shared {
			effect = reconfigure.EffectCreate
		}
		changes = append(changes, reconfigure.ResourceChange{Address: "shared", Effect: effect})
	}
	for _, c := range p.Changes {
		effect, fair := w.effect(c)
		change := reconfigure.ResourceChange{Address: "instance." + c.Node, Node: c.Node, Effect: effect}
		switch {
		case effect == "":
		case fair:
			changes = append(changes, change)
		default:
			unasked = append(unasked, change)
		}
	}
	for node := range w.faults[OtherImage].Difference(p.Nodes()).All() {
		unasked = append(unasked, reconfigure.ResourceChange{Address: "instance." + node, Node: node, Effect: reconfigure.EffectRebuild})
	}
	return changes, unasked
}

// effect is what a change comes to, empty where there is nothing to do, and whether that is what the change asks for.
func (w *World) effect(c reconfigure.Change) (e reconfigure.Effect, fair bool) {
	m := w.machines[c.Node]
	switch {
	case c.Action == reconfigure.Remove && m != nil:
		return reconfigure.EffectDelete, true
	case c.Action == reconfigure.Remove, c.Action == reconfigure.Reboot, c.Action == reconfigure.Configure, c.Action == reconfigure.Drain, c.Action == reconfigure.Undrain:
		return "", true
	case m == nil || m.gone:
		return reconfigure.EffectCreate, true
	case m.Tainted:
		return reconfigure.EffectReplace, true
	case m.spec != c.Spec:
		return reconfigure.EffectRebuild, c.Action == reconfigure.Replace
	case c.Action == reconfigure.Replace:
		return reconfigure.EffectReplace, true
	}
	return "", true
}

// Apply carries out a preview, once. It logs a call only where there is something to do.
func (w *World) Apply(ctx context.Context, p reconfigure.Preview, watch engine.Watch) (reconfigure.Failures, error) {
	defer w.happened(AfterApply)
	for _, c := range p.Changes {
		watch(c.Node, string(c.Effect)+" "+c.Address)
	}
	w.spend(ctx, Applying)
	return w.apply(ctx, p)
}

func (w *World) apply(ctx context.Context, p reconfigure.Preview) (reconfigure.Failures, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.desired = maps.Clone(p.Plan.Desired)
	if w.desired == nil {
		w.desired = map[string]reconfigure.Spec{}
	}
	_, known := w.previews[p.File]
	switch {
	case p.File == "" || known && len(p.Changes) == 0:
		return nil, nil
	case !known:
		return nil, fmt.Errorf("there is no preview %q", p.File)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case w.ordered(StateLocked):
		return nil, failure{StateLocked}
	}
	clear(w.previews) // whatever was previewed before is stale now
	w.calls = append(w.calls, "apply "+inWords(p.Changes))
	failures := w.portless(p.Changes)
	for _, c := range p.Changes {
		if failures[c.Node] != nil {
			continue
		}
		if w.breaksOff() {
			w.cutShort(c, p.Plan.Desired[c.Node])
			return nil, failure{Killed}
		}
		if err := w.do(c, p.Plan.Desired[c.Node], len(p.Plan.Desired) > 0); err != nil {
			failures[c.Node] = err
		}
		if w.ordered(Killed) {
			w.interrupt(c)
			return nil, failure{Killed}
		}
	}
	if w.ordered(LostAnswer) {
		return nil, failure{LostAnswer}
	}
	return failures, nil
}

// portless is the nodes that get no instance for want of a port, be it their own or another's.
func (w *World) portless(changes []reconfigure.ResourceChange) reconfigure.Failures {
	makes := func(c reconfigure.ResourceChange) bool {
		return c.Effect == reconfigure.EffectCreate || c.Effect == reconfigure.EffectReplace
	}
	failures := reconfigure.Failures{}
	for _, c := range changes {
		if makes(c) && w.struck(NoPort, c.Node) {
			failures[c.Node] = failure{NoPort}
		}
	}
	for _, c := range changes {
		if len(failures) > 0 && makes(c) && c.Node != "" && failures[c.Node] == nil {
			failures[c.Node] = fmt.Errorf("%w, since another failed", reconfigure.ErrUntried)
		}
	}
	return failures
}

// Discard forgets a preview.
func (w *World) Discard(p reconfigure.Preview) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	delete(w.previews, p.File)
	return nil
}

// do carries out one change. Desired tells whether any node is to be there.
func (w *World) do(c reconfigure.ResourceChange, spec reconfigure.Spec, desired bool) error {
	if c.Node == "" {
		w.shared = desired
		return nil
	}
	w.look()
	if c.Effect != reconfigure.EffectCreate && c.Effect != reconfigure.EffectRebuild && w.struck(NeverRemoved, c.Node) {
		return failure{NeverRemoved}
	}
	w.stop(c.Node)
	m := w.machines[c.Node]
	half := m != nil && m.ID == ""
	switch c.Effect {
	case reconfigure.EffectDelete:
		delete(w.machines, c.Node)
		return nil
	case reconfigure.EffectRebuild:
		m.spec, m.configured = spec, false
	default:
		delete(w.machines, c.Node)
		m = w.create(c.Node, spec)
	}
	switch {
	case half && w.hasOrphan(c.Node):
		m.Instance = reconfigure.Instance{Node: c.Node, Tainted: true}
		return failure{portInUse}
	case w.struck(LostCreate, c.Node):
		w.loseTrack(m, true)
		return reconfigure.Classify(reconfigure.ClassUnknown, failure{LostCreate})
	case w.struck(NoQuota, c.Node), c.Effect != reconfigure.EffectRebuild && w.full():
		m.Instance = reconfigure.Instance{Node: c.Node, Tainted: true}
		return reconfigure.Classify(reconfigure.ClassQuota, failure{NoQuota})
	case w.struck(NoValidHost, c.Node):
		m.Tainted, m.fault = true, "No valid host was found."
		return failure{TerraformOnError}
	}
	w.boot(c.Node, m)
	return nil
}

// interrupt leaves a change half done.
func (w *World) interrupt(c reconfigure.ResourceChange) {
	if m := w.machines[c.Node]; m != nil {
		w.stop(c.Node)
		m.Tainted = true
	}
}

// inWords is what Terraform does in one line, nodes of one effect together.
func inWords(changes []reconfigure.ResourceChange) string {
	of := map[reconfigure.Effect][]string{}
	var parts []string
	for _, c := range changes {
		if c.Node == "" {
			parts = append(parts, string(c.Effect)+" "+c.Address)
			continue
		}
		of[c.Effect] = append(of[c.Effect], c.Node)
	}
	for _, effect := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, string(effect)+" "+nodeset.Of(of[effect]...).String())
	}
	return strings.Join(parts, ", ")
}
