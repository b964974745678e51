package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/agext/levenshtein"
	"go.yaml.in/yaml/v3"
)

// reader takes a part of the file: it reports what is wrong there, and keeps what the part says.
type reader interface {
	read(r *report, path string, n *yaml.Node)
}

type readerFunc func(r *report, path string, n *yaml.Node)

func (f readerFunc) read(r *report, path string, n *yaml.Node) { f(r, path, n) }

// value is what a key says, and where. The rules between keys look at values that are ok only, so that a mistake is told once.
type value[T any] struct {
	place
	is T
	ok bool // there, and right by itself
}

// object is a mapping that has exactly these keys, though it may lack the optional ones.
type object map[string]reader

// optional is a key that may be left out. Only such are, whose absence Ansible and Terraform take as we do.
type optional struct{ reader }

func (o object) read(r *report, path string, n *yaml.Node) {
	entries, ok := r.entries(path, n)
	if !ok {
		return
	}
	lacking := maps.Clone(o)
	for _, e := range entries {
		delete(lacking, e.key)
	}
	for _, e := range entries {
		if in, ok := o[e.key]; ok {
			in.read(r, e.path, e.node)
			continue
		}
		near, ok := nearest(e.key, slices.Sorted(maps.Keys(lacking)))
		switch {
		case ok:
			delete(lacking, near) // a misspelt key is not missing too
			r.add(e.place, "unknown key; did you mean %s?", near)
		case path == "":
			r.add(e.place, "unknown key; variables of your own belong into group_vars/cluster.yml")
		default:
			r.add(e.place, "unknown key; the keys here are %s", strings.Join(slices.Sorted(maps.Keys(o)), ", "))
		}
	}
	for key, in := range lacking {
		if _, mayLack := in.(optional); !mayLack {
			r.add(place{join(path, key), n.Line}, "is missing")
		}
	}
}

// entry is a key of a mapping with its value.
type entry struct {
	place
	key  string
	node *yaml.Node
}

// entries is the keys of a mapping, each once, in order.
func (r *report) entries(path string, n *yaml.Node) ([]entry, bool) {
	if n.Kind != yaml.MappingNode {
		r.wrong(path, n, "keys with values")
		return nil, false
	}
	var all []entry
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := place{join(path, key.Value), key.Line}
		first, double := lines[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.add(place{path, key.Line}, "a key must be plain text")
		case key.ShortTag() == "!!merge":
			r.add(at, "merge keys are not taken, since Ansible and Terraform disagree about which value wins; write the keys out")
		case double:
			r.add(at, "stands here twice, first at line %d", first)
		default:
			lines[key.Value] = key.Line
			all = append(all, entry{at, key.Value, target(n.Content[i+1])})
		}
	}
	return all, true
}

// target is the node itself, or what an alias stands for. Readers go only as deep as the schema, so that an alias of what it stands in does no harm.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// list is a list of objects of one kind, at least one.
func list[T any](into *[]T, schema func(*T) object) reader {
	return readerFunc(func(r *report, path string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			r.wrong(path, n, "a list")
			return
		}
		if len(n.Content) == 0 {
			r.add(place{path, n.Line}, "is empty; there must be one at least")
		}
		*into = make([]T, len(n.Content))
		for i, item := range n.Content {
			schema(&(*into)[i]).read(r, fmt.Sprintf("%s[%d]", path, i), target(item))
		}
	})
}

// texts is a list of texts, none of them twice.
func texts(into *value[[]value[string]], rules ...rule) reader {
	return readerFunc(func(r *report, path string, n *yaml.Node) {
		into.place = place{path, n.Line}
		if n.Kind != yaml.SequenceNode {
			r.wrong(path, n, "a list")
			return
		}
		into.ok, into.is = true, make([]value[string], len(n.Content))
		for i, item := range n.Content {
			text(&into.is[i], rules...).read(r, fmt.Sprintf("%s[%d]", path, i), target(item))
		}
		unique(r, into.is)
	})
}

// unique reports texts that stand twice.
func unique(r *report, all []value[string]) {
	first := map[string]place{}
	for _, v := range all {
		if at, double := first[v.is]; double && v.is != "" {
			r.add(v.place, "%q is there twice, first at line %d", v.is, at.line)
		} else {
			first[v.is] = v.place
		}
	}
}

