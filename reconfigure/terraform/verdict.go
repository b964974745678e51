package terraform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// classifier returns the class of an error of Terraform's provider.
type classifier func(words string) reconfigure.Class

// verdicts returns the failures by node. It returns false if they do not explain all errors: a shared resource
// failed, or something that is not a resource, such as writing the state.
func (c classifier) verdicts(
	changes []reconfigure.ResourceChange, events []event,
) (failures reconfigure.Failures, all bool) {
	why, all := reasons(events)
	first := firstOf(why)
	nodes, shared := undone(changes, events, why)
	failures = reconfigure.Failures{}
	for node, left := range nodes {
		if len(left.said) == 0 {
			failures[node] = untried{c.told([]string{"Terraform did not get to " + left.String() + first})}
			continue
		}
		failures[node] = c.told(left.said)
	}
	// A shared resource without an error of its own was not begun because a node failed.
	return failures, all && len(why) == 0 && !shared.failed && len(failures) > 0
}

// cutOff is verdicts for a run that was interrupted. It also returns false if a shared resource was not changed.
func (c classifier) cutOff(
	changes []reconfigure.ResourceChange, events []event,
) (failures reconfigure.Failures, all bool) {
	why, all := reasons(slices.DeleteFunc(slices.Clone(events), ofInterrupt))
	nodes, shared := undone(changes, events, why)
	failures = reconfigure.Failures{}
	for node, left := range nodes {
		cut := fmt.Errorf("%w before Terraform could %s", reconfigure.ErrInterrupted, left)
		switch {
		case len(left.said) > 0:
			failures[node] = c.told(left.said)
		case left.begun:
			failures[node] = reconfigure.Classify(reconfigure.ClassUnknown, cut)
		default:
			failures[node] = untried{cut}
		}
	}
	return failures, all && len(why) == 0 && !shared.any
}

// ofInterrupt reports whether an event is an error that an interrupt causes: Terraform's error for each step that it
// does not begin, and the provider's error for the wait or the call that was interrupted.
func ofInterrupt(e event) bool {
	if e.Diagnostic == nil || e.Diagnostic.Severity != tfjson.DiagnosticSeverityError {
		return false
	}
	said := sentence(*e.Diagnostic)
	return said == "execution halted" || strings.Contains(said, "context canceled")
}

// remains is the changes of a node that were not completed.
type remains struct {
	reconfigure.ResourceChange      // the node's first change
	begun                      bool // any of the node's changes
	said                       []string
}

// String returns the first change, as part of a sentence.
func (r remains) String() string { return string(r.Effect) + " " + r.Address }

// sharedRemains reports whether any change of shared resources was not completed, and whether any failed.
type sharedRemains struct{ any, failed bool }

// undone returns the changes that were not completed, by node. It removes their errors from why.
func undone(changes []reconfigure.ResourceChange, events []event, why map[string][]string) (
	map[string]remains, sharedRemains,
) {
	done, started := by(applyComplete, events), by(applyStart, events)
	nodes := map[string]remains{}
	shared := sharedRemains{}
	begun := map[string]bool{}
	for _, c := range changes {
		begun[c.Node] = begun[c.Node] || len(started[c.Address]) > 0
		if completed(c.Effect, done[c.Address]) {
			continue
		}
		if c.Node == "" {
			shared.any, shared.failed = true, shared.failed || len(why[c.Address]) > 0
			continue
		}
		left, ok := nodes[c.Node]
		if !ok {
			left.ResourceChange = c
		}
		left.said = append(left.said, why[c.Address]...)
		nodes[c.Node] = left
		delete(why, c.Address)
	}
	for node, left := range nodes {
		left.begun = begun[node]
		nodes[node] = left
	}
	return nodes, shared
}

// untried is a reconfigure.ErrUntried with another message.
type untried struct{ error }

func (u untried) Unwrap() []error { return []error{u.error, reconfigure.ErrUntried} }

// firstOf returns the first error, as the end of a sentence. Terraform makes no instance before it has made all ports.
func firstOf(why map[string][]string) string {
	for _, address := range slices.Sorted(maps.Keys(why)) {
		return ", since another failed: " + why[address][0]
	}
	return ""
}

// told makes one error of several messages of Terraform's. Its class is ClassUnknown if any of them has that class,
// since it is then unknown what exists; else the class of the first.
func (c classifier) told(sentences []string) error {
	class := reconfigure.ClassOther
	for _, said := range sentences {
		found := c(said)
		switch {
		case found == reconfigure.ClassUnknown, class == reconfigure.ClassOther:
			class = found
		}
	}
	return reconfigure.Classify(class, errors.New(strings.Join(sentences, "; ")))
}

// by returns the actions of the events of a type, by address.
func by(kind string, events []event) map[string][]string {
	done := map[string][]string{}
	for _, e := range events {
		if e.Type == kind {
			done[e.Hook.Resource.Address] = append(done[e.Hook.Resource.Address], e.Hook.Action)
		}
	}
	return done
}

// reasons returns Terraform's errors by address; false if an error has no known resource. The error of a removal has
// no address, as there is no configuration for it. It belongs to the resource that failed without another error and
// whose id it names; if it names none, to all that failed without another error.
func reasons(events []event) (why map[string][]string, all bool) {
	why = map[string][]string{}
	var loose []string
	for _, e := range events {
		switch {
		case e.Diagnostic == nil || e.Diagnostic.Severity != tfjson.DiagnosticSeverityError:
		case e.Diagnostic.Address == "":
			loose = append(loose, sentence(*e.Diagnostic))
		default:
			why[e.Diagnostic.Address] = append(why[e.Diagnostic.Address], sentence(*e.Diagnostic))
		}
	}
	ids := map[string]string{} // of the resources that failed without a reason
	for _, e := range events {
		if _, explained := why[e.Hook.Resource.Address]; e.Type == applyErrored && !explained {
			ids[e.Hook.Resource.Address] = idOf(e.Hook.Resource.Address, events)
		}
	}
	for _, said := range loose {
		if len(ids) == 0 {
			return why, false
		}
		named := func(address string) bool { return ids[address] != "" && strings.Contains(said, ids[address]) }
		addresses := slices.Sorted(maps.Keys(ids))
		anyOf := !slices.ContainsFunc(addresses, named)
		for _, address := range addresses {
			if anyOf || named(address) {
				why[address] = append(why[address], said)
			}
		}
	}
	return why, true
}

// idOf returns the id of an existing resource on which an action was begun.
func idOf(address string, events []event) string {
	for _, e := range events {
		if e.Type == applyStart && e.Hook.Resource.Address == address {
			return e.Hook.ID
		}
	}
	return ""
}

// completed reports whether the actions that Terraform reported as complete are the whole effect. Terraform reports
// the two parts of a replacement separately.
func completed(effect reconfigure.Effect, done []string) bool {
	switch effect {
	case reconfigure.EffectReplace:
		return slices.Contains(done, "create") && slices.Contains(done, "delete")
	case reconfigure.EffectCreate, reconfigure.EffectDelete:
		return slices.Contains(done, string(effect))
	default:
		return slices.Contains(done, "update")
	}
}
