package libvirt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/placement"
)

// File is the file of the cluster directory with the hosts. The root module reads it too.
const File = "libvirt.yaml"

// Table describes a cloud of libvirt hosts.
type Table struct {
	// Pool is the storage pool of images and disks. Every host has one of that name.
	Pool string `yaml:"pool"`
	// Type is the hypervisor: kvm, the default, or qemu, which emulates a processor.
	Type    string            `yaml:"type"`
	Hosts   []Host            `yaml:"hosts"`
	Flavors placement.Flavors `yaml:"flavors"`
}

// Host is a host, with the limits of its instances.
type Host struct {
	URI              string `yaml:"uri"` // libvirt's URI, such as qemu:///system or qemu+ssh://root@host/system
	placement.Limits `yaml:",inline"`
}

// limits returns the limits of the instances on each host.
func (t Table) limits() []placement.Limits {
	all := make([]placement.Limits, len(t.Hosts))
	for i, h := range t.Hosts {
		all[i] = h.Limits
	}
	return all
}

// readTable reads the table of a cloud in a cluster directory.
func readTable(dir, name string) (Table, error) {
	return cloud.Entry(dir, File, name, func(t *Table) error { return t.check() })
}

func (t Table) check() error {
	var problems []error
	if t.Pool == "" {
		problems = append(problems, errors.New("pool is missing"))
	}
	if len(t.Hosts) == 0 {
		problems = append(problems, errors.New("hosts is empty"))
	}
	if !slices.Contains([]string{"", "kvm", "qemu"}, t.Type) {
		problems = append(problems, fmt.Errorf("type %q is neither kvm nor qemu", t.Type))
	}
	for i, h := range t.Hosts {
		if _, err := parseURI(h.URI); err != nil {
			problems = append(problems, fmt.Errorf("hosts[%d]: %w", i, err))
		}
		if err := h.Check(); err != nil {
			problems = append(problems, fmt.Errorf("hosts[%d]: %w", i, err))
		}
	}
	return errors.Join(append(problems, t.Flavors.Check())...)
}
