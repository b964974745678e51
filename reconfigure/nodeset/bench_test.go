package nodeset_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// fourThousand returns the names of a large cluster, shuffled.
func fourThousand() []string {
	names := make([]string, 4000)
	for i := range names {
		names[i] = fmt.Sprintf("node%04d", i+1)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

func BenchmarkParse(b *testing.B) {
	for _, bm := range []struct{ what, hostlist string }{
		{"one range", "node[0001-4000]"},
		{"two brackets", "rack[01-40]n[001-100]"},
		{"every name", strings.Join(fourThousand(), ",")},
	} {
		b.Run(bm.what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s, err := nodeset.Parse(bm.hostlist); err != nil || s.Len() != 4000 {
					b.Fatal(s.Len(), err)
				}
			}
		})
	}
}

func BenchmarkString(b *testing.B) {
	var gaps []string
	for i := range 4000 {
		gaps = append(gaps, fmt.Sprintf("node%04d", 2*i))
	}
	for _, bm := range []struct {
		what string
		set  nodeset.NodeSet
	}{
		{"one range", nodeset.Of(fourThousand()...)},
		{"no ranges", nodeset.Of(gaps...)},
	} {
		b.Run(bm.what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if bm.set.String() == "" {
					b.Fatal("empty")
				}
			}
		})
	}
}

func BenchmarkUnion(b *testing.B) {
	names := fourThousand()
	x, y := nodeset.Of(names[:2500]...), nodeset.Of(names[1500:]...)
	b.ReportAllocs()
	for b.Loop() {
		if x.Union(y).Len() != 4000 {
			b.Fatal("lost a node")
		}
	}
}