// text is one line of text that keeps to the rules; the first one that it breaks is told.
func text(into *value[string], rules ...rule) reader {
	return readerFunc(func(r *report, path string, n *yaml.Node) {
		into.place = place{path, n.Line}
		if into.is, into.ok = r.text(path, n); !into.ok {
			return
		}
		for _, check := range rules {
			if err := check(into.is); err != nil {
				r.add(into.place, "%v", err)
				into.ok = false
				return
			}
		}
	})
}

// text reads a scalar that all who read the file take for the same text.
func (r *report) text(path string, n *yaml.Node) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null":
		r.wrong(path, n, "text")
	case n.ShortTag() == "!!int" || n.ShortTag() == "!!float" || n.ShortTag() == "!!bool" || n.ShortTag() == "!!timestamp":
		r.wrong(path, n, "text", "put it into quotes")
	case n.ShortTag() != "!!str":
		r.wrong(path, n, "text")
	case n.Style == 0 && yaml11.MatchString(n.Value):
		r.add(place{path, n.Line}, "Ansible does not take %s for text unless it is in quotes; put it into quotes", n.Value)
	case strings.ContainsFunc(n.Value, unicode.IsControl):
		r.add(place{path, n.Line}, "must be one line without control characters")
	default:
		return n.Value, true
	}
	return n.Value, false
}

// yaml11 matches what YAML 1.1, which Ansible's PyYAML reads, takes for a truth value, a number (to base 60, too) or a value of its own, while Terraform
// and we read text: no, 24:00:00, =.
var yaml11 = regexp.MustCompile(`^(yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|=|` +
	`[-+]?0[xb]_+|[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*)$`)

// decimal matches what all YAML versions read as the same whole number.
var decimal = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// integer is a whole number between two bounds, both included.
func integer(into *value[int], low, high int) reader {
	return readerFunc(func(r *report, path string, n *yaml.Node) {
		into.place = place{path, n.Line}
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || !decimal.MatchString(n.Value) {
			r.wrong(path, n, "a whole number in plain digits")
			return
		}
		i, err := strconv.Atoi(n.Value)
		if err != nil || i < low || i > high {
			r.add(into.place, "%s is not between %d and %d", n.Value, low, high)
			return
		}
		into.is, into.ok = i, true
	})
}

// boolean is true or false.
func boolean(into *value[bool]) reader {
	return readerFunc(func(r *report, path string, n *yaml.Node) {
		into.place = place{path, n.Line}
		is, isnt := strings.EqualFold(n.Value, "true"), strings.EqualFold(n.Value, "false")
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || !is && !isnt {
			r.wrong(path, n, "true or false")
			return
		}
		into.is, into.ok = is, true
	})
}

// wrong reports a value of another type than wanted, and what was found.
func (r *report) wrong(path string, n *yaml.Node, want string, advice ...string) {
	message := fmt.Sprintf("must be %s, but is %s", want, describe(n))
	r.add(place{path, n.Line}, "%s", strings.Join(append([]string{message}, advice...), "; "))
}

// describe names a value for people.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "keys with values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!null":
		return "nothing"
	case n.ShortTag() == "!!str":
		return fmt.Sprintf("the text %q", n.Value)
	case n.ShortTag() == "!!int", n.ShortTag() == "!!float":
		return "the number " + n.Value
	case n.ShortTag() == "!!bool":
		return n.Value
	case n.ShortTag() == "!!timestamp":
		return "the date " + n.Value
	}
	return "a value tagged " + n.ShortTag()
}

// join is the path of a key of the object at path, on one line whatever the key is.
func join(path, key string) string {
	if strings.ContainsFunc(key, unicode.IsControl) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// nearest is the word that was likely meant, for one that is none of them.
func nearest(word string, words []string) (string, bool) {
	const typos = 2 // more edits than these make another word
	best, cost := "", typos+1
	for _, w := range words {
		if d := levenshtein.Distance(strings.ToLower(word), strings.ToLower(w), nil); d < cost && d < len(w) {
			best, cost = w, d
		}
	}
	return best, cost <= typos
}
