package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	people "github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// reader reads a part of the file: it reports the problems, and stores the value.
type reader interface {
	read(r *report, path string, n *yaml.Node)
}

type readerFunc func(r *report, path string, n *yaml.Node)

func (f readerFunc) read(r *report, path string, n *yaml.Node) { f(r, path, n) }

// described is a reader with what docs/reference/declaration.md says of it.
type described struct {
	readerFunc
	kind    string        // what the value is
	unit    string        // "" if the value has none
	preset  func() string // the value of an optional key that is missing
	entries object        // of an entry of a list; nil if the value is something else
}

// measured gives a number a unit.
func measured(unit string, number described) described {
	number.unit = unit
	return number
}

// byDefault gives an optional key another default in docs/reference/declaration.md than the value before reading.
func byDefault(preset string, d described) optional {
	d.preset = func() string { return preset }
	return optional{d}
}

// value is the value of a key, and its position. The rules between keys use only values that are ok, so that a problem
// is reported once.
type value[T any] struct {
	place
	is T
	ok bool // present, and valid by itself
}

// preset makes a value that of a missing key. The rules between keys use it.
func (v *value[T]) preset(is T) { v.is, v.ok = is, true }

// missing reports whether the file lacks the key.
func (v value[T]) missing() bool { return v.line == 0 }

// object is a mapping with exactly these keys, except that optional ones may be missing.
type object map[string]reader

// optional is a key that may be missing. Ansible and Terraform must have the same default for it.
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
		near, ok := people.Nearest(e.key, slices.Sorted(maps.Keys(lacking)))
		switch {
		case ok:
			delete(lacking, near) // a misspelt key is not also reported as missing
			r.add(e.place, "unknown key; did you mean %s?", near)
		case path == "":
			r.add(e.place, "unknown key; put your own variables into group_vars/cluster.yml")
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

// entries returns the keys of a mapping, each once, in order.
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
			r.add(at, "merge keys are not supported, since Ansible and Terraform differ in which value takes "+
				"precedence; write the keys out")
		case double:
			r.add(at, "is a duplicate of line %d", first)
		default:
			lines[key.Value] = key.Line
			all = append(all, entry{at, key.Value, target(n.Content[i+1])})
		}
	}
	return all, true
}

// target returns the node itself, or the target of an alias. Readers go only as deep as the schema, so an alias of a
// value that contains it causes no endless loop.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// list reads a list of at least one object.
func list[T any](into *[]T, schema func(*T) object) described {
	read := func(r *report, path string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			r.wrong(path, n, "a list")
			return
		}
		if len(n.Content) == 0 {
			r.add(place{path, n.Line}, "is empty; it must have at least one entry")
		}
		*into = make([]T, len(n.Content))
		for i, item := range n.Content {
			schema(&(*into)[i]).read(r, fmt.Sprintf("%s[%d]", path, i), target(item))
		}
	}
	return described{readerFunc: read, kind: "list", entries: schema(new(T)), preset: func() string { return "[]" }}
}

// texts reads a list of texts without duplicates.
func texts(into *value[[]value[string]], rules ...rule) described {
	read := func(r *report, path string, n *yaml.Node) {
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
	}
	return described{readerFunc: read, kind: "list of texts", preset: func() string { return "[]" }}
}

// textsByName reads texts by names, which a rule checks.
func textsByName(into *map[string]value[string], named rule) described {
	read := func(r *report, path string, n *yaml.Node) {
		*into = map[string]value[string]{}
		entries, _ := r.entries(path, n)
		for _, e := range entries {
			if err := named(e.key); err != nil {
				r.add(e.place, "%v", err)
				continue
			}
			var is value[string]
			text(&is, filled).read(r, e.path, e.node)
			(*into)[e.key] = is
		}
	}
	return described{readerFunc: read, kind: "texts by name", preset: func() string { return "{}" }}
}

// wayToConfigure reads one of some words, the path of a playbook, or a command: a list of its words, of which the first
// has a slash.
func wayToConfigure(into *value[[]value[string]], words ...string) described {
	playbookOrWord := func(text string) error {
		if isPlaybook(text) {
			return nil
		}
		if err := oneOf(words...)(text); err != nil {
			return fmt.Errorf("%w; a playbook ends with .yml, and a command is a list", err)
		}
		return nil
	}
	program := func(text string) error {
		switch {
		case isPlaybook(text):
			return fmt.Errorf("%q is a playbook: write it without brackets", text)
		case !strings.Contains(text, "/"):
			return fmt.Errorf("%q must be the path of a program, with a slash", text)
		}
		return nil
	}
	read := func(r *report, path string, n *yaml.Node) {
		into.place = place{path, n.Line}
		items, first := []*yaml.Node{n}, playbookOrWord
		if n.Kind == yaml.SequenceNode {
			items, first = n.Content, program
		}
		if len(items) == 0 {
			r.add(into.place, "is empty; write one of %s, a playbook, or the words of a command", strings.Join(words, ", "))
			return
		}
		into.ok, into.is = true, make([]value[string], len(items))
		for i, item := range items {
			rules := []rule{filled}
			if i == 0 {
				rules = []rule{first}
			}
			text(&into.is[i], rules...).read(r, path, target(item))
			into.ok = into.ok && into.is[i].ok
		}
	}
	return described{readerFunc: read,
		kind: strings.Join(words, ", ") + ", the path of a playbook (.yml), or a command: a list of texts"}
}

