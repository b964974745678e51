package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// filter picks nodes. What is empty picks all; a node must pass every part.
type filter struct {
	nodes    nodeset.NodeSet
	groups   []string
	states   []stateWord
	outdated bool
	failing  bool
}

func (f filter) picks(n statusNode) bool {
	return (f.nodes.Empty() || f.nodes.Contains(n.Node)) &&
		(len(f.groups) == 0 || slices.Contains(f.groups, n.Group)) &&
		(len(f.states) == 0 || slices.ContainsFunc(f.states, func(w stateWord) bool { return w.fits(n.state) })) &&
		(!f.outdated || len(n.Outdated) > 0) &&
		(!f.failing || n.failing())
}

// all tells that nothing is left out.
func (f filter) all() bool {
	return f.nodes.Empty() && len(f.groups)+len(f.states) == 0 && !f.outdated && !f.failing
}

// names tells that the filter is about single nodes, so that each of them is to be seen: those that are powered down, too.
func (f filter) names() bool { return !f.nodes.Empty() || len(f.states) > 0 }

// only is the report on the nodes that the filter picks: with the groups that they are in, which are summed up as a whole, and the requests that concern them.
func (r statusReport) only(f filter) statusReport {
	if f.all() {
		return r
	}
	r.Nodes = slices.DeleteFunc(slices.Clone(r.Nodes), func(n statusNode) bool { return !f.picks(n) })
	picked, groups := r.names(), map[string]bool{}
	for _, n := range r.Nodes {
		groups[n.Group] = true
	}
	r.Groups = slices.DeleteFunc(slices.Clone(r.Groups), func(g groupSummary) bool { return !groups[g.Group] })
	r.Requests = slices.DeleteFunc(slices.Clone(r.Requests), func(p pendingRequest) bool {
		return !p.Nodes.Empty() && p.Nodes.Intersect(picked).Empty() // one that names no node is for them all
	})
	r.unfolded = f.names()
	return r
}

// stateWord is a state, or a flag beside it, in the words of scontrol; or drained or draining, in those of sinfo(1).
type stateWord string

const (
	drained  stateWord = "DRAINED"  // by now without a job
	draining stateWord = "DRAINING" // with one still
)

// stateWords is the words that --state takes: Slurm's own, and the short forms that sinfo(1) takes for some of them.
func stateWords() map[string]stateWord {
	words := map[string]stateWord{
		string(drained): drained, string(draining): draining,
		"ALLOC": "ALLOCATED", "COMP": "COMPLETING", "MIX": "MIXED", "RESV": "RESERVED", "MAINT": "MAINTENANCE",
		"NO_RESPOND": "NOT_RESPONDING", "UNK": "UNKNOWN", "DRNG": draining,
	}
	for _, w := range reconfigure.NodeFlagWords() {
		words[w] = stateWord(w)
	}
	return words
}

// parseStates reads the words, in upper or lower case.
func parseStates(texts []string) ([]stateWord, error) {
	known := stateWords()
	var words []stateWord
	for _, text := range texts {
		word, ok := known[strings.ToUpper(strings.TrimSpace(text))]
		if !ok {
			all := strings.ToLower(strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			return nil, fmt.Errorf("no node state of Slurm is called %q; there are %s", text, all)
		}
		words = append(words, word)
	}
	return words, nil
}

func (w stateWord) fits(s reconfigure.NodeState) bool {
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
