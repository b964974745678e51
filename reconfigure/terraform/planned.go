package terraform

import (
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	tfjson "github.com/hashicorp/terraform-json"
)

// The types of events of a plan, and the actions in them ("Machine-Readable UI" in Terraform's
// documentation; internal/command/views/operation.go in its source: there is an event for each change).
const (
	versionEvent  = "version"
	changeSummary = "change_summary"
	plannedChange = "planned_change"

	actionCreate  = "create"
	actionDelete  = "delete"
	actionReplace = "replace"
	actionRead    = "read"
)

// planned makes the plan for the fence from the events of `terraform plan -json`, which saves a run of `terraform
// show`. It returns false if the events do not suffice: for updates and replacements because of attributes, since the
// events do not name the attributes, and for anything unknown.
func planned(events []event) (*tfjson.Plan, bool) {
	prior := &tfjson.StateModule{}
	p := &tfjson.Plan{PriorState: &tfjson.State{Values: &tfjson.StateValues{RootModule: prior}}}
	var summary *summary
	spoken := false
	for _, e := range events {
		switch e.Type {
		case versionEvent:
			spoken = known(e)
		case "log", "diagnostic", "refresh_start", "refresh_complete", resourceDrift, "outputs":
		case changeSummary:
			summary = e.Changes
		case plannedChange:
			if !simple(e) {
				return nil, false
			}
			p.ResourceChanges = append(p.ResourceChanges, changeOf(e))
			if e.Change.Reason == "tainted" {
				prior.Resources = append(prior.Resources, &tfjson.StateResource{
					Address: e.Change.Resource.Address, Mode: tfjson.ManagedResourceMode, Tainted: true,
				})
			}
		default:
			return nil, false
		}
	}
	if !spoken || summary == nil || *summary != count(p) {
		return nil, false
	}
	slices.SortFunc(p.ResourceChanges, func(a, b *tfjson.ResourceChange) int {
		return strings.Compare(a.Address, b.Address)
	})
	return p, true
}

// summary is the number of resources that a plan changes.
type summary struct {
	Add       int    `json:"add"`
	Change    int    `json:"change"`
	Import    int    `json:"import"`
	Remove    int    `json:"remove"`
	Operation string `json:"operation"`
}

// count returns the summary of a plan without imports and updates.
func count(p *tfjson.Plan) summary {
	counted := summary{Operation: "plan"}
	for _, rc := range p.ResourceChanges {
		if rc.Change.Actions.Create() || rc.Change.Actions.Replace() {
			counted.Add++
		}
		if rc.Change.Actions.Delete() || rc.Change.Actions.Replace() {
			counted.Remove++
		}
	}
	return counted
}

// known reports whether the events of this version include all changes of a plan. Terraform 1.14 has actions, which
// are not resources.
func known(e event) bool {
	for told, constraint := range map[string]string{e.Terraform: ">= 1.5, < 1.14", e.Tofu: ">= 1.6, < 1.13"} {
		v, err := version.NewVersion(told)
		if err != nil {
			continue
		}
		if fitting, err := version.NewConstraint(constraint); err == nil && fitting.Check(v.Core()) {
			return true
		}
	}
	return false
}

// simple reports whether an event has all properties of a change that the fence needs.
func simple(e event) bool {
	if e.Change.Previous != nil || e.Change.Importing != nil {
		return false
	}
	switch e.Change.Action {
	case actionCreate, actionDelete:
		return true
	case actionRead:
		return strings.HasPrefix(e.Change.Resource.Local, "data.")
	case actionReplace:
		return e.Change.Reason == "tainted" || e.Change.Reason == "requested"
	}
	return false
}

// changeOf converts a simple event to the type of terraform-json.
func changeOf(e event) *tfjson.ResourceChange {
	r := e.Change.Resource
	rc := &tfjson.ResourceChange{
		Address: r.Address, ModuleAddress: r.Module, Mode: tfjson.ManagedResourceMode, Type: r.Type, Name: r.Name,
		Change: &tfjson.Change{Actions: map[string]tfjson.Actions{
			actionCreate: {tfjson.ActionCreate}, actionDelete: {tfjson.ActionDelete}, actionRead: {tfjson.ActionRead},
			actionReplace: {tfjson.ActionDelete, tfjson.ActionCreate},
		}[e.Change.Action]},
		ActionReason: map[string]tfjson.ActionReason{
			"tainted": tfjson.ActionReasonReplaceBecauseTainted, "requested": tfjson.ActionReasonReplaceByRequest,
		}[e.Change.Reason],
	}
	if strings.HasPrefix(r.Local, "data.") {
		rc.Mode = tfjson.DataResourceMode
	}
	return rc
}
