// Package machines is the cloud of existing machines: commands of the site switch a machine on and off, and report
// whether it runs. The package creates, installs and removes nothing. The client replaces a cloud and, by its shards,
// Terraform: a node has an instance while it is in service in the map of nodes.
//
// Every call may be retried: the client reads the state of a machine before it switches it.
package machines

import (
	"path/filepath"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Provider describes machines that exist.
func Provider() reconfigure.Provider {
	return reconfigure.Provider{
		Name:        "machines",
		Existing:    true,
		Credentials: func(dir string) string { return filepath.Join(dir, File) },
		Advice:      "put its machines into " + File + " in the cluster directory",
		Variables:   func(string) map[string]string { return nil },
		Places: func(dir string, c reconfigure.Cluster) (map[string]string, error) {
			t, err := readTable(dir, c.Cloud)
			if err != nil {
				return nil, err
			}
			return place(t, c)
		},
	}
}

// Check returns an error if the cloud of an access is missing in the file of machines. It runs no command.
func Check(access reconfigure.Access) error {
	_, err := readTable(access.Dir, access.Cloud)
	return err
}
