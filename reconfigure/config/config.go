package config

import (
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// The declaration's path, relative to the cluster directory.
const (
	SiteFile = "all.yml"            // in a site folder
	File     = "group_vars/all.yml" // in a checkout
)

// Name returns the path of the declaration in the cluster directory dir, relative to it: SiteFile if it exists, else
// File.
func Name(dir string) string {
	if exists(filepath.Join(dir, SiteFile)) {
		return SiteFile
	}
	return File
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Load reads and checks the declaration in the cluster directory dir. If the declaration is wrong, the error is a
// *Problems with all problems; if the file cannot be read, the error wraps that of package os. A retry gives the same
// error.
//
// Paths in the result are absolute; in the file they may begin with ~, the caller's home directory, or be relative to
// dir.
func Load(dir string) (reconfigure.Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return reconfigure.Cluster{}, fmt.Errorf("find the cluster directory: %w", err)
	}
	if exists(filepath.Join(dir, SiteFile)) && exists(filepath.Join(dir, File)) {
		return reconfigure.Cluster{}, &Problems{{File: SiteFile, Line: 1, Message: "there is also " + File +
			", and only one of the two is read: remove one of them"}}
	}
	data, err := os.ReadFile(filepath.Join(dir, Name(dir)))
	if err != nil {
		return reconfigure.Cluster{}, fmt.Errorf("read the declaration of the cluster: %w", err)
	}
	cluster, problems := parse(dir, data)
	if len(problems) > 0 {
		return reconfigure.Cluster{}, &problems
	}
	return cluster, nil
}

// Check checks the text of a declaration for the cluster directory dir. It returns nil or a *Problems.
func Check(dir string, text []byte) error {
	if _, problems := parse(dir, text); len(problems) > 0 {
		return &problems
	}
	return nil
}

// parse is Load for the content of the file. With any problem, the Cluster is the zero value.
func parse(dir string, data []byte) (reconfigure.Cluster, Problems) {
	r := report{file: Name(dir)}
	root, ok := document(&r, data)
	if !ok {
		return reconfigure.Cluster{}, r.sorted()
	}
	var d declaration
	d.schema(dir).read(&r, "", root)
	d.control.line = lineOfKeys(root, "control_node")
	d.complete(&r, dir)
	d.check(&r)
	if len(r.problems) > 0 {
		return reconfigure.Cluster{}, r.sorted()
	}
	return d.cluster(), nil
}

// lineOfKeys returns the line of the keys below a key of the file; 0 if there are none.
func lineOfKeys(root *yaml.Node, key string) int {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if below := target(root.Content[i+1]); root.Content[i].Value == key && below.Kind == yaml.MappingNode {
			return below.Line
		}
	}
	return 0
}
