package machines

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud"
)

// File is the file of the cluster directory with the machines.
const File = "machines.yaml"

// Table describes the machines of a cloud.
type Table struct {
	// Flavors has the kinds of machines, by name.
	Flavors map[string]Flavor `yaml:"flavors"`
	// Addresses has the IPv4 addresses of nodes, by name. The names of all other nodes are looked up in DNS.
	Addresses map[string]netip.Addr `yaml:"addresses"`
	// Shutdown is the command that the login user runs on a node to end its services; empty: there is none.
	Shutdown        []string `yaml:"shutdown"`
	ShutdownSeconds int      `yaml:"shutdown_seconds"` // until the machine is off after Shutdown
	CommandSeconds  int      `yaml:"command_seconds"`  // for one command
	SwitchSeconds   int      `yaml:"switch_seconds"`   // until the machine has changed its state
	Parallelism     int      `yaml:"parallelism"`      // the maximum number of commands at a time
}

// Flavor is a kind of machines: how they are switched, and what they have.
type Flavor struct {
	// On, Off and State are programs on the control host with their arguments, without a shell. {node} and {address}
	// stand for the machine. Machines without commands count as always on.
	On     []string `yaml:"on"`
	Off    []string `yaml:"off"`
	State  []string `yaml:"state"`
	Cores  int      `yaml:"cores"`  // zero: unknown
	Memory int      `yaml:"memory"` // in MiB; zero: unknown
}

// switched reports whether the machines have commands.
func (f Flavor) switched() bool { return len(f.State) > 0 }

// seconds converts a number of seconds in the table.
func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// defaults returns a table with the default values.
func defaults() Table {
	return Table{
		Shutdown:        []string{"sudo", "-n", "systemctl", "--no-block", "poweroff"},
		ShutdownSeconds: 90, CommandSeconds: 30, SwitchSeconds: 60, Parallelism: 20,
	}
}

// readTable reads the table of a cloud in a cluster directory.
func readTable(dir, name string) (Table, error) {
	var table Table
	_, err := cloud.Entry(dir, File, name, func(node *yaml.Node) (err error) {
		table, err = parse(node)
		return err
	})
	if err != nil {
		return Table{}, err
	}
	return table, nil
}

// parse reads a table. An unknown key is an error, since a misspelt one would leave a machine on.
func parse(node *yaml.Node) (Table, error) {
	text, err := yaml.Marshal(node)
	if err != nil {
		return Table{}, err
	}
	table := defaults()
	strict := yaml.NewDecoder(bytes.NewReader(text))
	strict.KnownFields(true)
	if err := strict.Decode(&table); err != nil {
		return Table{}, err
	}
	return table, table.check()
}

func (t Table) check() error {
	var problems []error
	if len(t.Flavors) == 0 {
		problems = append(problems, errors.New("flavors is empty"))
	}
	for name, f := range t.Flavors {
		given := 0
		for _, command := range [][]string{f.On, f.Off, f.State} {
			if len(command) > 0 && command[0] != "" {
				given++
			}
		}
		if given != 0 && given != 3 {
			problems = append(problems, fmt.Errorf("flavor %s: set all of on, off and state, or none", name))
		}
		if min(f.Cores, f.Memory) < 0 {
			problems = append(problems, fmt.Errorf("flavor %s: cores or memory is negative", name))
		}
	}
	for node, address := range t.Addresses {
		if !address.Is4() {
			problems = append(problems, fmt.Errorf("addresses: %s: %s is not an IPv4 address", node, address))
		}
	}
	if min(t.ShutdownSeconds, t.CommandSeconds, t.SwitchSeconds, t.Parallelism) < 1 {
		problems = append(problems, errors.New("a number of seconds or parallelism is less than 1"))
	}
	return errors.Join(problems...)
}

// place returns the shard of each declared node. Each node has its own shard, so that a slow machine delays no other.
// place also checks the declaration of the machines.
func place(t Table, c reconfigure.Cluster) (map[string]string, error) {
	problems := []error{source("control_node", c.Control.Source)}
	places := map[string]string{c.Control.Name: reconfigure.DefaultShard}
	for _, g := range c.Groups {
		problems = append(problems, source("node group "+g.Name, g.Source))
		flavor, known := t.Flavors[g.Flavor]
		if known && !flavor.switched() && g.Min < g.Max {
			problems = append(problems, fmt.Errorf("node group %s: machines of flavor %s have no commands in %s, so "+
				"they are always on: set min_nodes to %d, as max_nodes", g.Name, g.Flavor, File, g.Max))
		}
		for node := range g.Nodes().All() {
			places[node] = node
		}
	}
	return places, errors.Join(problems...)
}

// existing is the image and the network of all machines.
const existing = "existing"

// source returns an error if an image or a network is declared: the machines have their own.
func source(whose string, s reconfigure.Source) error {
	for _, part := range [][2]string{{"image", s.Image}, {"network", s.Network}} {
		if part[1] != existing {
			return fmt.Errorf("%s: %s: %s cannot be given to machines that exist: write %s", whose, part[0], part[1],
				existing)
		}
	}
	return nil
}

// command fills in the places of a machine.
func command(argv []string, node, address string) []string {
	filled := make([]string, len(argv))
	for i, word := range argv {
		filled[i] = strings.NewReplacer("{node}", node, "{address}", address).Replace(word)
	}
	return filled
}
