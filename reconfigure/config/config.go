package config

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// File is the declaration, relative to the cluster directory.
const File = "group_vars/all.yml"

// Load reads and checks the declaration of the cluster directory dir. Where the file can be read but must not be followed, the error is a *Problems
// and holds every problem; where it cannot be read, the error wraps that of package os. Neither gets better by trying again.
//
// Paths in the result are absolute: those of the file may begin with ~, the caller's home, or be relative to dir.
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

// parse is Load without the reading. It gives the zero Cluster with any problem.
func parse(dir string, data []byte) (reconfigure.Cluster, Problems) {
	var r report
	root, ok := document(&r, data)
	if !ok {
		return reconfigure.Cluster{}, r.sorted()
	}
	var d declaration
	d.schema(dir).read(&r, "", root)
	d.check(&r)
	if len(r.problems) > 0 {
		return reconfigure.Cluster{}, r.sorted()
	}
	return d.cluster(), nil
}
