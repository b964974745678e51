package reconfigure

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Preview is Terraform's saved plan for a Plan, after the fence has accepted it. An apply applies only the saved
// plan.
type Preview struct {
	Plan    Plan
	File    string // path of the saved plan
	Changes []ResourceChange
	// Behind is set if Terraform's state is behind the cloud: Terraform was killed after the cloud had carried out a
	// change, or somebody changed an instance without it. Apply then brings the state up to date, also if the preview
	// has no changes.
	Behind bool
}

// ResourceChange is one action of Terraform on one resource.
type ResourceChange struct {
	Address string `json:"address"`
	Node    string `json:"node,omitempty"` // the owner; empty: a shared resource
	Effect  Effect `json:"effect"`
	Detail  string `json:"detail,omitempty"` // for people: the attributes that differ
	Kind    Kind   `json:"-"`
}

// Kind is the role of a resource for its node.
type Kind string

// The kinds. A resource that the site added has none.
const (
	KindInstance Kind = "instance"
	KindPort     Kind = "port"
)

// Effect is what an action of Terraform does to the resource.
type Effect string

// The effects. Terraform plans the rebuild and the resize of an instance as an update in place; a rebuild erases the
// disk, a resize restarts the machine.
const (
	EffectCreate  Effect = "create"
	EffectUpdate  Effect = "update"
	EffectRebuild Effect = "rebuild" // same instance and address, disk lost
	EffectResize  Effect = "resize"
	EffectStart   Effect = "start"
	EffectStop    Effect = "stop"    // or shelve
	EffectReplace Effect = "replace" // new instance
	EffectDelete  Effect = "delete"
	EffectUnknown Effect = "unknown" // an action unknown to this version; the fence always refuses it
)

// Unplannable is the error of a preview that failed because of some nodes. Nothing was changed, and a preview without
// those nodes may be made at once.
type Unplannable struct{ Failures Failures }

func (u *Unplannable) Error() string {
	said := make([]string, 0, len(u.Failures))
	for _, node := range slices.Sorted(maps.Keys(u.Failures)) {
		said = append(said, node+": "+u.Failures[node].Error())
	}
	return "Terraform cannot plan: " + strings.Join(said, "; ")
}

// Refusal is the error of a preview that the fence refused, because it has changes that our plan does not name.
// Nothing was changed.
type Refusal struct {
	Changes []ResourceChange // the changes that our plan does not name
}

func (r *Refusal) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "refused: Terraform's plan has %d change(s) that nobody asked for, so nothing was changed:",
		len(r.Changes))
	for _, c := range r.Changes {
		whose := "shared"
		if c.Node != "" {
			whose = "node " + c.Node
		}
		fmt.Fprintf(&b, "\n  %s: would %s %s", whose, c.Effect, c.Address)
		if c.Detail != "" {
			fmt.Fprintf(&b, " (%s)", c.Detail)
		}
	}
	return b.String()
}
