package terraform

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// fence compares Terraform's plan with ours. It returns the changes of Terraform's plan if ours names all of them, else
// a *reconfigure.Refusal with the others. It refuses what it does not know: an action of a later Terraform, an address
// without an owner.
func fence(theirs *tfjson.Plan, ours reconfigure.Plan, m module) ([]reconfigure.ResourceChange, error) {
	f := fenced{ours: ours, module: m, tainted: tainted(theirs), present: present(theirs, m)}
	var asked, unasked []reconfigure.ResourceChange
	for _, rc := range theirs.ResourceChanges {
		if rc == nil {
			unasked = append(unasked, f.unknown(nil, "Terraform does not say what it would do"))
			continue
		}
		switch change, ok := f.judge(rc); {
		case change.Effect == "":
		case ok:
			asked = append(asked, change)
		default:
			unasked = append(unasked, change)
		}
	}
	for _, deferred := range theirs.DeferredChanges {
		deferred = cmp.Or(deferred, &tfjson.DeferredResourceChange{})
		unasked = append(unasked, f.unknown(deferred.ResourceChange, "Terraform deferred it: "+deferred.Reason))
	}
	for _, action := range theirs.ActionInvocations {
		action = cmp.Or(action, &tfjson.ActionInvocation{})
		unasked = append(unasked, reconfigure.ResourceChange{Address: action.Address, Effect: reconfigure.EffectUnknown,
			Detail: "it is an action"})
	}
	if len(unasked) > 0 {
		return nil, &reconfigure.Refusal{Changes: unasked}
	}
	return asked, nil
}

// tainted returns the addresses of the tainted objects. Deposed objects, which were replaced and not yet deleted, have
// the address of their successor.
func tainted(p *tfjson.Plan) map[string]bool {
	found := map[string]bool{}
	for _, r := range resources(p.PriorState) {
		if r.DeposedKey == "" {
			found[r.Address] = r.Tainted
		}
	}
	return found
}

// present returns the nodes that have an instance or a part of one. It is empty for a plan that was read from events.
// Only updates of kept ports and replacements of untainted ones need it, and such a plan has neither.
func present(p *tfjson.Plan, m module) map[string]bool {
	found := map[string]bool{}
	for _, r := range resources(p.PriorState) {
		if node, _ := m.owner(r.Address, func(string) bool { return false }); node != "" &&
			r.Address == instance(m.kinds.InstanceBlock(), node) {
			found[node] = true
		}
	}
	return found
}

type fenced struct {
	ours             reconfigure.Plan
	module           module
	tainted, present map[string]bool
}

// judge converts a change, and reports whether our plan names it. A change without effect is allowed.
func (f fenced) judge(rc *tfjson.ResourceChange) (reconfigure.ResourceChange, bool) {
	effect, detail := f.module.effectOf(rc)
	if effect == "" {
		return reconfigure.ResourceChange{}, true
	}
	node, known := f.module.owner(rc.Address, f.isNode)
	change := reconfigure.ResourceChange{Address: rc.Address, Node: node, Effect: effect, Detail: detail,
		Kind: f.module.kindOf(rc)}
	switch {
	case effect == reconfigure.EffectUnknown:
		return change, false
	case !known:
		change.Detail = "its owner is unknown"
		return change, f.everything() && effect == reconfigure.EffectDelete
	case node == "":
		return change, f.sharedAllows(rc, effect)
	}
	if f.module.keeps(rc.Address) {
		return change, f.keptAllows(node, rc, effect)
	}
	asked, _ := f.ours.Of(node)
	return change, nodeAllows(asked.Action, effect, f.tainted[rc.Address])
}

// kindOf returns the role of a resource for its node. Resources that a site adds have none, even if they have the
// same type.
func (m module) kindOf(rc *tfjson.ResourceChange) reconfigure.Kind {
	switch {
	case rc.ModuleAddress != "" || rc.Name != "node":
		return ""
	case rc.Type == m.kinds.Instance:
		return reconfigure.KindInstance
	case rc.Type == m.kinds.Port:
		return reconfigure.KindPort
	}
	return ""
}

func (f fenced) unknown(rc *tfjson.ResourceChange, detail string) reconfigure.ResourceChange {
	if rc == nil {
		return reconfigure.ResourceChange{Effect: reconfigure.EffectUnknown, Detail: detail}
	}
	node, _ := f.module.owner(rc.Address, f.isNode)
	return reconfigure.ResourceChange{Address: rc.Address, Node: node, Effect: reconfigure.EffectUnknown,
		Detail: detail}
}

func (f fenced) isNode(name string) bool {
	_, desired := f.ours.Desired[name]
	_, changed := f.ours.Of(name)
	return desired || changed
}

// everything reports whether our plan removes the whole cluster.
func (f fenced) everything() bool { return f.ours.Shared && len(f.ours.Desired) == 0 }

// sharedAllows is the rule for shared resources. The block "control" is the control node's address, which users know:
// it is removed only with the whole cluster.
func (f fenced) sharedAllows(rc *tfjson.ResourceChange, effect reconfigure.Effect) bool {
	if f.module.shard != reconfigure.DefaultShard {
		return f.everything() && effect == reconfigure.EffectDelete // the control node belongs to the default workspace
	}
	lost := effect == reconfigure.EffectDelete || effect == reconfigure.EffectReplace
	if lost && rc.ModuleAddress == "" && rc.Name == reconfigure.ControlGroup {
		return f.everything()
	}
	return f.ours.Shared
}

