package slurmconf

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// config is the content of slurm.conf and gres.conf. Keys are in lower case, since Slurm's are not case-sensitive.
type config struct {
	settings   map[string]string // all but NodeName and PartitionName; Include has the names of the files
	names      map[string]string // the keys as they are written in the file
	nodes      map[string]node
	partitions map[string]bool
}

func newConfig() config {
	return config{settings: map[string]string{}, names: map[string]string{}, nodes: map[string]node{},
		partitions: map[string]bool{}}
}

// parse returns the content of the files, which are by name.
func parse(files map[string]string) (config, error) {
	c := newConfig()
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
// number of the last. The blanks at the begin of the next line are the only ones between both
// (src/common/parse_config.c).
func lines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		whole := ""
		for i, line := range strings.Split(text, "\n") {
			if at := comment(line); at >= 0 {
				line = line[:at]
			}
			line = strings.TrimRightFunc(line, unicode.IsSpace)
			if part, more := strings.CutSuffix(line, `\`); more {
				whole += part
				continue
			}
			if whole = strings.TrimSpace(whole + line); whole != "" && !yield(i+1, whole) {
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
// double quotes; if a key is there twice, the last value counts. Anything else in the line is an error, as in Slurm
// (src/common/parse_config.c, keyvalue_pattern); pairs then also returns what comes before it.
func pairs(line string) (keys []string, values map[string]string, err error) {
	values = map[string]string{}
	for rest := line; strings.TrimSpace(rest) != ""; {
		found := pair.FindStringSubmatch(rest)
		if found == nil {
			return keys, values, fmt.Errorf("%q is not KEY=VALUE", strings.TrimSpace(rest))
		}
		keys, rest = append(keys, found[1]), rest[len(found[0]):]
		values[strings.ToLower(found[1])] = found[2] + found[3]
	}
	return keys, values, nil
}

var (
	pair    = regexp.MustCompile(`^\s*([[:alnum:]_.]+)\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))(?:\s|$)`)
	include = regexp.MustCompile(`(?i)^\s*(include)\s+(\S+)\s*$`)
)

// begins lists the settings, in lower case, whose line may have further keys.
var begins = []string{nodeName, partitionName, "downnodes", "frontendname", "nodeset"}

const (
	nodeName      = "nodename"
	partitionName = "partitionname"
)

// slurmLine adds a line of slurm.conf. The settings of a line NodeName=DEFAULT apply to the lines after it.
func (c config) slurmLine(line string, defaults map[string]string) error {
	if file := include.FindStringSubmatch(line); file != nil {
		c.set(file[1], file[2])
		return nil
	}
	keys, values, err := pairs(line)
	if err != nil {
		return err
	}
	first := strings.ToLower(keys[0])
	value := values[first]
	switch isDefault := strings.EqualFold(value, "DEFAULT"); {
	case len(keys) > 1 && !slices.Contains(begins, first):
		return fmt.Errorf("has %s after %s, but Slurm reads only one setting from a line", keys[1], keys[0])
	case first == nodeName && isDefault:
		maps.Copy(defaults, values)
	case first == nodeName:
		names, err := nodeset.Parse(value)
		if err != nil {
			return err
		}
		for name := range names.All() {
			n := node{settings: maps.Clone(defaults), gres: map[string]string{}}
			maps.Copy(n.settings, values)
			c.nodes[name] = n
		}
	case first == partitionName && !isDefault:
		for name := range strings.SplitSeq(value, ",") {
			c.partitions[name] = true
		}
	case first != partitionName:
		for _, key := range keys[1:] {
			value += " " + key + "=" + values[strings.ToLower(key)]
		}
		c.set(keys[0], value)
	}
	return nil
}

// set adds a setting. Slurm reads some of them, such as SlurmctldHost, from several lines.
func (c config) set(name, value string) {
	key := strings.ToLower(name)
	if before, twice := c.settings[key]; twice {
		value = before + " " + value
	}
	c.settings[key], c.names[key] = value, name
}

// gresLine adds a line of gres.conf to its nodes; a line without NodeName applies to all nodes. AutoDetect counts as
// an ordinary key.
func (c config) gresLine(line string) error {
	keys, values := []string{"include"}, map[string]string{}
	if file := include.FindStringSubmatch(line); file != nil {
		values["include"] = file[2]
	} else {
		var err error
		if keys, values, err = pairs(line); err != nil {
			return err
		}
	}
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
