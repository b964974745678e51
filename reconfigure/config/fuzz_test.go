package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FuzzParse parses any bytes: parse never panics, the problems are sorted and have lines of the file, and the Cluster
// is empty with them.
func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.yml")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds in testdata: %v", err)
	}
	for _, file := range append(seeds, filepath.Join("..", "..", File)) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("a: &a {<<: *a, b: [*a]}\nnode_groups: &g [*g, {name: *g}]\nslurm: &s {extra: *s}\n"))
	f.Add([]byte("? {a: b}\n: c\n!!binary x: y\n<<: 1\n"))
	f.Add([]byte("\xff\xfea\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cluster, problems := parse("/cluster", data)
		if len(problems) == 0 {
			return
		}
		if !reflect.ValueOf(cluster).IsZero() {
			t.Error("there is a Cluster in addition to the problems")
		}
		// The lines of a YAML file may end in any of these (YAML 1.1, section 4.2), which the parser counts each.
		breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")
		last := strings.Count(breaks.Replace(string(data)), "\n") + 1
		for _, p := range problems {
			if p.Line < 1 || p.Line > last {
				t.Errorf("%v: the file has %d lines", p, last)
			}
			if p.Message == "" || strings.Contains(p.String(), "\n") {
				t.Errorf("%q is not one line", p)
			}
		}
		if !slices.IsSortedFunc(problems, func(a, b Problem) int { return a.Line - b.Line }) {
			t.Error("the problems are not in the order of the file")
		}
	})
}

// FuzzEdit edits any valid declaration: either there is an error, or one number is replaced and every other byte is
// unchanged.
func FuzzEdit(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("..", "..", File))
	if err != nil {
		f.Fatal(err)
	}
	for _, min := range []string{"2", "&n 2", "!!int 2", "*n", "2 # 2", "\n      2"} {
		f.Add([]byte(strings.Replace(string(data), "min_nodes: 2", "min_nodes: "+min, 1)), 3)
	}
	f.Add([]byte(strings.ReplaceAll(string(data), "\n", "\r\n")), 11)
	f.Add(data, 21)
	f.Fuzz(func(t *testing.T, data []byte, to int) {
		before, problems := parse("/cluster", data)
		if len(problems) > 0 {
			return
		}
		for _, g := range before.Groups {
			text, err := MinNodes{Group: g.Name, From: g.Min, To: to}.edit("/cluster", data)
			if err != nil {
				continue
			}
			after, problems := parse("/cluster", text)
			if len(problems) > 0 || !reflect.DeepEqual(after, before.WithMin(g.Name, to)) {
				t.Errorf("min_nodes %d of %s makes it %+v, with problems %v", to, g.Name, after, problems)
			}
			if !slices.ContainsFunc(indexes(string(data), strconv.Itoa(g.Min)), func(i int) bool {
				return string(data[:i])+strconv.Itoa(to)+string(data[i+len(strconv.Itoa(g.Min)):]) == string(text)
			}) {
				t.Errorf("more than the number has changed:\n%s", text)
			}
		}
	})
}

// indexes returns the offsets of a part in a text.
func indexes(text, part string) []int {
	var all []int
	for i := range text {
		if strings.HasPrefix(text[i:], part) {
			all = append(all, i)
		}
	}
	return all
}
