package config_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// pool is a node group of a test's declaration.
type pool struct {
	name, prefix    string
	width, min, max int
	extras          bool // with the optional keys
}

func (p pool) yaml() string {
	s := fmt.Sprintf("  - {name: %s, prefix: %q, width: %d, min_nodes: %d, max_nodes: %d, image: i, flavor: f, "+
		"network: n", p.name, p.prefix, p.width, p.min, p.max)
	if p.extras {
		s += ", features: [" + p.name + ", \"2\"], gres: \"gpu:1\", slurm: {CPUs: 2}"
	}
	return s + "}\n"
}

// declared returns the shipped declaration with other groups, a partition over each and one over all.
func declared(t testing.TB, pools []pool) string {
	before, rest, ok := strings.Cut(shipped(t), "\nnode_groups:\n")
	_, after, ok2 := strings.Cut(rest, "\nslurm:\n")
	if !ok || !ok2 {
		t.Fatal("the shipped declaration has no node_groups before slurm")
	}
	var groups, partitions strings.Builder
	names := make([]string, len(pools))
	for i, p := range pools {
		names[i] = p.name
		groups.WriteString(p.yaml())
		fmt.Fprintf(&partitions, "  - {name: %s, groups: [%s]}\n", p.name, p.name)
	}
	fmt.Fprintf(&partitions, "  - {name: whole, groups: [%s], default: true}\n", strings.Join(names, ", "))
	return before + "\nnode_groups:\n" + groups.String() + "partitions:\n" + partitions.String() + "\nslurm:\n" + after
}

// pools draws groups with distinct node names: each prefix ends in a letter of its own.
func pools(t *rapid.T) []pool {
	all := make([]pool, rapid.IntRange(1, 6).Draw(t, "groups"))
	for i := range all {
		own := string(rune('a' + i))
		width := rapid.IntRange(1, 4).Draw(t, "width")
		most := 1
		for range width {
			most *= 10
		}
		maximum := rapid.IntRange(1, most-1).Draw(t, "max")
		all[i] = pool{
			name:   "g_" + own,
			prefix: rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?`).Draw(t, "prefix") + "-" + own,
			width:  width,
			min:    rapid.IntRange(0, maximum).Draw(t, "min"),
			max:    maximum,
			extras: rapid.Bool().Draw(t, "extras"),
		}
	}
	return all
}

func TestEachNodeIsInItsOwnGroup(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := pools(rt)
		cluster, err := config.Load(directory(t, declared(t, want)))
		if err != nil {
			rt.Fatalf("a valid declaration is rejected:\n%v", err)
		}
		if len(cluster.Groups) != len(want) {
			rt.Fatalf("%d groups, want %d", len(cluster.Groups), len(want))
		}
		for i, g := range cluster.Groups {
			if g.Name != want[i].name || g.Min != want[i].min || g.Max != want[i].max {
				rt.Fatalf("group %d is %+v, want %+v", i, g, want[i])
			}
			for n := 1; n <= g.Max; n++ {
				if of, ok := cluster.GroupOf(g.Node(n)); !ok || of.Name != g.Name {
					rt.Fatalf("%s is of group %q, want %s", g.Node(n), of.Name, g.Name)
				}
			}
		}
	})
}

// In an accepted declaration no name is in two groups, not even one beyond max_nodes.
func TestNoNameIsInTwoGroups(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := make([]pool, 3)
		for i := range all {
			all[i] = pool{
				name:   "g" + string(rune('a'+i)),
				prefix: rapid.StringMatching(`n[0-2]{0,2}`).Draw(rt, "prefix"),
				width:  rapid.IntRange(1, 3).Draw(rt, "width"),
				min:    0,
				max:    1,
			}
		}
		owners := map[string]int{}
		shared := false
		for i, p := range all {
			for n := range pow10(p.width) {
				name := fmt.Sprintf("%s%0*d", p.prefix, p.width, n)
				if owner, taken := owners[name]; taken && owner != i {
					shared = true
				}
				owners[name] = i
			}
		}
		_, err := config.Load(directory(t, declared(t, all)))
		if refused := err != nil; refused != shared {
			rt.Fatalf("groups %+v share a name: %v; Load said %v", all, shared, err)
		}
	})
}

func pow10(n int) int {
	power := 1
	for range n {
		power *= 10
	}
	return power
}

func BenchmarkLoad(b *testing.B) {
	for _, groups := range []int{1, 40} {
		b.Run(fmt.Sprintf("4000nodes/%dgroups", groups), func(b *testing.B) {
			all := make([]pool, groups)
			for i := range all {
				all[i] = pool{name: fmt.Sprintf("g%d", i), prefix: fmt.Sprintf("g%d-", i), width: 4, max: 4000 / groups}
			}
			dir := directory(b, declared(b, all))
			for b.Loop() {
				if _, err := config.Load(dir); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
