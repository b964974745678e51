package nodeset_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// nodeNames generates names from few pieces, so that sets overlap, ranges form, and widths, prefixes and numbers inside
// names collide.
func nodeNames() *rapid.Generator[[]string] {
	name := rapid.Custom(func(t *rapid.T) string {
		name := rapid.SampledFrom([]string{"n", "n", "n1-", "n1x", "n01x", "m", "9x"}).Draw(t, "prefix")
		if rapid.IntRange(0, 9).Draw(t, "numbered") > 0 {
			name += rapid.SampledFrom([]string{"", "", "", "0", "00", "9", "999999999999999"}).Draw(t, "lead")
			name += rapid.StringMatching("[0-9]|9[0-9]|1[01][0-9]").Draw(t, "number")
		}
		return strings.TrimSuffix(name, "-")
	})
	return rapid.SliceOfN(name, 0, 60)
}

func nodeSets() *rapid.Generator[nodeset.NodeSet] {
	return rapid.Map(nodeNames(), func(names []string) nodeset.NodeSet { return nodeset.Of(names...) })
}

// model is a set of names as a map: the reference for NodeSet.
func model(names []string) map[string]bool {
	m := map[string]bool{}
	for _, name := range names {
		m[name] = true
	}
	return m
}

func modelWhere(a, b map[string]bool, keep func(inA, inB bool) bool) map[string]bool {
	m := maps.Clone(a)
	maps.Copy(m, b)
	maps.DeleteFunc(m, func(name string, _ bool) bool { return !keep(a[name], b[name]) })
	return m
}

func TestOperationsAgreeWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		namesA, namesB := nodeNames().Draw(t, "a"), nodeNames().Draw(t, "b")
		a, b := nodeset.Of(namesA...), nodeset.Of(namesB...)
		modelA, modelB := model(namesA), model(namesB)
		check := func(what string, got nodeset.NodeSet, want map[string]bool) {
			if !maps.Equal(model(got.Names()), want) || got.Len() != len(want) || got.Empty() != (len(want) == 0) {
				t.Errorf("%s of %q and %q is %q", what, a, b, got)
			}
			if !got.Equal(nodeset.Of(slices.Collect(maps.Keys(want))...)) {
				t.Errorf("%s of %q and %q is not in canonical order: %q", what, a, b, got.Names())
			}
		}
		check("first", a, modelA)
		check("union", a.Union(b), modelWhere(modelA, modelB, func(inA, inB bool) bool { return inA || inB }))
		check(
			"intersection",
			a.Intersect(b),
			modelWhere(modelA, modelB, func(inA, inB bool) bool { return inA && inB }),
		)
		check(
			"difference",
			a.Difference(b),
			modelWhere(modelA, modelB, func(inA, inB bool) bool { return inA && !inB }),
		)
		if a.Equal(b) != maps.Equal(modelA, modelB) {
			t.Errorf("Equal(%q, %q) = %t", a, b, a.Equal(b))
		}
		for _, name := range namesB {
			if a.Contains(name) != modelA[name] {
				t.Errorf("%q contains %s: %t", a, name, a.Contains(name))
			}
		}
	})
}

func TestLawsOfSetAlgebra(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := nodeSets().Draw(t, "a"), nodeSets().Draw(t, "b"), nodeSets().Draw(t, "c")
		laws := map[string][2]nodeset.NodeSet{
			"union is commutative":                {a.Union(b), b.Union(a)},
			"union is associative":                {a.Union(b).Union(c), a.Union(b.Union(c))},
			"union is idempotent":                 {a.Union(a), a},
			"the empty set is neutral":            {a.Union(nodeset.NodeSet{}), a},
			"intersection is commutative":         {a.Intersect(b), b.Intersect(a)},
			"intersection distributes over union": {a.Intersect(b.Union(c)), a.Intersect(b).Union(a.Intersect(c))},
			"de Morgan": {
				a.Difference(b.Union(c)),
				a.Difference(b).Intersect(a.Difference(c)),
			},
			"difference and intersection partition": {a.Difference(b).Union(a.Intersect(b)), a},
			"difference with itself is empty":       {a.Difference(a), nodeset.NodeSet{}},
			"a filter by a set is an intersection":  {a.Where(b.Contains), a.Intersect(b)},
			"Collect is the inverse of All":         {nodeset.Collect(a.All()), a},
		}
		for law, sides := range laws {
			if !sides[0].Equal(sides[1]) {
				t.Errorf("%s: %q and %q", law, sides[0], sides[1])
			}
		}
	})
}

func TestParseIsTheInverseOfString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := nodeNames().Filter(func(names []string) bool { return len(names) > 0 }).Draw(t, "names")
		s := nodeset.Of(names...)
		back, err := nodeset.Parse(s.String())
		if err != nil {
			t.Fatal(err)
		}
		if !back.Equal(s) {
			t.Errorf("%q reads back as %q", s.Names(), back.Names())
		}
	})
}

func TestStringDependsOnTheNamesOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := nodeNames().Draw(t, "names")
		shuffled := append(rapid.Permutation(names).Draw(t, "shuffled"), names...)
		if one, other := nodeset.Of(names...).String(), nodeset.Of(shuffled...).String(); one != other {
			t.Errorf("%q and %q", one, other)
		}
	})
}
