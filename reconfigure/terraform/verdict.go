package terraform

import (
	"errors"
	"maps"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// verdicts says of each node whether its changes were carried out, and why not. It is false where that does not account for all that went wrong: a shared
// resource failed, or something that is no resource, such as the writing of the state.
func verdicts(changes []reconfigure.ResourceChange, events []event) (failures reconfigure.Failures, all bool) {
	done := completions(events)
	why, all := reasons(events)
	first := firstOf(why)
	undone := map[string]reconfigure.ResourceChange{} // by node, the first
	said := map[string][]string{}                     // by node
	for _, c := range changes {
		switch {
		case completed(c.Effect, done[c.Address]):
			continue
		case c.Node != "":
			said[c.Node] = append(said[c.Node], why[c.Address]...)
			if _, ok := undone[c.Node]; !ok {
				undone[c.Node] = c
			}
		case len(why[c.Address]) > 0:
			return nil, false // without a reason of its own it only waits for a node that failed
		}
		delete(why, c.Address)
	}
	failures = reconfigure.Failures{}
	for node, c := range undone {
		if len(said[node]) == 0 {
			failures[node] = untried{told([]string{"Terraform did not get to " + string(c.Effect) + " " + c.Address + first})}
			continue
		}
		failures[node] = told(said[node])
	}
	return failures, all && len(why) == 0 && len(failures) > 0
}

// untried is an error that is a reconfigure.ErrUntried, and says more.
type untried struct{ error }

func (u untried) Unwrap() []error { return []error{u.error, reconfigure.ErrUntried} }

// firstOf is what kept Terraform from getting any further, as the end of a sentence. It makes no instance before it has made all ports.
func firstOf(why map[string][]string) string {
	for _, address := range slices.Sorted(maps.Keys(why)) {
		return ", since another failed: " + why[address][0]
	}
	return ""
}

// told makes one error of sentences of Terraform's. Its class is the first that one of them has; where one says that an answer was lost, that counts, since it
// is not known then what there is.
func told(sentences []string) error {
	class := reconfigure.ClassOther
	for _, said := range sentences {
		switch found := reconfigure.CloudClass(0, said); {
		case found == reconfigure.ClassUnknown, class == reconfigure.ClassOther:
			class = found
		}
	}
	return reconfigure.Classify(class, errors.New(strings.Join(sentences, "; ")))
}

// completions is the actions that were completed, by address.
func completions(events []event) map[string][]string {
	done := map[string][]string{}
	for _, e := range events {
		if e.Type == applyComplete {
			done[e.Hook.Resource.Address] = append(done[e.Hook.Resource.Address], e.Hook.Action)
		}
	}
	return done
}

// reasons is Terraform's errors by address; false where one cannot be told to be any resource's. The error of a removal comes without address, as there is
// no configuration to point at. It is then one of those that failed without a reason of their own: the one whose id it names, else it may be any.
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

// completed tells whether the actions that Terraform reports make up a whole effect. It reports the two halves of a replacement one by one.
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
