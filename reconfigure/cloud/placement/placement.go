// Package placement assigns instances to the hosts of a table and sums up their room, for clouds that leave this to
// the cluster. It is pure.
package placement

import (
	"errors"
	"fmt"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Limits is what all instances together may take of a host or a resource pool; zero: no limit.
type Limits struct {
	Cores     int `yaml:"cores"`
	Memory    int `yaml:"memory"` // in MiB
	Instances int `yaml:"instances"`
}

// Check returns an error if a limit is negative.
func (l Limits) Check() error {
	if min(l.Cores, l.Memory, l.Instances) < 0 {
		return errors.New("a limit is negative")
	}
	return nil
}

// Use returns the limits as those of a reconfigure.Room, where -1 is no limit.
func (l Limits) Use() reconfigure.Use {
	limit := reconfigure.Use{Instances: l.Instances, Cores: l.Cores, RAM: l.Memory}
	for _, n := range []*int{&limit.Instances, &limit.Cores, &limit.RAM} {
		if *n == 0 {
			*n = -1
		}
	}
	return limit
}

// load returns how full a host is, as a fraction of its limits. For a host without limits it is the number of
// instances.
func (l Limits) load(taken reconfigure.Use) float64 {
	most := 0.0
	for _, part := range [][2]int{{taken.Cores, l.Cores}, {taken.RAM, l.Memory}, {taken.Instances, l.Instances}} {
		if part[1] > 0 {
			most = max(most, float64(part[0])/float64(part[1]))
		}
	}
	if l.Cores+l.Memory+l.Instances == 0 {
		const many = 1e6
		return float64(taken.Instances) / many
	}
	return most
}

// Flavor is what one instance gets.
type Flavor struct {
	Cores  int `yaml:"cores"`
	Memory int `yaml:"memory"` // in MiB
	Disk   int `yaml:"disk"`   // in GiB
}

// ID is made of the sizes of a flavor, so that a changed flavor has a new id. The root modules parse it.
func (f Flavor) ID() string { return fmt.Sprintf("%dx%dx%d", f.Cores, f.Memory, f.Disk) }

// Use returns the use by one instance.
func (f Flavor) Use() reconfigure.Use {
	return reconfigure.Use{Instances: 1, Cores: f.Cores, RAM: f.Memory}
}

// Flavors has the flavors of a cloud by name.
type Flavors map[string]Flavor

// Check returns an error that names all incomplete flavors.
func (f Flavors) Check() error {
	var problems []error
	for name, one := range f {
		if min(one.Cores, one.Memory, one.Disk) < 1 {
			problems = append(problems, fmt.Errorf("flavor %s needs cores, memory and disk", name))
		}
	}
	return errors.Join(problems...)
}

// Find returns a flavor by its name or id.
func (f Flavors) Find(name string) (Flavor, bool) {
	if one, ok := f[name]; ok {
		return one, true
	}
	for _, one := range f {
		if one.ID() == name {
			return one, true
		}
	}
	return Flavor{}, false
}

// Uses returns the use by one instance of each flavor, by id.
func (f Flavors) Uses() map[string]reconfigure.Use {
	uses := map[string]reconfigure.Use{}
	for _, one := range f {
		uses[one.ID()] = one.Use()
	}
	return uses
}

// UsesByAnyName returns Uses by id and by name.
func (f Flavors) UsesByAnyName() map[string]reconfigure.Use {
	uses := f.Uses()
	for name, one := range f {
		uses[name] = one.Use()
	}
	return uses
}

// Shard returns the shard of a host of the table. The first host has the default shard.
func Shard(host int) string {
	if host == 0 {
		return reconfigure.DefaultShard
	}
	return fmt.Sprintf("host-%d", host)
}

// Place returns the shard of the host of each declared node. The control node is on the first host. Each other node,
// in the order of the declaration, gets the host whose load, of cores or memory, is the lowest with it. Place depends
// only on its arguments, so a node keeps its host while others start and end. The hosts may have less than all nodes
// together need: the free room is checked when a node is made. The table must have a host.
func Place(table []Limits, flavors Flavors, c reconfigure.Cluster) map[string]string {
	places := map[string]string{}
	taken := make([]reconfigure.Use, len(table))
	put := func(node string, host int, takes reconfigure.Use) {
		places[node] = Shard(host)
		taken[host] = taken[host].Plus(takes)
	}
	f, _ := flavors.Find(c.Control.Flavor)
	put(c.Control.Name, 0, f.Use())
	for _, g := range c.Groups {
		f, _ := flavors.Find(g.Flavor)
		for i := 1; i <= g.Max; i++ {
			best := 0
			for host := range table {
				if table[host].load(taken[host].Plus(f.Use())) < table[best].load(taken[best].Plus(f.Use())) {
					best = host
				}
			}
			put(g.Node(i), best, f.Use())
		}
	}
	return places
}

// Room returns the room of all hosts together, and of each host by its shard. Used is the use by all instances of
// each shard.
func Room(table []Limits, flavors Flavors, used map[string]reconfigure.Use) reconfigure.Room {
	uses := flavors.Uses()
	all := reconfigure.Room{Flavors: uses, Shards: map[string]reconfigure.Room{}}
	for i, h := range table {
		own := reconfigure.Room{Limit: h.Use(), Used: used[Shard(i)], Flavors: uses}
		all.Shards[Shard(i)] = own
		all.Used = all.Used.Plus(own.Used)
		if i == 0 {
			all.Limit = own.Limit
			continue
		}
		all.Limit = reconfigure.Use{
			Instances: both(all.Limit.Instances, own.Limit.Instances), Cores: both(all.Limit.Cores, own.Limit.Cores),
			RAM: both(all.Limit.RAM, own.Limit.RAM),
		}
	}
	return all
}

// both returns the sum of two limits, where -1 is no limit.
func both(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}
