package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// settings reads further settings of slurm.conf: any of its keys except the generated ones. The map generated has their
// names, in lower case since the keys of slurm.conf are not case-sensitive, and what they are generated from. The
// values are stored by names in lower case.
func settings(into *map[string]value[string], generated map[string]string) reader {
	return readerFunc(func(r *report, path string, n *yaml.Node) {
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
			case double:
				r.add(e.place, "is a duplicate of %s in line %d: the keys of slurm.conf are not case-sensitive",
					before.key, before.line)
			default:
				first[key] = e
				(*into)[key] = r.setting(e.path, e.node)
			}
		}
	})
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

// number matches the numbers that Ansible writes as they are in the file; yesOrNo, the truth values of YAML 1.1 only.
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
