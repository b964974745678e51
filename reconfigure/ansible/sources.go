package ansible

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// program returns the folder with ansible/ and slurmscripts/.
func (r *Runner) program() string { return cmp.Or(r.Program, r.Dir) }

// vars returns the variables of all playbooks.
func (r *Runner) vars() map[string]any {
	vars := map[string]any{}
	if r.Program != "" {
		vars["site_folder"] = filepath.Join(r.Dir, "ansible")
	}
	if r.Command != "" {
		vars["control_host_program"] = r.Command
	}
	return vars
}

// variables are the folders of variables that Ansible reads beside an inventory.
var variables = []string{"group_vars", "host_vars"}

// sources are the files with the variables of a cluster directory.
type sources struct {
	dir  string
	site bool // dir is a site folder
}

func (r *Runner) sources() sources { return sources{r.Dir, r.Program != ""} }

// paths returns the sources by their names beside the inventory, both relative.
func (s sources) paths() (map[string]string, error) {
	all := map[string]string{}
	if !s.site {
		for _, name := range variables {
			all[name] = name
		}
		return all, nil
	}
	var problems []error
	add := func(name, path string) {
		if other, there := all[name]; there {
			problems = append(problems, fmt.Errorf("%s and %s have the same place beside the inventory: rename or remove one "+
				"of them", other, path))
		}
		all[name] = path
	}
	if _, err := os.Stat(filepath.Join(s.dir, "all.yml")); err == nil {
		add(filepath.Join("group_vars", "all.yml"), "all.yml")
	}
	for _, name := range variables {
		for _, folder := range []string{name, filepath.Join("ansible", name)} {
			found, err := os.ReadDir(filepath.Join(s.dir, folder))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			for _, f := range found {
				add(filepath.Join(name, f.Name()), filepath.Join(folder, f.Name()))
			}
		}
	}
	return all, errors.Join(problems...)
}

// link makes links to the sources in a folder of the run.
func (s sources) link(run string) error {
	all, err := s.paths()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		link := filepath.Join(run, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(filepath.Join(s.dir, all[name]), link))
		if err != nil {
			return err
		}
	}
	return nil
}

// names replaces the paths of the links in a folder of the run by those of the sources.
func (s sources) names(run string) *strings.Replacer {
	all, _ := s.paths() // without an error, since there was a run
	var pairs []string
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(all))) { // a longer name comes first
		pairs = append(pairs, filepath.Join(run, name), all[name])
	}
	return strings.NewReplacer(pairs...)
}
