package terraform

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// verdicts says of each node whether its changes were carried out, and why not. It is false where that does not
// account for all that went wrong: a shared resource failed, or something that is no resource, such as the writing of
// the state.
func verdicts(changes []reconfigure.ResourceChange, events []event) (failures reconfigure.Failures, all bool) {
	why, all := reasons(events)
	first := firstOf(why)
	nodes, shared := undone(changes, events, why)
	failures = reconfigure.Failures{}
	for node, left := range nodes {
		if len(left.said) == 0 {
			failures[node] = untried{told([]string{"Terraform did not get to " + left.String() + first})}
			continue
		}
		failures[node] = told(left.said)
	}
	// A shared one without a reason of its own only waits for a node that failed.
	return failures, all && len(why) == 0 && !shared.failed && len(failures) > 0
}

// cutOff is verdicts for a run that was interrupted. What shared resources are left undone for that reason are
// nobody's verdict either.
func cutOff(changes []reconfigure.ResourceChange, events []event) (failures reconfigure.Failures, all bool) {
	why, all := reasons(slices.DeleteFunc(slices.Clone(events), ofInterrupt))
	nodes, shared := undone(changes, events, why)
	failures = reconfigure.Failures{}
	for node, left := range nodes {
		cut := fmt.Errorf("%w before Terraform could %s", reconfigure.ErrInterrupted, left)
		switch {
		case len(left.said) > 0:
			failures[node] = told(left.said)
		case left.begun:
			failures[node] = reconfigure.Classify(reconfigure.ClassUnknown, cut)
		default:
			failures[node] = untried{cut}
		}
	}
	return failures, all && len(why) == 0 && !shared.any
}

// ofInterrupt reports whether an event is an error that an interrupt causes: Terraform's own for each step that it
// does not take any more, and what the provider says of the wait or the call that was cut off.
func ofInterrupt(e event) bool {
	if e.Diagnostic == nil || e.Diagnostic.Severity != tfjson.DiagnosticSeverityError {
		return false
	}
	said := sentence(*e.Diagnostic)
	return said == "execution halted" || strings.Contains(said, "context canceled")
}

// remains is what was not carried out of a node's changes.
type remains struct {
	reconfigure.ResourceChange          // the first
	begun                      bool     // any of the node's changes
	said                       []string // why not
}

// String is what was to be done, as part of a sentence.
func (r remains) String() string { return string(r.Effect) + " " + r.Address }

// sharedRemains says what was not carried out of the changes that are no node's.
type sharedRemains struct{ any, failed bool }

// undone gathers what was not carried out, by node. The reasons that are accounted for by it are taken from why.
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

// untried is an error that is a reconfigure.ErrUntried, and says more.
type untried struct{ error }

func (u untried) Unwrap() []error { return []error{u.error, reconfigure.ErrUntried} }

// firstOf is what kept Terraform from getting any further, as the end of a sentence. It makes no instance before it
// has made all ports.
func firstOf(why map[string][]string) string {
	for _, address := range slices.Sorted(maps.Keys(why)) {
		return ", since another failed: " + why[address][0]
	}
	return ""
}

// told makes one error of sentences of Terraform's. Its class is the first that one of them has; where one says that
// an answer was lost, that counts, since it is not known then what there is.
func told(sentences []string) error {
	class := reconfigure.ClassOther
	for _, said := range sentences {
		found := reconfigure.CloudClass(0, said)
		if found == reconfigure.ClassOther && deleting.MatchString(said) {
			found = reconfigure.ClassUnknown
		}
		switch {
		case found == reconfigure.ClassUnknown, class == reconfigure.ClassOther:
			class = found
		}
	}
	return reconfigure.Classify(class, errors.New(strings.Join(sentences, "; ")))
}

// deleting matches what the provider says when it does not see a server go, though Nova goes on deleting it: it gives
// up at once on one in ERROR or BUILD.
var deleting = regexp.MustCompile(`Error waiting for instance \(\S+\) to Delete:`)

// by is the actions of the events of a type, by address.
func by(kind string, events []event) map[string][]string {
	done := map[string][]string{}
	for _, e := range events {
		if e.Type == kind {
			done[e.Hook.Resource.Address] = append(done[e.Hook.Resource.Address], e.Hook.Action)
		}
	}
	return done
}

// reasons is Terraform's errors by address; false where one cannot be told to be any resource's. The error of a
// removal comes without address, as there is no configuration to point at. It is then one of those that failed
// without a reason of their own: the one whose id it names, else it may be any.
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
	ids := map[string]string{} // of those that failed without a reason
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

// idOf is the id of what an action was begun on, where there was something already.
func idOf(address string, events []event) string {
	for _, e := range events {
		if e.Type == applyStart && e.Hook.Resource.Address == address {
			return e.Hook.ID
		}
	}
	return ""
}

// completed tells whether the actions that Terraform reports make up a whole effect. It reports the two halves of a
// replacement one by one.
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
