package status

import (
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// View shows the events of a request when they happen.
type View interface {
	// Events is called at short intervals, also without events.
	Events([]reconfigure.Event)
	// End is called before the outcome is shown.
	End()
}

// sieve separates the events that people want to see from the single steps of Terraform and Ansible, of which there
// are dozens for each node. The journal has them all.
type sieve struct {
	at map[string]reconfigure.Phase // the phase that each node began last
}

func newSieve() sieve { return sieve{at: map[string]reconfigure.Phase{}} }

// step reports whether an event is a step: a note about a resource of Terraform, or about a node that is in the phase
// of the note. It shows any other note: such a note is about all nodes, or about a node without an operation, for
// example one that the playbooks could not reach.
func (s sieve) step(e reconfigure.Event) bool {
	if e.Level == reconfigure.Begun {
		s.at[e.Node] = e.Phase
	}
	return e.Level == reconfigure.Note && (e.OfResource() || e.Node != "" && s.at[e.Node] == e.Phase)
}

// grouped groups the nodes with the same event, oldest first.
func grouped(events []reconfigure.Event) []text.Group[reconfigure.Event] {
	return text.GroupNodes(events, func(e reconfigure.Event) (string, reconfigure.Event) {
		return e.Node, reconfigure.Event{Phase: e.Phase, Level: e.Level, Message: e.Message}
	})
}
