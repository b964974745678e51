package config

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// File is the path of the declaration, relative to the cluster directory.
const File = "group_vars/all.yml"

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
	data, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		return reconfigure.Cluster{}, fmt.Errorf("read the declaration of the cluster: %w", err)
	}
	cluster, problems := parse(dir, data)
	if len(problems) > 0 {
		return reconfigure.Cluster{}, &problems
	}
	return cluster, nil
}

// parse is Load for the content of the file. With any problem, the Cluster is the zero value.
func parse(dir string, data []byte) (reconfigure.Cluster, Problems) {
	var r report
	root, ok := document(&r, data)
	if !ok {
		return reconfigure.Cluster{}, r.sorted()
	}
	var d declaration
	d.schema(dir).read(&r, "", root)
	d.complete(&r, dir)
	d.check(&r)
	if len(r.problems) > 0 {
		return reconfigure.Cluster{}, r.sorted()
	}
	return d.cluster(), nil
}
