package slurmconf

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Conf is slurm.conf with the files that it includes, in the order in which slurmctld reads their lines.
type Conf struct {
	lines []line
	config
}

// line is a whole line without its comment: a continued line is one.
type line struct {
	At
	text   string
	key    string            // the first, in lower case
	values map[string]string // by keys in lower case
}

// At is the place of a line.
type At struct {
	File string // the path
	Line int    // the number of the last line, if a backslash continues it
}

func (a At) String() string { return fmt.Sprintf("%s, line %d", a.File, a.Line) }

// deepest is a number of nested files that no site has. Slurm has no limit: a file that includes itself ends slurmctld.
const deepest = 16

// Load reads slurm.conf. It calls read with the paths of slurm.conf and of the files that it includes, as slurmctld
// finds them (src/common/parse_config.c): %c is the cluster's name, in lower case, if a line before has it, and a
// relative path begins at the folder of slurm.conf (24.11) or of the including file (22.05). An error names the line
// that slurmctld could not read, the line that includes a file that read does not find, or the one that includes
// another file on another release.
func Load(file string, read func(path string) (string, error)) (Conf, error) {
	c := Conf{config: newConfig()}
	l := loader{folder: path.Dir(file), conf: &c, read: read, defaults: map[string]string{}}
	text, err := read(file)
	if err != nil {
		return Conf{}, err
	}
	if err := l.file(file, text, 0); err != nil {
		return Conf{}, err
	}
	return c, nil
}

// loader is one call of Load.
type loader struct {
	folder   string // of slurm.conf
	conf     *Conf
	read     func(string) (string, error)
	defaults map[string]string // of lines NodeName=DEFAULT
}

func (l loader) file(name, text string, depth int) error {
	for number, text := range lines(text) {
		at := At{name, number}
		included := include.FindStringSubmatch(text)
		if included == nil {
			if err := l.conf.slurmLine(text, l.defaults); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			keys, values, _ := pairs(text)
			l.conf.lines = append(l.conf.lines, line{at, text, strings.ToLower(keys[0]), values})
			continue
		}
		if depth == deepest {
			return fmt.Errorf("%s: includes files %d deep; does a file include itself?", at, deepest)
		}
		file, text, err := l.included(name, included[2])
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if err := l.file(file, text, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// included returns the path and the text of an included file.
func (l loader) included(by, file string) (name, text string, err error) {
	if strings.Contains(file, "%c") {
		name := l.conf.settings["clustername"]
		if name == "" {
			return "", "", fmt.Errorf("%s has %%c, the cluster's name, and no line before has ClusterName", file)
		}
		file = strings.ReplaceAll(file, "%c", strings.ToLower(name))
	}
	if path.IsAbs(file) {
		text, err = l.read(file)
		return file, text, err
	}
	name = path.Join(l.folder, file)
	text, err = l.read(name)
	other := path.Join(path.Dir(by), file)
	if other == name {
		return name, text, err
	}
	switch otherText, otherErr := l.read(other); {
	case err != nil:
		return other, otherText, otherErr
	case otherErr == nil && otherText != text:
		return "", "", fmt.Errorf("%s is %s or %s, depending on the release of Slurm: write the absolute path", file, name,
			other)
	}
	return name, text, err
}

// Setting returns a setting and its place, by its name in upper or lower case. Of several lines the last counts, as for
// slurmctld.
func (c Conf) Setting(name string) (value string, at At, there bool) {
	key := strings.ToLower(name)
	for _, l := range slices.Backward(c.lines) {
		if l.key == key {
			return l.values[key], l.At, true
		}
	}
	return "", At{}, false
}

// Section is a line with several keys: of a node, a partition or a node set.
type Section struct {
	At
	Settings map[string]string // by keys in lower case, with those of the lines DEFAULT before it
}

// Sections returns the lines that begin with a key, PartitionName for example, in their order, except those with the
// name DEFAULT.
func (c Conf) Sections(key string) []Section {
	var all []Section
	key, defaults := strings.ToLower(key), map[string]string{}
	for _, l := range c.lines {
		switch {
		case l.key != key:
		case strings.EqualFold(l.values[key], "DEFAULT"):
			maps.Copy(defaults, l.values)
		default:
			merged := maps.Clone(defaults)
			maps.Copy(merged, l.values)
			all = append(all, Section{l.At, merged})
		}
	}
	return all
}

// Files returns the paths of the files that have lines, in the order of their first ones.
func (c Conf) Files() []string {
	var all []string
	for _, l := range c.lines {
		if !slices.Contains(all, l.File) {
			all = append(all, l.File)
		}
	}
	return all
}

// Nodes returns the nodes.
func (c Conf) Nodes() nodeset.NodeSet { return nodeset.Collect(maps.Keys(c.nodes)) }

// Node returns the settings of a node, by keys in lower case, with those of lines NodeName=DEFAULT before its line.
func (c Conf) Node(name string) map[string]string { return c.nodes[name].settings }

// Partitions returns the names of the partitions, in order.
func (c Conf) Partitions() []string { return slices.Sorted(maps.Keys(c.partitions)) }

// Dangers is the function Dangers for files with their Includes, without gres.conf.
func (c Conf) Dangers(coming Conf) []reconfigure.Danger {
	return slices.Concat(settings(c.config, coming.config), nodes(c.config, coming.config),
		partitions(c.config, coming.config))
}

// Changes returns the lines that slurmctld reads from only one of two configurations: those that are gone, with a - in
// front, and those that are new, with a +. The places of the lines, comments and blanks do not count.
func (c Conf) Changes(coming Conf) []string {
	count := map[string]int{}
	for _, l := range coming.lines {
		count[l.plain()]++
	}
	var gone, added []string
	for _, l := range c.lines {
		if count[l.plain()]--; count[l.plain()] < 0 {
			gone = append(gone, "- "+l.plain())
		}
	}
	for _, l := range coming.lines {
		if count[l.plain()] > 0 {
			count[l.plain()]--
			added = append(added, "+ "+l.plain())
		}
	}
	return slices.Concat(gone, added)
}

// plain returns the text with single blanks.
func (l line) plain() string { return strings.Join(strings.Fields(l.text), " ") }
