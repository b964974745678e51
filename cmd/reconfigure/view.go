package main

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// view shows the events of a request as they come.
type view interface {
	// events is called every moment, also without any.
	events([]reconfigure.Event)
	// end is called when the outcome is there, and about to be shown.
	end()
}

// newView picks the view that fits: a live picture on a terminal, a log elsewhere, and where every step is to be kept.
func newView(c *cli.Context, r reconfigure.Request) view {
	if isTerminal(c.App.ErrWriter) && !wantsJSON(c) && !c.Bool("verbose") {
		return newLiveView(c.App.ErrWriter, r)
	}
	return newLogView(c.Context, logger(c), r, c.Bool("verbose"))
}

// sieve tells the events that people want to hear of from the single steps of Terraform and Ansible, of which there are dozens for each node. The journal has
// them all.
type sieve struct {
	at map[string]reconfigure.Phase // the phase that each node has begun last
}

func newSieve() sieve { return sieve{at: map[string]reconfigure.Phase{}} }

// step tells whether an event is a step: a note on a resource of Terraform's, or on a node that is at the very phase. Any other note is news: it is on all nodes,
// or on one that is not on its way, such as a node that the playbooks could not reach.
func (s sieve) step(e reconfigure.Event) bool {
	if e.Level == reconfigure.Begun {
		s.at[e.Node] = e.Phase
	}
	return e.Level == reconfigure.Note && (ofResource.MatchString(e.Message) || e.Node != "" && s.at[e.Node] == e.Phase)
}

// ofResource matches how package terraform tells of a resource's change: "create TYPE.NAME: done after 12 s". A line that it should match and does not is shown,
// which does no harm.
var ofResource = regexp.MustCompile(`^[a-z]+ (module\.|data\.)?[\w-]+\.[\w.-]+(: (\d+ s so far|(done|failed) after \d+ s))?$`)

// group is an event that several nodes share.
type group struct {
	reconfigure.Event
	nodes nodeset.NodeSet
}

// grouped puts the nodes of which the same is told into one group, oldest first.
func grouped(events []reconfigure.Event) []group {
	type key struct {
		phase   reconfigure.Phase
		level   reconfigure.Level
		message string
	}
	first := map[key]reconfigure.Event{}
	names := map[key][]string{}
	for _, e := range events {
		k := key{e.Phase, e.Level, e.Message}
		if was, ok := first[k]; !ok || e.ID < was.ID {
			first[k] = e
		}
		if e.Node != "" {
			names[k] = append(names[k], e.Node)
		}
	}
	var groups []group
	for k, e := range first {
		groups = append(groups, group{Event: e, nodes: nodeset.Of(names[k]...)})
	}
	slices.SortFunc(groups, func(a, b group) int { return cmp.Compare(a.ID, b.ID) })
	return groups
}
