// Package nodeset holds sets of node names and reads and writes them in Slurm's hostlist notation.
//
// A hostlist is the text, node[01-04,07]; a nodeset is the value, five names. (Neither is the NodeSet= line of slurm.conf.) [Parse] takes every hostlist of
// valid node names that Slurm takes, to the same names, and refuses what Slurm guesses at: an empty element, a range that runs backwards, a bracket that is
// never closed. [NodeSet.String] writes a set in one way only, so that logs, journal entries and file names can be compared as text.
//
// # Order
//
// A set has an order of its own, whatever order its names came in: first by what stands before the number at a name's end, then by that number. Numbers
// inside the names count as numbers, and the shorter one is the smaller: n2 before n10 before r1n1 before r2n1 before r10n1. Widths are part of the name,
// as they are for Slurm: n1 and n01 are two nodes, and all n1 … n9 come before n01.
package nodeset

import (
	"iter"
	"slices"
)

// NodeSet is an immutable set of node names. Its zero value is the empty set. Compare two with Equal, not with ==; go-cmp finds Equal by itself.
//
// A NodeSet is a JSON string and a log attribute without further ado, since it marshals as its hostlist.
type NodeSet struct {
	names []string // in canonical order, each once; nil when empty, so that every empty set is the zero value
}

// Of is the set of these names, taken literally: brackets and commas mean nothing, and nothing is checked. It is for names that are known to be good, as
// [ValidName] has it; text from outside goes through [Parse].
func Of(names ...string) NodeSet { return canonical(slices.Clone(names)) }

// Collect is the set of the names that a sequence yields, taken as Of takes them.
func Collect(names iter.Seq[string]) NodeSet { return canonical(slices.Collect(names)) }

// canonical makes a set of names, which it takes over.
func canonical(names []string) NodeSet {
	if len(names) == 0 {
		return NodeSet{}
	}
	slices.SortFunc(names, compare)
	return NodeSet{names: slices.Clip(slices.Compact(names))}
}

// Len is the number of nodes.
func (s NodeSet) Len() int { return len(s.names) }

// Empty tells whether there is no node in the set.
func (s NodeSet) Empty() bool { return len(s.names) == 0 }

// Contains tells whether the node is in the set.
func (s NodeSet) Contains(name string) bool {
	_, found := slices.BinarySearchFunc(s.names, name, compare)
	return found
}

// All yields the names in canonical order.
func (s NodeSet) All() iter.Seq[string] { return slices.Values(s.names) }

// Names is the names in canonical order, in a slice that is the caller's own.
func (s NodeSet) Names() []string { return slices.Clone(s.names) }

// Equal tells whether both sets have the same nodes.
func (s NodeSet) Equal(t NodeSet) bool { return slices.Equal(s.names, t.names) }

// Union is the nodes in s, in t or in both.
func (s NodeSet) Union(t NodeSet) NodeSet {
	return s.merge(t, func(_, _ bool) bool { return true })
}

// Intersect is the nodes in both s and t.
func (s NodeSet) Intersect(t NodeSet) NodeSet {
	return s.merge(t, func(inS, inT bool) bool { return inS && inT })
}

// Difference is the nodes in s but not in t.
func (s NodeSet) Difference(t NodeSet) NodeSet {
	return s.merge(t, func(inS, inT bool) bool { return inS && !inT })
}

// Where is the nodes in s for which keep says so. It is asked of each once, in canonical order.
func (s NodeSet) Where(keep func(name string) bool) NodeSet {
	var kept []string
	for _, name := range s.names {
		if keep(name) {
			kept = append(kept, name)
		}
	}
	return NodeSet{names: kept}
}

// merge walks both sets once, side by side, and keeps the names for which keep says so.
func (s NodeSet) merge(t NodeSet, keep func(inS, inT bool) bool) NodeSet {
	var kept []string
	for a, b := s.names, t.names; len(a) > 0 || len(b) > 0; {
		var order int
		switch {
		case len(b) == 0:
			order = -1
		case len(a) == 0:
			order = 1
		default:
			order = compare(a[0], b[0])
		}
		inS, inT := order <= 0, order >= 0
		var name string
		if inT {
			name, b = b[0], b[1:]
		}
		if inS {
			name, a = a[0], a[1:]
		}
		if keep(inS, inT) {
			kept = append(kept, name)
		}
	}
	return NodeSet{names: kept}
}

// String is the set's canonical hostlist: equal sets have the same one, and neighbouring numbers are folded into brackets. For every set of at most
// [MaxNodes] valid names, Parse(s.String()) equals s; the one exception is the empty set, whose text is empty, which Parse refuses.
func (s NodeSet) String() string { return fold(s.names) }

// MarshalText is String. It never fails.
func (s NodeSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is Parse, but that it takes the empty text for the empty set, so that what MarshalText wrote can always be read. The error is a
// [*ParseError], and the set is left as it was.
func (s *NodeSet) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = NodeSet{}
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}
