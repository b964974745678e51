// Package vsphere asks a vCenter directly, in addition to Terraform: for the ids of names, the instances of the
// cluster, their addresses and their host keys. A cloud is an entry of vsphere.yaml in the cluster directory. The
// package creates nothing, and removes only what Terraform does not know.
//
// Every call may be retried.
package vsphere

import (
	"path/filepath"
	"regexp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/placement"
)

// Provider describes vSphere. Its nodes have no ports. They are not stopped, since Terraform's provider has no
// attribute for that. Instances of an interrupted Terraform are made anew, not adopted.
func Provider() reconfigure.Provider {
	return reconfigure.Provider{
		Name:   "vsphere",
		Plugin: reconfigure.Plugin{Source: "hashicorp/vsphere", Oldest: "1.24.3", Tested: []string{"1.24.3"}},
		Module: reconfigure.RootModule{
			Instance: "vsphere_virtual_machine", Replace: "terraform_data", Read: made, Class: providerClass,
			Attributes:      []string{"extra_config", "default_ip_address", "guest_ip_addresses"},
			RefreshRemovals: true,
			Unset: []string{
				"VSPHERE_SERVER", "VSPHERE_VCENTER", "VSPHERE_USER", "VSPHERE_PASSWORD", "VSPHERE_ALLOW_UNVERIFIED_SSL",
				"VSPHERE_PERSIST_SESSION",
			},
		},
		Credentials: func(dir string) string { return filepath.Join(dir, File) },
		Advice:      "put its vCenter into " + File + " in the cluster directory",
		Variables:   variables,
		Commands: reconfigure.CloudCommands{
			Remove: "govc vm.destroy -vm.uuid ",
			Start: map[reconfigure.ServerStatus]string{
				reconfigure.ServerStopped:   "govc vm.power -on -vm.uuid ",
				reconfigure.ServerSuspended: "govc vm.power -on -vm.uuid ",
			},
		},
		Places: func(dir string, c reconfigure.Cluster) (map[string]string, error) {
			t, err := readTable(dir, c.Cloud)
			if err != nil || len(t.Hosts) == 0 {
				return nil, err
			}
			return placement.Place(t.limits(), t.Flavors, c), nil
		},
	}
}

// Check returns an error if the cloud of an access is missing in its file. It does not ask vCenter.
func Check(access reconfigure.Access) error {
	_, err := readTable(access.Dir, access.Cloud)
	return err
}

// variables makes Terraform's provider trust the certificates in a cluster directory. The provider has no setting for
// such a file, but Go's TLS reads this variable (package crypto/x509, SystemCertPool).
func variables(dir string) map[string]string {
	if file := trusted(dir); file != "" {
		return map[string]string{"SSL_CERT_FILE": file}
	}
	return nil
}

// The settings of a virtual machine that the root module writes. The guest can neither read nor change them, since
// their names do not begin with "guestinfo.".
const (
	clusterKey   = "eiffel.cluster"
	clusterIDKey = "eiffel.cluster_id"
	groupKey     = "eiffel.group"
	nodeKey      = "eiffel.node"
	imageKey     = "eiffel.image"
	flavorKey    = "eiffel.flavor"
	networkKey   = "eiffel.network"
)

// saidKey is the setting in which a guest publishes its host keys, in base64: the root module makes cloud-init do so.
const saidKey = "guestinfo.eiffel_host_keys"

// made reads the attributes of a virtual machine in Terraform's state.
func made(attributes map[string]any) reconfigure.Made {
	marks, _ := attributes["extra_config"].(map[string]any)
	mark := func(key string) string {
		text, _ := marks[key].(string)
		return text
	}
	read := reconfigure.Made{Spec: reconfigure.Spec{
		Group: mark(groupKey), ImageID: mark(imageKey), FlavorID: mark(flavorKey), NetworkID: mark(networkKey),
	}}
	addresses, _ := attributes["guest_ip_addresses"].([]any)
	read.Address = cloud.FirstIPv4(append([]any{attributes["default_ip_address"]}, addresses...)...)
	return read
}

// providerClass returns the class of an error of vCenter or of Terraform's provider.
func providerClass(words string) reconfigure.Class {
	return cloud.ClassOf(words, []cloud.Words{
		{Words: full, Class: reconfigure.ClassCapacity}, {Words: silent, Class: reconfigure.ClassBoot},
		{Words: missing, Class: reconfigure.ClassMissing}, {Words: unreached, Class: reconfigure.ClassCloud},
	})
}

// Messages of vCenter (vSphere Web Services API, the faults' default messages) and of Terraform's provider for it.
var (
	full = regexp.MustCompile(`(?i)insufficient (resources|\w+ resources|disk space)|no host is compatible|` +
		`not enough space|NoCompatibleHost`)
	silent  = regexp.MustCompile(`(?i)timeout waiting for an available IP address`)
	missing = regexp.MustCompile(`(?i)cannot locate virtual machine or template|` +
		`(datastore|datacenter|resource pool|network|host|folder) '[^']*' not found|` +
		`could not find (network|resource pool) (with )?ID`)
	unreached = regexp.MustCompile(`(?i)error setting up new vSphere SOAP client|dial tcp|connection (refused|reset)|` +
		`the session is not authenticated|x509:`)
)
