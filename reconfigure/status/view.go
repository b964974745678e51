package status

import (
	"regexp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// View shows the events of a request as they come.
type View interface {
	// Events is called every moment, also without any.
	Events([]reconfigure.Event)
	// End is called when the outcome is there, and about to be shown.
	End()
}

// sieve separates the events that people want to see from the single steps of Terraform and Ansible, of which there
// are dozens for each node. The journal has them all.
type sieve struct {
	at map[string]reconfigure.Phase // the phase that each node has begun last
}

func newSieve() sieve { return sieve{at: map[string]reconfigure.Phase{}} }

// step reports whether an event is a step: a note on a resource of Terraform's, or on a node that is at the very
// phase. Any other note is news: it is on all nodes, or on one that is not on its way, such as a node that the
// playbooks could not reach.
func (s sieve) step(e reconfigure.Event) bool {
	if e.Level == reconfigure.Begun {
		s.at[e.Node] = e.Phase
	}
	return e.Level == reconfigure.Note && (ofResource.MatchString(e.Message) || e.Node != "" && s.at[e.Node] == e.Phase)
}

// ofResource matches how package terraform tells of a resource's change: "create TYPE.NAME: done after 12 s". A line
// that it should match and does not is shown, which does no harm.
var ofResource = regexp.MustCompile(
	`^[a-z]+ (module\.|data\.)?[\w-]+\.[\w.-]+(: (\d+ s so far|(done|failed) after \d+ s))?$`,
)

// grouped puts the nodes of which the same is told together, oldest first.
func grouped(events []reconfigure.Event) []text.Group[reconfigure.Event] {
	return text.GroupNodes(events, func(e reconfigure.Event) (string, reconfigure.Event) {
		return e.Node, reconfigure.Event{Phase: e.Phase, Level: e.Level, Message: e.Message}
	})
}
