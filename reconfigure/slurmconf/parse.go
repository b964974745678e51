package slurmconf

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// config is the content of slurm.conf and gres.conf. Keys are in lower case, since Slurm's are not case-sensitive.
type config struct {
	settings   map[string]string
	names      map[string]string // the keys as they are written in the file
	nodes      map[string]node
	partitions map[string]bool
}

// parse returns the content of the files, which are by name.
func parse(files map[string]string) (config, error) {
	c := config{settings: map[string]string{}, names: map[string]string{}, nodes: map[string]node{},
		partitions: map[string]bool{}}
	for _, key := range vital {
		c.names[key] = key
	}
	defaults := map[string]string{}
	for number, line := range lines(files[slurmFile]) {
		if err := c.slurmLine(line, defaults); err != nil {
			return config{}, fmt.Errorf("%s, line %d: %w", slurmFile, number, err)
		}
	}
	for number, line := range lines(files[gresFile]) {
		if err := c.gresLine(line); err != nil {
			return config{}, fmt.Errorf("%s, line %d: %w", gresFile, number, err)
		}
	}
	return c, nil
}

// lines yields the lines with their numbers, without comments. Lines that a backslash continues are one line, with the
// number of the last (src/common/parse_config.c).
func lines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		whole := ""
		for i, line := range strings.Split(text, "\n") {
			if at := comment(line); at >= 0 {
				line = line[:at]
			}
			line = strings.TrimSpace(line)
			if part, more := strings.CutSuffix(line, `\`); more {
				whole += part + " "
				continue
			}
			if whole += line; whole != "" && !yield(i+1, whole) {
				return
			}
			whole = ""
		}
	}
}

// comment returns the index at which a comment begins, or -1. After a backslash, # begins no comment.
func comment(line string) int {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] != '\\') {
			return i
		}
	}
	return -1
}

// pairs returns the keys of a line's KEY=VALUE pairs, and the values by key in lower case. A value with spaces is in
// double quotes.
func pairs(line string) (keys []string, values map[string]string) {
	values = map[string]string{}
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		key, rest, found := strings.Cut(line, "=")
		if !found {
			return keys, values
		}
		key = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(key), "+"))
		rest = strings.TrimLeft(rest, " \t")
		var value string
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			value, line, _ = strings.Cut(quoted, `"`)
		} else if end := strings.IndexAny(rest, " \t"); end >= 0 {
			value, line = rest[:end], rest[end:]
		} else {
			value, line = rest, ""
		}
		keys = append(keys, key)
		values[strings.ToLower(key)] = value
	}
	return keys, values
}

// slurmLine adds a line of slurm.conf. The settings of a line NodeName=DEFAULT apply to the lines after it.
func (c config) slurmLine(line string, defaults map[string]string) error {
	keys, values := pairs(line)
	if len(keys) == 0 {
		return nil
	}
	switch first := strings.ToLower(keys[0]); {
	case first == "nodename" && strings.EqualFold(values[first], "DEFAULT"):
		maps.Copy(defaults, values)
	case first == "nodename":
		names, err := nodeset.Parse(values[first])
		if err != nil {
			return err
		}
		for name := range names.All() {
			n := node{settings: maps.Clone(defaults), gres: map[string]string{}}
			maps.Copy(n.settings, values)
			c.nodes[name] = n
		}
	case first == "partitionname" && !strings.EqualFold(values[first], "DEFAULT"):
		for name := range strings.SplitSeq(values[first], ",") {
			c.partitions[name] = true
		}
	case first != "partitionname" && len(keys) == 1:
		c.settings[first], c.names[first] = values[first], keys[0]
	}
	return nil
}

// gresLine adds a line of gres.conf to its nodes; a line without NodeName applies to all nodes. AutoDetect counts as
// one of the other keys.
func (c config) gresLine(line string) error {
	keys, values := pairs(line)
	slices.Sort(keys)
	names := nodeset.Collect(maps.Keys(c.nodes))
	if list, ok := values["nodename"]; ok {
		var err error
		if names, err = nodeset.Parse(list); err != nil {
			return err
		}
	}
	text := ""
	for _, key := range keys {
		if key = strings.ToLower(key); key != "nodename" && key != "name" && key != "type" {
			text += " " + key + "=" + values[key]
		}
	}
	for name := range names.All() {
		if n, ok := c.nodes[name]; ok {
			n.gres[values["name"]+":"+values["type"]] += text + ";"
		}
	}
	return nil
}
