// Package sitefiles decides which of a site's files each node gets. The name of a file below ansible/files/site says
// for which nodes it is: NAME.PRIORITY.NODESET. Of the files with one NAME, a node gets the one with the highest
// PRIORITY whose NODESET has it. Only the name decides, so that a listing of the folder shows everything.
package sitefiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Folder is where the files are, below the cluster directory.
const Folder = "ansible/files/site"

// Place is the folder of the files on a node, below that of Slurm's configuration.
const Place = "site"

// Everywhere is the node set of all nodes.
const Everywhere = "all"

// File is one file of the folder.
type File struct {
	Name       string          `json:"name"`     // the name on the node
	Priority   int             `json:"priority"` // the highest one counts
	Nodes      nodeset.NodeSet `json:"-"`        // empty: all nodes
	Source     string          `json:"source"`   // its name in the folder
	Executable bool            `json:"executable"`
}

// Files are the files of a folder. No two of them fit a node equally well.
type Files []File

var form = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)\.(0|[1-9][0-9]{0,5})\.([A-Za-z0-9,\[\]-]+)$`)

// Parse reads the name of a file.
func Parse(name string) (File, error) {
	parts := form.FindStringSubmatch(name)
	if parts == nil {
		return File{}, fmt.Errorf("%s: the name is not in the form NAME.PRIORITY.NODESET, as prolog.10.node[01-04]; "+
			"the node set %q means all nodes", name, Everywhere)
	}
	f := File{Name: parts[1], Source: name}
	f.Priority, _ = strconv.Atoi(parts[2])
	if parts[3] == Everywhere {
		return f, nil
	}
	var err error
	if f.Nodes, err = nodeset.Parse(parts[3]); err != nil {
		return f, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// Fits reports whether the file is for a node.
func (f File) Fits(node string) bool { return f.Nodes.Empty() || f.Nodes.Contains(node) }

// Read reads the names in the folder of a cluster directory; the folder need not exist. It ignores files whose names
// begin with a dot or end with ~, README and README.md. The error has every problem.
func Read(dir string) (Files, error) {
	entries, err := os.ReadDir(filepath.Join(dir, Folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var all Files
	var problems []error
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || name == "README" || name == "README.md" {
			continue
		}
		f, err := Parse(name)
		info, unknown := os.Stat(filepath.Join(dir, Folder, name)) // the target of a link
		switch {
		case err != nil:
		case unknown != nil:
			err = unknown
		case !info.Mode().IsRegular():
			err = fmt.Errorf("%s: it is not a regular file", name)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		f.Executable = info.Mode()&0o111 != 0
		all = append(all, f)
	}
	problems = append(problems, all.ties()...)
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %w", Folder, errors.Join(problems...))
	}
	return all, nil
}

// ties returns an error for each pair of files that fit a node equally well.
func (files Files) ties() (problems []error) {
	for i, f := range files {
		for _, g := range files[:i] {
			if f.Name != g.Name || f.Priority != g.Priority {
				continue
			}
			both := f.Nodes.Intersect(g.Nodes)
			switch {
			case f.Nodes.Empty():
				both = g.Nodes
			case g.Nodes.Empty():
				both = f.Nodes
			}
			if !both.Empty() || f.Nodes.Empty() {
				problems = append(problems, fmt.Errorf("%s and %s have the same priority for %s: change one of them",
					g.Source, f.Source, nodes(both)))
			}
		}
	}
	return problems
}

func nodes(set nodeset.NodeSet) string {
	if set.Empty() {
		return "all nodes"
	}
	return set.String()
}

// For returns the files that a node gets, by name.
func (files Files) For(node string) Files {
	best := map[string]File{}
	for _, f := range files {
		if other, there := best[f.Name]; f.Fits(node) && (!there || f.Priority > other.Priority) {
			best[f.Name] = f
		}
	}
	var chosen Files
	for _, f := range best {
		chosen = append(chosen, f)
	}
	slices.SortFunc(chosen, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return chosen
}

// Table lists the files that some nodes get.
type Table []Row

// Row is one file that one node gets.
type Row struct {
	Node string `json:"node"`
	File
	Path string `json:"path"` // below the folder of Slurm's configuration
}

// Of returns the files that nodes get.
func (files Files) Of(set nodeset.NodeSet) Table {
	table := Table{}
	for node := range set.All() {
		for _, f := range files.For(node) {
			table = append(table, Row{node, f, path.Join(Place, f.Name)})
		}
	}
	return table
}

// Write prints the table for people.
func (t Table) Write(w io.Writer) error {
	var b strings.Builder
	for _, r := range t {
		fmt.Fprintf(&b, "%s  %s  %s\n", r.Node, r.Path, r.Source)
	}
	if len(t) == 0 {
		fmt.Fprintf(&b, "None: no file in %s is for these nodes.\n", Folder)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
