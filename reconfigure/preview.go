package reconfigure

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Preview is Terraform's saved plan of our plan, after the fence has let it through. What is applied is that saved file and nothing else.
type Preview struct {
	Plan    Plan
	File    string // the saved plan
	Changes []ResourceChange
}

// ResourceChange is one action of Terraform's on one resource.
type ResourceChange struct {
	Address string `json:"address"`
	Node    string `json:"node,omitempty"` // whose resource it is; empty: shared
	Effect  Effect `json:"effect"`
	Detail  string `json:"detail,omitempty"` // for people: which attributes differ
	Kind    Kind   `json:"-"`
}

// Kind is what a resource is of its node.
type Kind string

// The kinds. A resource of the site's own has none.
const (
	KindInstance Kind = "instance"
	KindPort     Kind = "port"
)

// Effect is what an action of Terraform's means for the resource.
type Effect string

// The effects. Terraform calls the rebuild and the resize of an instance an update in place; the first wipes the disk, the second restarts the machine.
const (
	EffectCreate  Effect = "create"
	EffectUpdate  Effect = "update"
	EffectRebuild Effect = "rebuild" // same instance and address, disk lost
	EffectResize  Effect = "resize"
	EffectReplace Effect = "replace" // new instance
	EffectDelete  Effect = "delete"
	EffectUnknown Effect = "unknown" // an action that this version does not know is never let through
)

// Unplannable is the answer where Terraform could not plan for the sake of single nodes, each of which has its reason. Nothing was changed, and without those
// nodes it may be tried at once.
type Unplannable struct{ Failures Failures }

func (u *Unplannable) Error() string {
	said := make([]string, 0, len(u.Failures))
	for _, node := range slices.Sorted(maps.Keys(u.Failures)) {
		said = append(said, node+": "+u.Failures[node].Error())
	}
	return "Terraform cannot plan: " + strings.Join(said, "; ")
}

// Refusal is the fence's answer to a preview that does what nobody asked for. Nothing was changed.
type Refusal struct {
	Changes []ResourceChange // the unasked ones
}

func (r *Refusal) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "refused: Terraform's plan holds %d change(s) that nobody asked for, so nothing was changed:", len(r.Changes))
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
