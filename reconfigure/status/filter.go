package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Filter selects nodes. An empty field selects all nodes; a node must pass every field.
type Filter struct {
	Nodes    nodeset.NodeSet
	Groups   []string
	States   []StateWord
	Outdated bool
	Failing  bool
}

func (f Filter) picks(n Node) bool {
	return (f.Nodes.Empty() || f.Nodes.Contains(n.Node)) &&
		(len(f.Groups) == 0 || slices.Contains(f.Groups, n.Group)) &&
		(len(f.States) == 0 || slices.ContainsFunc(f.States, func(w StateWord) bool { return w.fits(n.state) })) &&
		(!f.Outdated || len(n.Outdated) > 0) &&
		(!f.Failing || n.failing())
}

// all reports whether the filter selects all nodes.
func (f Filter) all() bool {
	return f.Nodes.Empty() && len(f.Groups)+len(f.States) == 0 && !f.Outdated && !f.Failing
}

// names reports whether the filter asks for single nodes, so that each of them has a line, even if it is powered
// down.
func (f Filter) names() bool { return !f.Nodes.Empty() || len(f.States) > 0 }

// Only returns the report on the nodes that the filter selects, with their groups and the requests that concern them.
// The sums of a group count all of its nodes.
func (r Report) Only(f Filter) Report {
	if f.all() {
		return r
	}
	r.Nodes = slices.DeleteFunc(slices.Clone(r.Nodes), func(n Node) bool { return !f.picks(n) })
	picked, groups := r.Names(), map[string]bool{}
	for _, n := range r.Nodes {
		groups[n.Group] = true
	}
	r.Groups = slices.DeleteFunc(slices.Clone(r.Groups), func(g Group) bool { return !groups[g.Group] })
	r.Requests = slices.DeleteFunc(slices.Clone(r.Requests), func(p Request) bool {
		return !p.Nodes.Empty() && p.Nodes.Intersect(picked).Empty() // a request without nodes is for all nodes
	})
	r.unfolded = f.names()
	return r
}

// StateWord is a node state or flag in the words of scontrol(1), or "drained" or "draining" as in sinfo(1).
type StateWord string

const (
	drained  StateWord = "DRAINED"  // without a job
	draining StateWord = "DRAINING" // with a job
)

// stateWords returns the words that --state takes: Slurm's own, and the short forms of sinfo(1).
func stateWords() map[string]StateWord {
	words := map[string]StateWord{
		string(drained): drained, string(draining): draining,
		"ALLOC": "ALLOCATED", "COMP": "COMPLETING", "MIX": "MIXED", "RESV": "RESERVED", "MAINT": "MAINTENANCE",
		"NO_RESPOND": "NOT_RESPONDING", "UNK": "UNKNOWN", "DRNG": draining,
	}
	for _, w := range reconfigure.NodeFlagWords() {
		words[w] = StateWord(w)
	}
	return words
}

// ParseStates parses words for states, in upper or lower case.
func ParseStates(texts []string) ([]StateWord, error) {
	known := stateWords()
	var words []StateWord
	for _, text := range texts {
		word, ok := known[strings.ToUpper(strings.TrimSpace(text))]
		if !ok {
			all := strings.ToLower(strings.Join(keys(known), ", "))
			return nil, fmt.Errorf("no node state is called %q; Slurm has %s", text, all)
		}
		words = append(words, word)
	}
	return words, nil
}

func (w StateWord) fits(s reconfigure.NodeState) bool {
	const working = reconfigure.NodeAllocated | reconfigure.NodeMixed | reconfigure.NodeCompleting | reconfigure.NodeError
	atWork := s.HasAny(working)
	switch w {
	case drained:
		return s.Drained() && !atWork
	case draining:
		return s.Drained() && atWork
	}
	flag, _ := reconfigure.ParseNodeFlags(string(w))
	return s.HasAny(flag)
}
