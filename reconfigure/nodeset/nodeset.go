// Package nodeset implements sets of node names, and reads and writes them in Slurm's hostlist notation.
//
// A hostlist is the text, node[01-04,07]; a nodeset is the value, five names. (Neither is the NodeSet= line of
// slurm.conf.) [Parse] accepts every hostlist of valid node names that Slurm accepts, and expands it to the same names.
// It rejects input that Slurm accepts by guessing: an empty element, a descending range, an unclosed bracket.
// [NodeSet.String] has one result for each set, so that logs, journal entries and file names can be compared as text.
//
// # Order
//
// The order of a set does not depend on the order of its input. Names are sorted by the text before the number at the
// end, then by that number. Numbers inside a name compare as numbers, and the one with fewer digits is the smaller: n2
// before n10 before r1n1 before r2n1 before r10n1. Widths are part of the name, as in Slurm: n1 and n01 are two nodes,
// and all of n1 … n9 come before n01.
package nodeset

import (
	"iter"
	"slices"
)

// NodeSet is an immutable set of node names. Its zero value is the empty set. Compare two sets with Equal, not with ==;
// go-cmp uses Equal.
//
// It implements encoding.TextMarshaler, so that JSON and log/slog show it as its hostlist.
type NodeSet struct {
	names []string // in canonical order, without duplicates; nil when empty, so that every empty set is the zero value
}

// Of returns the set of these names. It expands no brackets and checks nothing: the names must satisfy [ValidName]. Use
// [Parse] for input.
func Of(names ...string) NodeSet { return canonical(slices.Clone(names)) }

// Collect returns the set of the names of a sequence, as Of does.
func Collect(names iter.Seq[string]) NodeSet { return canonical(slices.Collect(names)) }

// canonical makes a set of names. It takes ownership of the slice.
func canonical(names []string) NodeSet {
	if len(names) == 0 {
		return NodeSet{}
	}
	slices.SortFunc(names, compare)
	return NodeSet{names: slices.Clip(slices.Compact(names))}
}

// Len returns the number of nodes.
func (s NodeSet) Len() int { return len(s.names) }

// Empty reports whether the set has no nodes.
func (s NodeSet) Empty() bool { return len(s.names) == 0 }

// Contains reports whether the node is in the set.
func (s NodeSet) Contains(name string) bool {
	_, found := slices.BinarySearchFunc(s.names, name, compare)
	return found
}

// All yields the names in canonical order.
func (s NodeSet) All() iter.Seq[string] { return slices.Values(s.names) }

// Names returns the names in canonical order, in a new slice.
func (s NodeSet) Names() []string { return slices.Clone(s.names) }

// Equal reports whether both sets have the same nodes.
func (s NodeSet) Equal(t NodeSet) bool { return slices.Equal(s.names, t.names) }

// Union returns the nodes in s, in t or in both.
func (s NodeSet) Union(t NodeSet) NodeSet {
	return s.merge(t, func(_, _ bool) bool { return true })
}

// Intersect returns the nodes in both s and t.
func (s NodeSet) Intersect(t NodeSet) NodeSet {
	return s.merge(t, func(inS, inT bool) bool { return inS && inT })
}

// Difference returns the nodes in s but not in t.
func (s NodeSet) Difference(t NodeSet) NodeSet {
	return s.merge(t, func(inS, inT bool) bool { return inS && !inT })
}

// Where returns the nodes in s for which keep returns true. It calls keep once for each node, in canonical order.
func (s NodeSet) Where(keep func(name string) bool) NodeSet {
	var kept []string
	for _, name := range s.names {
		if keep(name) {
			kept = append(kept, name)
		}
	}
	return NodeSet{names: kept}
}

// merge walks both sets in parallel and returns the names for which keep returns true.
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

// String returns the canonical hostlist: equal sets have the same one, and adjacent numbers are folded into brackets.
// For every set of one to [MaxNodes] valid names, Parse(s.String()) equals s. The text of the empty set is empty, and
// Parse rejects it.
func (s NodeSet) String() string { return fold(s.names) }

// MarshalText returns String. The error is always nil.
func (s NodeSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText does the same as Parse, and also accepts the empty text as the empty set, so that it reads everything
// that MarshalText writes. The error is a [*ParseError], and leaves the set unchanged.
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
