package vsphere

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/placement"
)

// The files of the cluster directory. The root module reads the first one too.
const (
	File = "vsphere.yaml"
	// Certificates is an optional file with certificates in PEM: those of further trusted authorities, in addition to
	// the system's, or that of vCenter itself.
	Certificates = "vsphere.pem"
)

// Table is an entry of a cloud.
type Table struct {
	Server   string `yaml:"server"` // HOST or HOST:PORT
	User     string `yaml:"user"`
	Password string `yaml:"password"`
	// PasswordFile is read if there is no password; relative to the cluster directory.
	PasswordFile string `yaml:"password_file"`
	Insecure     bool   `yaml:"insecure"` // any certificate is trusted

	Datacenter   string `yaml:"datacenter"`
	Datastore    string `yaml:"datastore"`
	ResourcePool string `yaml:"resource_pool"` // for a whole DRS cluster: CLUSTER/Resources
	// the folder of virtual machines, below the datacenter's; empty: the datacenter's
	Folder string `yaml:"folder"`
	Clone  string `yaml:"clone"` // full, the default, or linked

	// Limits of the instances in the resource pool, if there are no hosts.
	placement.Limits `yaml:",inline"`
	// Hosts are where nodes are placed; none: vCenter places them in the resource pool.
	Hosts   []Host            `yaml:"hosts"`
	Flavors placement.Flavors `yaml:"flavors"`
}

// Host is a host, with the limits of its instances.
type Host struct {
	Name             string `yaml:"name"` // its name or path in vCenter's inventory
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

// readTable reads the entry of a cloud in a cluster directory, with its password.
func readTable(dir, name string) (Table, error) {
	return cloud.Entry(dir, File, name, func(t *Table) error {
		err := t.check()
		if err != nil || t.Password != "" {
			return err
		}
		if t.Password, err = readPassword(dir, t.PasswordFile); err != nil {
			return fmt.Errorf("password_file: %w", err)
		}
		return nil
	})
}

// readPassword reads a password file. Other users must not have access to it.
func readPassword(dir, file string) (string, error) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("%s has mode %04o; make it 0600", file, mode)
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

func (t Table) check() error {
	var problems []error
	for _, setting := range []struct{ name, is string }{
		{"server", t.Server}, {"user", t.User}, {"password or password_file", t.Password + t.PasswordFile},
		{"datacenter", t.Datacenter}, {"datastore", t.Datastore},
	} {
		if setting.is == "" {
			problems = append(problems, fmt.Errorf("%s is missing", setting.name))
		}
	}
	if t.ResourcePool == "" && len(t.Hosts) == 0 {
		problems = append(problems, errors.New("resource_pool or hosts is missing"))
	}
	if t.Clone == "instant" {
		problems = append(problems, errors.New("clone: instant is not supported: Terraform's provider makes no "+
			"instant clones; make it linked"))
	} else if !slices.Contains([]string{"", "full", "linked"}, t.Clone) {
		problems = append(problems, fmt.Errorf("clone %q is neither full nor linked", t.Clone))
	}
	if t.Limits != (placement.Limits{}) && len(t.Hosts) > 0 {
		problems = append(problems, errors.New("set limits for the hosts or for the resource pool, not for both"))
	}
	problems = append(problems, t.Check())
	for i, h := range t.Hosts {
		if h.Name == "" {
			problems = append(problems, fmt.Errorf("hosts[%d]: name is missing", i))
		}
		if err := h.Check(); err != nil {
			problems = append(problems, fmt.Errorf("hosts[%d]: %w", i, err))
		}
	}
	return errors.Join(append(problems, t.Flavors.Check())...)
}

// trusted returns the file of certificates of a cluster directory; empty if it has none.
func trusted(dir string) string {
	file := filepath.Join(dir, Certificates)
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}
