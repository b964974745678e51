package libvirt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// File is the file of the cluster directory with the hosts. The root module reads it too.
const File = "libvirt.yaml"

// Table is what a cloud of libvirt hosts consists of.
type Table struct {
	// Pool is the storage pool of images and disks. Every host has one of that name.
	Pool string `yaml:"pool"`
	// Type is the hypervisor: kvm, the default, or qemu, which emulates a processor.
	Type    string            `yaml:"type"`
	Hosts   []Host            `yaml:"hosts"`
	Flavors map[string]Flavor `yaml:"flavors"`
}

// Host is a host, with what instances may take of it; zero: no limit.
type Host struct {
	URI       string `yaml:"uri"`       // libvirt's, such as qemu:///system or qemu+ssh://root@host/system
	Cores     int    `yaml:"cores"`     // of all instances together
	Memory    int    `yaml:"memory"`    // in MiB
	Instances int    `yaml:"instances"` // their number
}

// Flavor is what one instance gets.
type Flavor struct {
	Cores  int `yaml:"cores"`
	Memory int `yaml:"memory"` // in MiB
	Disk   int `yaml:"disk"`   // in GiB
}

// id names what a flavor is, so that another meaning of its name is another flavor. The root module parses it.
func (f Flavor) id() string { return fmt.Sprintf("%dx%dx%d", f.Cores, f.Memory, f.Disk) }

func (f Flavor) use() reconfigure.Use {
	return reconfigure.Use{Instances: 1, Cores: f.Cores, RAM: f.Memory}
}

// readTable reads the table of a cloud in a cluster directory.
func readTable(dir, cloud string) (Table, error) {
	path := filepath.Join(dir, File)
	text, err := os.ReadFile(path)
	if err != nil {
		return Table{}, fmt.Errorf("find cloud %q: %w", cloud, err)
	}
	var file struct {
		Clouds map[string]Table `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return Table{}, fmt.Errorf("read %s: %w", path, err)
	}
	table, there := file.Clouds[cloud]
	if !there {
		return Table{}, fmt.Errorf("%s has no cloud %q", path, cloud)
	}
	if err := table.check(); err != nil {
		return Table{}, fmt.Errorf("%s: cloud %q: %w", path, cloud, err)
	}
	return table, nil
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
		if min(h.Cores, h.Memory, h.Instances) < 0 {
			problems = append(problems, fmt.Errorf("hosts[%d]: a limit is negative", i))
		}
	}
	for name, f := range t.Flavors {
		if min(f.Cores, f.Memory, f.Disk) < 1 {
			problems = append(problems, fmt.Errorf("flavor %s needs cores, memory and disk", name))
		}
	}
	return errors.Join(problems...)
}

// flavor returns a flavor by its name or id.
func (t Table) flavor(name string) (Flavor, bool) {
	if f, ok := t.Flavors[name]; ok {
		return f, true
	}
	for _, f := range t.Flavors {
		if f.id() == name {
			return f, true
		}
	}
	return Flavor{}, false
}

// shard returns the shard of a host: the first one has the default shard.
func shard(host int) string {
	if host == 0 {
		return reconfigure.DefaultShard
	}
	return fmt.Sprintf("host-%d", host)
}

// place returns the host of each declared node, by its shard: the control node is on the first one, and each other node
// where the fullest of cores and memory is the least full with it, in the order of the declaration. It depends on
// nothing else, so that a node has one host whatever runs. The hosts may have less than all nodes together take: what
// is free decides when a node is made.
func place(t Table, c reconfigure.Cluster) map[string]string {
	places := map[string]string{}
	taken := make([]reconfigure.Use, len(t.Hosts))
	put := func(node string, host int, takes reconfigure.Use) {
		places[node] = shard(host)
		taken[host] = taken[host].Plus(takes)
	}
	f, _ := t.flavor(c.Control.Flavor)
	put(c.Control.Name, 0, f.use())
	for _, g := range c.Groups {
		f, _ := t.flavor(g.Flavor)
		for i := 1; i <= g.Max; i++ {
			best := 0
			for host := range t.Hosts {
				if t.Hosts[host].load(taken[host].Plus(f.use())) < t.Hosts[best].load(taken[best].Plus(f.use())) {
					best = host
				}
			}
			put(g.Node(i), best, f.use())
		}
	}
	return places
}

// load is how full a host is. One without limits counts its instances.
func (h Host) load(taken reconfigure.Use) float64 {
	most := 0.0
	for _, part := range [][2]int{{taken.Cores, h.Cores}, {taken.RAM, h.Memory}, {taken.Instances, h.Instances}} {
		if part[1] > 0 {
			most = max(most, float64(part[0])/float64(part[1]))
		}
	}
	if h.Cores+h.Memory+h.Instances == 0 {
		const many = 1e6
		return float64(taken.Instances) / many
	}
	return most
}
