// Package libvirt asks hosts with libvirt directly, in addition to Terraform: for the ids of names, the instances of
// the cluster, their addresses and their console logs. A cloud is a table of hosts in the cluster directory. The
// package creates nothing, and removes only what Terraform does not know.
//
// Every call may be retried.
package libvirt

import (
	"encoding/json"
	"path/filepath"
	"regexp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/placement"
)

// domainType is the type of a node's instance in the root module.
const domainType = "libvirt_domain"

// Provider describes hosts with libvirt. Their nodes have no ports, and instances of an interrupted Terraform are
// made anew, not adopted.
func Provider() reconfigure.Provider {
	return reconfigure.Provider{
		Name:   "libvirt",
		Plugin: reconfigure.Plugin{Source: "dmacvicar/libvirt", Oldest: "0.8.3", Tested: []string{"0.8.3"}},
		Module: reconfigure.RootModule{
			Instance: domainType, Replace: "terraform_data", Read: made, Class: providerClass,
			Attributes:      []string{"description", "network_interface"},
			RefreshRemovals: true,
			Unset:           []string{"LIBVIRT_DEFAULT_URI"},
		},
		Credentials: func(dir string) string { return filepath.Join(dir, File) },
		Advice:      "put its hosts into " + File + " in the cluster directory",
		Variables:   func(string) map[string]string { return nil },
		Commands: reconfigure.CloudCommands{
			Remove: "virsh undefine --remove-all-storage ",
			Start: map[reconfigure.ServerStatus]string{
				reconfigure.ServerStopped: "virsh start ", reconfigure.ServerPaused: "virsh resume ",
			},
		},
		Places: func(dir string, c reconfigure.Cluster) (map[string]string, error) {
			t, err := readTable(dir, c.Cloud)
			if err != nil {
				return nil, err
			}
			return placement.Place(t.limits(), t.Flavors, c), nil
		},
	}
}

// Check returns an error if the cloud of an access is missing in the file of hosts. It does not ask the hosts.
func Check(access reconfigure.Access) error {
	_, err := readTable(access.Dir, access.Cloud)
	return err
}

// mark is the description of a domain. The root module writes it.
type mark struct {
	Cluster   string `json:"eiffel_cluster"`
	ClusterID string `json:"eiffel_cluster_id"`
	Group     string `json:"eiffel_group"`
	Node      string `json:"node"`
	Image     string `json:"image"`
	Flavor    string `json:"flavor"`
	Network   string `json:"network"`
	Created   string `json:"created"` // RFC 3339
}

// parseMark returns the mark of a description; the zero value if it has none.
func parseMark(description string) mark {
	var m mark
	if json.Unmarshal([]byte(description), &m) != nil {
		return mark{}
	}
	return m
}

// made reads the attributes of a domain in Terraform's state.
func made(attributes map[string]any) reconfigure.Made {
	description, _ := attributes["description"].(string)
	m := parseMark(description)
	read := reconfigure.Made{Spec: reconfigure.Spec{
		Group: m.Group, ImageID: m.Image, FlavorID: m.Flavor, NetworkID: m.Network,
	}}
	interfaces, _ := attributes["network_interface"].([]any)
	if len(interfaces) == 0 {
		return read
	}
	first, _ := interfaces[0].(map[string]any)
	addresses, _ := first["addresses"].([]any)
	read.Address = cloud.FirstIPv4(addresses...)
	return read
}

// providerClass returns the class of an error of Terraform's provider.
func providerClass(words string) reconfigure.Class {
	return cloud.ClassOf(words, []cloud.Words{
		{Words: full, Class: reconfigure.ClassCapacity}, {Words: silent, Class: reconfigure.ClassBoot},
		{Words: missing, Class: reconfigure.ClassMissing}, {Words: unreached, Class: reconfigure.ClassCloud},
	})
}

// Messages of libvirt and of Terraform's provider for it.
var (
	full    = regexp.MustCompile(`(?i)cannot allocate memory|no space left on device|no free address`)
	silent  = regexp.MustCompile(`(?i)couldn't retrieve IP address|timeout while waiting for state`)
	missing = regexp.MustCompile(`(?i)storage (vol(ume)?|pool) not found|can't find (base )?(volume|storage pool)|` +
		`can't retrieve (network|volume|base volume|storage pool)`)
	unreached = regexp.MustCompile(`(?i)failed to (connect|dial)|can't connect to|connection (refused|reset)`)
)
