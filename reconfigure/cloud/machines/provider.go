// Package machines has nodes that are machines which exist: a command each switches one on and off, and says whether it
// runs. Nothing is made, installed or removed. The client takes the place of a cloud and, by its shards, of Terraform:
// a node has an instance while the map of nodes has it in service.
//
// Every call may be repeated: the state of a machine is looked at before it is switched.
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
