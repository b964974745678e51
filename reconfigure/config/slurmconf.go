package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	people "github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// settings reads further settings of slurm.conf: the known keys, and those of later releases of Slurm, except the
// generated ones. The map generated has their names, in lower case since the keys of slurm.conf are not case-sensitive, and what they are generated from. The
// values are stored by names in lower case.
func settings(into *map[string]value[string], known, later []string, generated map[string]string) described {
	accepted := slices.Concat(known, later)
	isKnown := func(key string) bool {
		return slices.ContainsFunc(accepted, func(k string) bool { return strings.EqualFold(k, key) })
	}
	allowed := slices.DeleteFunc(slices.Clone(known), func(key string) bool {
		_, ours := generated[strings.ToLower(key)]
		return ours
	})
	read := func(r *report, path string, n *yaml.Node) {
		*into = map[string]value[string]{}
		entries, _ := r.entries(path, n)
		first := map[string]entry{}
		for _, e := range entries {
			key := strings.ToLower(e.key)
			before, double := first[key]
			from, ours := generated[key]
			switch {
			case !settingName.MatchString(e.key):
				r.add(e.place, "is not a key of slurm.conf")
			case ours:
				r.add(e.place, "cannot be set here: it is generated from %s", from)
			case !isKnown(e.key):
				r.add(e.place, "%s", unknownSetting(e.key, allowed))
			case double:
				r.add(e.place, "is a duplicate of %s in line %d: the keys of slurm.conf are not case-sensitive",
					before.key, before.line)
			default:
				first[key] = e
				v := r.setting(e.path, e.node)
				if v.ok && slices.Contains(numbersOfNodes(), key) && !wholeNumber.MatchString(v.is) {
					r.add(v.place, "%q is not a whole number in plain digits%s", v.is, unitOf(key))
					v.ok = false
				}
				(*into)[key] = v
			}
		}
	}
	return described{readerFunc: read, kind: "settings of slurm.conf", preset: func() string { return "{}" }}
}

// unknownSetting returns the message for an unknown key, with the key that may be meant.
func unknownSetting(key string, allowed []string) string {
	message := "unknown key: slurmctld of 22.05 and 24.11 would not start with it"
	if near, ok := people.Nearest(key, allowed); ok {
		message += fmt.Sprintf("; did you mean %s?", near)
	}
	return message
}

// numbersOfNodes returns the settings of NodeName lines that Slurm reads as whole numbers (read_config.c), in lower
// case. Lines of other types have no settings with these names.
func numbersOfNodes() []string {
	return []string{
		"boards", "corespeccount", "corespersocket", "cpus", "memspeclimit", "procs", "realmemory",
		"restrictedcorespergpu", "sockets", "socketsperboard", "threadspercore", "tmpdisk", "weight",
	}
}

// wholeNumber matches the whole numbers of Slurm: K multiplies it by 1024, and there are no other units.
var wholeNumber = regexp.MustCompile(`^[0-9]+[kK]?$`)

// unitOf returns the unit of a setting, for messages.
func unitOf(key string) string {
	if key == "realmemory" || key == "tmpdisk" || key == "memspeclimit" {
		return "; the unit is MiB, as in 7500"
	}
	return ""
}

var settingName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// setting reads the value of one setting, which may be a list: Ansible joins it by commas.
func (r *report) setting(path string, n *yaml.Node) value[string] {
	if n.Kind != yaml.SequenceNode {
		return r.word(path, n)
	}
	v := value[string]{place: place{path, n.Line}, ok: true}
	words := make([]string, len(n.Content))
	for i, item := range n.Content {
		word := r.word(fmt.Sprintf("%s[%d]", path, i), target(item))
		words[i], v.ok = word.is, v.ok && word.ok
	}
	v.is = strings.Join(words, ",")
	return v
}

// word reads a text, a number or a truth value, for which Ansible writes YES or NO.
func (r *report) word(path string, n *yaml.Node) value[string] {
	v := value[string]{place: place{path, n.Line}, is: n.Value}
	tag := n.ShortTag()
	switch {
	case n.Kind != yaml.ScalarNode || tag == "!!null":
		r.wrong(path, n, "text, a number, true or false")
	case tag == "!!bool" || n.Style == 0 && yesOrNo.MatchString(n.Value):
		v.ok = true
	case (tag == "!!int" || tag == "!!float") && number.MatchString(n.Value):
		v.ok = true
	default:
		text(&v, settingValue).read(r, path, n)
	}
	return v
}

// number matches the numbers that Ansible writes as they are in the file; yesOrNo matches the truth values that only
// YAML 1.1 has.
var (
	number  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]*[1-9]|\.0)?$`)
	yesOrNo = regexp.MustCompile(`^(yes|Yes|YES|no|No|NO)$`)
)

// settingValue rejects characters that end a value in slurm.conf.
func settingValue(s string) error {
	quoted := len(s) > 1 && strings.HasPrefix(s, `"`) && strings.HasSuffix(s, `"`) && strings.Count(s, `"`) == 2
	switch {
	case s == "":
		return errors.New("is empty")
	case strings.Contains(s, "#"):
		return fmt.Errorf("%q has a #, which begins a comment in slurm.conf", s)
	case !quoted && strings.ContainsAny(s, `" `):
		return fmt.Errorf(`%q has a blank or a quote, which ends a value in slurm.conf; quote it for slurm.conf too: `+
			`'"…"'`, s)
	}
	return nil
}

// ofCluster returns the generated settings of slurm.conf.
func ofCluster() map[string]string {
	const scripts = "the scripts of this project"
	return map[string]string{
		"clustername":         "cluster_name",
		"slurmctldhost":       "control_node.name",
		"controlmachine":      "control_node.name",
		"controladdr":         "control_node.name",
		"backupcontroller":    "control_node.name",
		"nodename":            "node_groups",
		"partitionname":       "partitions",
		"grestypes":           "node_groups[].gres",
		"suspendtime":         "slurm.suspend_time",
		"suspendtimeout":      "slurm.suspend_timeout",
		"suspendrate":         "slurm.suspend_rate",
		"suspendexcnodes":     "node_groups[].min_nodes",
		"suspendexcparts":     "node_groups[].min_nodes",
		"suspendprogram":      scripts,
		"resumetimeout":       "slurm.resume_timeout",
		"resumerate":          "slurm.resume_rate",
		"resumeprogram":       scripts,
		"resumefailprogram":   scripts,
		"slurmctldparameters": "slurm.controller_parameters",
	}
}

// ofNodes returns the generated settings of the NodeName lines.
func ofNodes() map[string]string {
	const addresses = "the instance's address"
	return map[string]string{
		"nodename":     "prefix, width, min_nodes and max_nodes",
		"nodehostname": "prefix, width, min_nodes and max_nodes",
		"nodeaddr":     addresses,
		"bcastaddr":    addresses,
		"state":        "min_nodes and max_nodes",
		"feature":      "features",
		"features":     "features",
		"gres":         "gres",
	}
}

// ofPartition returns the generated settings of the PartitionName lines.
func ofPartition() map[string]string {
	return map[string]string{
		"partitionname": "name",
		"nodes":         "groups",
		"default":       "default",
	}
}
