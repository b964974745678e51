package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Filter picks nodes. What is empty picks all; a node must pass every part.
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

// all reports whether nothing is left out.
func (f Filter) all() bool {
	return f.Nodes.Empty() && len(f.Groups)+len(f.States) == 0 && !f.Outdated && !f.Failing
}

// names reports whether the filter is about single nodes, so that each of them gets a line: those that are powered
// down, too.
func (f Filter) names() bool { return !f.Nodes.Empty() || len(f.States) > 0 }

// Only is the report on the nodes that the filter picks: with the groups that they are in, which are summed up as a
// whole, and the requests that concern them.
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
		return !p.Nodes.Empty() && p.Nodes.Intersect(picked).Empty() // one that names no node is for them all
	})
	r.unfolded = f.names()
	return r
}

// StateWord is a state, or a flag beside it, in the words of scontrol; or drained or draining, in those of sinfo(1).
type StateWord string

const (
	drained  StateWord = "DRAINED"  // by now without a job
	draining StateWord = "DRAINING" // with one still
)

// stateWords is the words that --state takes: Slurm's own, and the short forms that sinfo(1) takes for some of them.
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

// ParseStates reads the words, in upper or lower case.
func ParseStates(texts []string) ([]StateWord, error) {
	known := stateWords()
	var words []StateWord
	for _, text := range texts {
		word, ok := known[strings.ToUpper(strings.TrimSpace(text))]
		if !ok {
			all := strings.ToLower(strings.Join(keys(known), ", "))
			return nil, fmt.Errorf("no node state of Slurm is called %q; there are %s", text, all)
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
