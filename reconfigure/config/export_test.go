package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// since has the release that added each key, except the keys of the first one, 0.1.0.
var since = map[string]string{
	"provider":                       "0.2.0",
	"limits":                         "0.2.0",
	"limits.groups":                  "0.2.0",
	"limits.max":                     "0.2.0",
	"control_host.others":            "0.2.0",
	"control_host.others.address":    "0.2.0",
	"control_host.others.port":       "0.2.0",
	"control_host.others.host_key":   "0.2.0",
	"node_groups.keep_ports":         "0.2.0",
	"node_groups.when_idle":          "0.2.0",
	"node_groups.max_age":            "0.2.0",
	"node_groups.max_stopped":        "0.2.0",
	"control_node.availability_zone": "0.3.0",
	"node_groups.fallback_flavors":   "0.3.0",
	"node_groups.fallback_zones":     "0.3.0",
	"node_groups.availability_zone":  "0.3.0",
	"node_groups.server_group":       "0.3.0",
	"node_groups.scheduler_hints":    "0.3.0",
	"node_groups.metadata":           "0.3.0",
	"node_groups.health_check":       "0.3.0",
	"node_groups.health_interval":    "0.3.0",
	"node_groups.health_limit":       "0.3.0",
	"node_groups.spare":              "0.3.0",
	"node_groups.spare_hours":        "0.3.0",
	"partitions.all_or_nothing":      "0.2.0",
	"partitions.fresh":               "0.2.0",
	"slurm.accounting_storage":       "0.2.0",
	"reconfigure.worker":             "0.2.0",
	"reconfigure.reconcile_minutes":  "0.2.0",
	"reconfigure.gather_seconds":     "0.2.0",
	"reconfigure.cool_down":          "0.2.0",
	"reconfigure.breaker":            "0.2.0",
	"reconfigure.nodes_per_state":    "0.2.0",
	"reconfigure.interrupt":          "0.2.0",
	"reconfigure.retries":            "0.2.0",
	"reconfigure.canary_job":         "0.2.0",
	"reconfigure.canary_minutes":     "0.2.0",
	"allowed_cidrs":                  "0.3.0",
	"slurm.launch":                   "0.3.0",
	"slurm.topology":                 "0.3.0",
	"control_node.existing":          "0.3.0",
	"control_node.user":              "0.3.0",
	"control_node.slurm_conf":        "0.3.0",
	"control_node.configure":         "0.3.0",
	"control_node.cidrs":             "0.3.0",
	"reconfigure.metrics":            "0.3.0",
	"reconfigure.notify":             "0.3.0",
	"reconfigure.notify_classes":     "0.3.0",
}

// presets has defaults that are set outside of this package.
var presets = map[string]string{"provider": "openstack"}

// everywhere has the meanings of keys that have no comment of their own.
var everywhere = map[string]string{
	"image": "name or id", "flavor": "name or id", "network": "name or id", "name": "its name",
}

// Reference returns docs/reference/declaration.md: types and defaults from the schema, and meanings from the comments
// of the shipped declaration. It is an error if a key has no comment, or a comment's key is not in the schema.
func Reference(shipped string) (string, error) {
	meanings, err := comments(shipped)
	if err != nil {
		return "", err
	}
	page := reference{meanings: meanings, seen: map[string]bool{}}
	page.WriteString("<!-- Written by `make golden`. -->\n# The declaration\n\nEvery key of `" + File + "`. `make golden` writes this " +
		"page\nfrom the program and from the comments of the file that comes with it. `reconfigure status` lists all " +
		"problems of your file.\nA default is the value of a missing key; the file may have another one. " +
		"[Recipes](../guides/recipes.md) are whole examples.\n")
	var d declaration
	page.section("", "", d.schema("/opt/eiffel"))
	for _, known := range []map[string]string{meanings, since} {
		for path := range known {
			if !page.seen[path] {
				page.problems = append(page.problems, path+" is not in the schema")
			}
		}
	}
	return page.String(), errors.Join(each(page.problems, errors.New)...)
}

// reference is the page while it is written.
type reference struct {
	strings.Builder
	meanings map[string]string // by path
	seen     map[string]bool   // the paths of the schema
	problems []string
}

// section writes the table of an object's keys, and then those of the objects in it. The path has no .
func (p *reference) section(path, title string, keys object) {
	heading, intro := "The cluster", ""
	if path != "" {
		heading, intro = "`"+title+"`", sentence(p.meanings[path])+"\n\n"
	}
	fmt.Fprintf(p, "\n## %s\n\n%s| key | value | default | since | meaning |\n|---|---|---|---|---|\n", heading, intro)
	var below []func()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := join(path, key)
		meaning := cmp.Or(p.meanings[at], everywhere[key])
		p.seen[at] = true
		if meaning == "" {
			p.problems = append(p.problems, at+" has no comment in "+File)
		}
		in, preset := keys[key], "required"
		if may, ok := in.(optional); ok {
			in, preset = may.reader, "optional"
		}
		kind, inner, brackets := "keys", object(nil), ""
		switch in := in.(type) {
		case object:
			inner = in
		case described:
			kind, inner = in.kind, in.entries
			if in.unit != "" {
				kind = in.unit + ", " + in.kind
			}
			if preset == "optional" {
				preset = "`" + cmp.Or(presets[at], in.preset()) + "`"
			}
			if inner != nil {
				brackets = "[]"
			}
		default:
			p.problems = append(p.problems, fmt.Sprintf("%s: a reader of type %T is not described", at, in))
		}
		if inner != nil {
			meaning = "see below"
			below = append(below, func() { p.section(at, strings.TrimPrefix(title+"."+key+brackets, "."), inner) })
		}
		fmt.Fprintf(p, "| `%s` | %s | %s | %s | %s |\n", key, kind, preset, cmp.Or(since[at], "0.1.0"),
			strings.ReplaceAll(meaning, "|", `\|`))
	}
	for _, write := range below {
		write()
	}
}

// sentence begins a text with a capital letter.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// unset matches a key of the shipped declaration that is commented out.
var unset = regexp.MustCompile(`(?m)^( *)# ( *(- )?[a-z_]+:( .*)?)$`)

// comments returns the comments of the shipped declaration by the paths of their keys.
func comments(shipped string) (map[string]string, error) {
	var file yaml.Node
	if err := yaml.Unmarshal([]byte(unset.ReplaceAllString(shipped, "$1$2")), &file); err != nil {
		return nil, err
	}
	all := map[string]string{}
	var visit func(path string, n *yaml.Node)
	visit = func(path string, n *yaml.Node) {
		if n.Kind == yaml.SequenceNode {
			for _, item := range n.Content {
				if len(item.Content) > 0 { // the comment above an entry belongs to its first key
					item.Content[0].HeadComment = cmp.Or(item.Content[0].HeadComment, item.HeadComment)
				}
				visit(path, item)
			}
		}
		if n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			at := join(path, key.Value)
			visit(at, value)
			if text := comment(key.HeadComment, key.LineComment, value.LineComment); text != "" {
				all[at] = text
			}
		}
	}
	visit("", file.Content[0])
	return all, nil
}

// comment returns the text of a key's comments: their last paragraph.
func comment(parts ...string) string {
	var words []string
	for _, part := range parts {
		paragraphs := strings.Split(part, "\n\n")
		for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
			words = append(words, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")))
		}
	}
	return strings.Join(words, " ")
}