// isPlaybook reports whether a text is the path of a playbook.
func isPlaybook(text string) bool {
	return slices.Contains([]string{".yml", ".yaml"}, filepath.Ext(text))
}

// unique reports duplicate texts.
func unique(r *report, all []value[string]) {
	first := map[string]place{}
	for _, v := range all {
		if at, double := first[v.is]; double && v.is != "" {
			r.add(v.place, "%q is a duplicate of line %d", v.is, at.line)
		} else {
			first[v.is] = v.place
		}
	}
}

// text reads one line of text and checks the rules. It reports the first one that the text breaks.
func text(into *value[string], rules ...rule) described {
	read := func(r *report, path string, n *yaml.Node) {
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
	}
	return described{readerFunc: read, kind: "text", preset: func() string {
		if into.is == "" {
			return `""`
		}
		return into.is
	}}
}

// word reads one of some words.
func word(into *value[string], words ...string) described {
	d := text(into, oneOf(words...))
	d.kind = strings.Join(words, ", ")
	return d
}

// text reads a scalar that Ansible, Terraform and this package read as the same text.
func (r *report) text(path string, n *yaml.Node) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null":
		r.wrong(path, n, "text")
	case n.ShortTag() == "!!int" || n.ShortTag() == "!!float" || n.ShortTag() == "!!bool" ||
		n.ShortTag() == "!!timestamp":
		r.wrong(path, n, "text", "put it into quotes")
	case n.ShortTag() != "!!str":
		r.wrong(path, n, "text")
	case n.Style == 0 && yaml11.MatchString(n.Value):
		r.add(place{path, n.Line}, "Ansible does not read %s as text without quotes; put it into quotes", n.Value)
	case strings.ContainsFunc(n.Value, unicode.IsControl):
		r.add(place{path, n.Line}, "must be one line without control characters")
	default:
		return n.Value, true
	}
	return n.Value, false
}

// yaml11 matches scalars that are a truth value, a number (also in base 60) or a special value in YAML 1.1, which
// Ansible's PyYAML reads, and that are text for Terraform and this package: no, 24:00:00, =.
var yaml11 = regexp.MustCompile(`^(yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF|=|` +
	`[-+]?0[xb]_+|[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*)$`)

// decimal matches whole numbers that all versions of YAML read as the same number.
var decimal = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// integer reads a whole number from low to high.
func integer(into *value[int], low, high int) described {
	read := func(r *report, path string, n *yaml.Node) {
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
	}
	return described{readerFunc: read, kind: fmt.Sprintf("%d to %d", low, high),
		preset: func() string { return strconv.Itoa(into.is) }}
}

// timespan reads a number of seconds, or a duration such as 10m, from low to high seconds.
func timespan(into *value[int], low, high int) described {
	d := measured("seconds, or as 10m", integer(into, low, high))
	d.readerFunc = func(r *report, path string, n *yaml.Node) {
		d, err := people.ParseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || err != nil {
			integer(into, low, high).read(r, path, n)
			return
		}
		into.place = place{path, n.Line}
		if d < time.Duration(low)*time.Second || d > time.Duration(high)*time.Second || d%time.Second != 0 {
			r.add(into.place, "%s is not between %d and %d whole seconds", n.Value, low, high)
			return
		}
		into.is, into.ok = int(d/time.Second), true
	}
	return d
}

// plainSeconds reads a number of seconds that Ansible or Terraform reads from the file, too, so that it has no unit.
func plainSeconds(into *value[int], low, high int) described {
	d := measured("seconds", integer(into, low, high))
	d.readerFunc = func(r *report, path string, n *yaml.Node) {
		if d, err := people.ParseDuration(n.Value); err == nil && n.ShortTag() == "!!str" {
			r.wrong(path, n, "a whole number in plain digits", fmt.Sprintf("write seconds: %.0f", d.Seconds()))
			return
		}
		integer(into, low, high).read(r, path, n)
	}
	return d
}

// boolean reads true or false.
func boolean(into *value[bool]) described {
	read := func(r *report, path string, n *yaml.Node) {
		into.place = place{path, n.Line}
		is, isnt := strings.EqualFold(n.Value, "true"), strings.EqualFold(n.Value, "false")
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || !is && !isnt {
			r.wrong(path, n, "true or false")
			return
		}
		into.is, into.ok = is, true
	}
	return described{readerFunc: read, kind: "true or false",
		preset: func() string { return strconv.FormatBool(into.is) }}
}

// wrong reports a value of the wrong type.
func (r *report) wrong(path string, n *yaml.Node, want string, advice ...string) {
	message := fmt.Sprintf("must be %s, but is %s", want, describe(n))
	r.add(place{path, n.Line}, "%s", strings.Join(append([]string{message}, advice...), "; "))
}

// describe describes a value in messages.
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

// join returns the path of a key in the object at path. It quotes keys with control characters.
func join(path, key string) string {
	if strings.ContainsFunc(key, unicode.IsControl) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