// nodeAllows is the rule for resources of a node, by the action of our plan on it; the action is empty if our plan does
// not name the node.
func nodeAllows(asked reconfigure.Action, effect reconfigure.Effect, tainted bool) bool {
	switch asked {
	case reconfigure.Create:
		// A failed attempt may have left a tainted object, which was never in use.
		return effect == reconfigure.EffectCreate || effect == reconfigure.EffectReplace && tainted
	case reconfigure.Replace:
		return true
	case reconfigure.Start: // a missing instance is created
		return effect == reconfigure.EffectStart || effect == reconfigure.EffectCreate
	case reconfigure.Stop:
		return effect == reconfigure.EffectStop
	case reconfigure.Remove:
		return effect == reconfigure.EffectDelete
	default:
		return false
	}
}

// effectOf returns the effect of a change, and details for people. The effect is empty for a change that does
// nothing.
func (m module) effectOf(rc *tfjson.ResourceChange) (effect reconfigure.Effect, detail string) {
	switch {
	case rc.Change == nil:
		return reconfigure.EffectUnknown, "Terraform does not say what it would do"
	case rc.PreviousAddress != "" && rc.PreviousAddress != rc.Address:
		return reconfigure.EffectUnknown, "it is moved from " + rc.PreviousAddress
	case rc.Change.Importing != nil:
		return reconfigure.EffectUnknown, "it is imported"
	}
	actions := rc.Change.Actions
	switch {
	case actions.NoOp(), actions.Read():
		return "", ""
	case rc.Mode != tfjson.ManagedResourceMode:
		return reconfigure.EffectUnknown, fmt.Sprintf("%q on something that is not a resource", actions)
	case actions.Create():
		return reconfigure.EffectCreate, ""
	case actions.Delete() && rc.DeposedKey != "":
		return reconfigure.EffectDelete, "an object that was replaced earlier"
	case actions.Delete():
		return reconfigure.EffectDelete, ""
	case actions.Replace():
		return reconfigure.EffectReplace, replaceDetail(rc)
	case actions.Update():
		return m.updateEffect(rc)
	default:
		return reconfigure.EffectUnknown, fmt.Sprintf("%q", actions)
	}
}

// updateEffect returns the effect of an update in place, which may end the jobs of an instance. An update that
// changes more than the power state is neither a start nor a stop. A change of the time limits alone is ignored: they
// concern the provider, not the instance, and Terraform plans no update for them.
func (m module) updateEffect(rc *tfjson.ResourceChange) (reconfigure.Effect, string) {
	attributes := differing(rc.Change)
	if len(attributes) > 1 {
		attributes = slices.DeleteFunc(attributes, func(name string) bool { return name == timeouts })
	}
	effect := reconfigure.EffectUpdate
	if rc.Type == m.kinds.Instance {
		if m.kinds.Power != "" && slices.Equal(attributes, []string{m.kinds.Power}) {
			effect = reconfigure.EffectStop
			if after, _ := rc.Change.After.(map[string]any); after[m.kinds.Power] == reconfigure.PowerActive {
				effect = reconfigure.EffectStart
			}
		}
		for _, attribute := range attributes {
			// If an update has several effects, the rebuild counts: it loses the most.
			if is, ok := m.kinds.Updates[attribute]; ok && effect != reconfigure.EffectRebuild {
				effect = is
			}
		}
	}
	return effect, strings.Join(attributes, ", ")
}

// timeouts is the block of a resource with the time limits of its provider.
const timeouts = "timeouts"

func replaceDetail(rc *tfjson.ResourceChange) string {
	var attributes []string
	for _, path := range rc.Change.ReplacePaths {
		if steps, ok := path.([]any); ok && len(steps) > 0 {
			attributes = append(attributes, fmt.Sprint(steps[0]))
		}
	}
	if len(attributes) == 0 {
		return strings.ReplaceAll(string(rc.ActionReason), "_", " ")
	}
	slices.Sort(attributes)
	return strings.Join(slices.Compact(attributes), ", ")
}

// differing returns the names of the attributes that a change changes, or may change. It returns no values, since they
// may be secret.
func differing(c *tfjson.Change) []string {
	before, _ := c.Before.(map[string]any)
	after, _ := c.After.(map[string]any)
	unknown, _ := c.AfterUnknown.(map[string]any)
	names := map[string]bool{}
	for name, value := range before {
		if !reflect.DeepEqual(value, after[name]) {
			names[name] = true
		}
	}
	for name, value := range after {
		if !reflect.DeepEqual(value, before[name]) {
			names[name] = true
		}
	}
	for name, value := range unknown {
		if holds(value) {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// holds reports whether any value in a tree of Terraform's after_unknown is unknown.
func holds(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case []any:
		return slices.ContainsFunc(v, holds)
	case map[string]any:
		for _, inner := range v {
			if holds(inner) {
				return true
			}
		}
	}
	return false
}
