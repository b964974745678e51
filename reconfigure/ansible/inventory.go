package ansible

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sitefiles"
)

// The groups of the inventory. There is one more for each node group, with the name groupPrefix + its name.
const (
	groupCluster    = "cluster" // all nodes
	groupControl    = reconfigure.ControlGroup
	groupCompute    = "compute"
	groupPersistent = "persistent"
	groupApart      = "apart" // nodes that are excluded from all plays
	groupPrefix     = "group_"
)

// Inventory returns the inventory as JSON, as `ansible-inventory --list` prints it (Ansible's developer guide,
// "Developing dynamic inventory"). It depends only on its arguments. It leaves out instances without an address and
// those of undeclared nodes. An instance without an ID is the kept port of a node that has no instance: its address
// is in the inventory, but it is not a host. Nor is a stopped instance.
func Inventory(
	c reconfigure.Cluster, instances map[string]reconfigure.Instance, site sitefiles.Files,
) ([]byte, error) {
	return newInventory(c, instances, site).list()
}

// inventory is the inventory before it is written in one of its two forms.
type inventory struct {
	hosts  map[string]hostVars
	groups map[string]group
}

type hostVars struct {
	Address string `json:"ansible_host"`
	User    string `json:"ansible_user"`
	Key     string `json:"ansible_ssh_private_key_file"`
	Group   string `json:"node_group"`
	// Site has the site's files for the node, in the form that the module converge takes.
	Site []siteFile `json:"site_files,omitempty"`
	// Health has the files of the node's health checks, in the same form, and HealthProgram the program that runs them.
	Health        []siteFile `json:"health_files,omitempty"`
	HealthProgram string     `json:"health_program,omitempty"`
	HealthSeconds int        `json:"health_seconds,omitempty"`
}

// siteFile is a file for the node; its fields are Ansible templates.
type siteFile struct {
	Path   string `json:"path"`
	Mode   string `json:"mode"`
	Base64 string `json:"base64"` // of its content
}

// siteFiles returns the site's files for a node. Their names have no characters that are special in a template.
func siteFiles(site sitefiles.Files, node string) []siteFile {
	var all []siteFile
	for _, f := range site.For(node) {
		mode := map[bool]string{false: "0644", true: "0755"}[f.Executable]
		all = append(all, siteFile{"{{ slurm_directory }}/" + sitefiles.Place + "/" + f.Name, mode,
			"{{ lookup('ansible.builtin.file', site_folder | default(playbook_dir) ~ '/files/site/" + f.Source +
				"', rstrip=false) | b64encode }}"})
	}
	return all
}

type group struct {
	Hosts    []string       `json:"hosts"`
	Children []string       `json:"children,omitempty"`
	Vars     map[string]any `json:"vars,omitempty"`
}

func newInventory(
	c reconfigure.Cluster, instances map[string]reconfigure.Instance, site sitefiles.Files,
) inventory {
	inv := inventory{hosts: map[string]hostVars{}, groups: map[string]group{}}
	addresses := map[string]string{}
	add := func(nodes nodeset.NodeSet, nodeGroup string) group {
		g := group{Hosts: []string{}}
		for node := range nodes.All() {
			address := instances[node].Address
			if address == "" {
				continue
			}
			if nodeGroup != reconfigure.ControlGroup || !c.Attached() {
				addresses[node] = address
			}
			if instances[node].ID == "" || instances[node].Made.Stopped() {
				continue
			}
			g.Hosts = append(g.Hosts, node)
			inv.hosts[node] = hostVars{Address: address, User: c.LoginUser, Key: c.PrivateKeyFile, Group: nodeGroup}
			if nodeGroup == reconfigure.ControlGroup {
				inv.hosts[node] = hostVars{Address: address, User: c.ControlUser(), Key: c.PrivateKeyFile, Group: nodeGroup}
			}
			if own := inv.hosts[node]; nodeGroup != reconfigure.ControlGroup {
				own.Site = siteFiles(site, node)
				own.Health, own.HealthProgram, own.HealthSeconds = healthFiles(c, node)
				inv.hosts[node] = own
			}
		}
		return g
	}
	inv.groups[groupControl] = add(nodeset.Of(c.Control.Name), reconfigure.ControlGroup)
	compute := group{Hosts: []string{}}
	persistent := group{Hosts: []string{}}
	for _, g := range c.Groups {
		name := groupPrefix + g.Name
		inv.groups[name] = add(g.Nodes(), g.Name)
		compute.Children = append(compute.Children, name)
		there := nodeset.Of(inv.groups[name].Hosts...)
		persistent.Hosts = append(persistent.Hosts, there.Intersect(g.Persistent()).Names()...)
	}
	inv.groups[groupCompute] = compute
	inv.groups[groupPersistent] = persistent
	all := []string{groupControl, groupCompute}
	inv.groups[groupCluster] = group{Hosts: []string{}, Children: all, Vars: map[string]any{
		"ansible_ssh_common_args": sshArgs(c.Settings.StateDir),
		"given_file":              givenFile(c.Settings.StateDir),
		"slurm_key_file":          c.Settings.SlurmKeyFile(),
		// For a declaration without these keys of control_host.
		"control_host_user":      c.Settings.ControlUser,
		"control_host_directory": c.Settings.Directory,
		"hardware_file":          hardwareFile(c.Settings.StateDir),
		// One variable has all addresses: reading the variables of each host takes Ansible a time that grows with the
		// square of the number of hosts.
		"node_addresses": addresses,
	}}
	return inv
}

// givenFile has what compute nodes get from the control node: the munge key and slurmctld's running configuration.
// The playbooks write it.
func givenFile(stateDir string) string { return filepath.Join(stateDir, "ansible", "given.json") }

// hardwareFile has the hardware in slurm.conf of the nodes that do not declare it, by node group.
func hardwareFile(stateDir string) string { return filepath.Join(stateDir, "ansible", "hardware.json") }

// sshArgs makes ssh accept only the host keys that `reconfigure` has stored, and not write to their file, which would
// bypass our lock. There are two levels of quotes, since both Ansible and ssh split the text at spaces.
func sshArgs(stateDir string) string {
	const args = `-o 'UserKnownHostsFile="%s"' -o GlobalKnownHostsFile=/dev/null ` +
		`-o StrictHostKeyChecking=yes -o UpdateHostKeys=no`
	return fmt.Sprintf(args, filepath.Join(stateDir, "known_hosts"))
}

// only returns the inventory with only these nodes as hosts. It keeps all groups and the addresses of all nodes.
func (inv inventory) only(nodes nodeset.NodeSet) inventory {
	less := inventory{hosts: map[string]hostVars{}, groups: map[string]group{}}
	for name, g := range inv.groups {
		g.Hosts = slices.DeleteFunc(slices.Clone(g.Hosts), func(host string) bool { return !nodes.Contains(host) })
		for _, host := range g.Hosts {
			less.hosts[host] = inv.hosts[host]
		}
		less.groups[name] = g
	}
	return less
}

// keepApart adds the group of the nodes that are excluded from all plays. They also stay in their other groups, since
// other nodes get their addresses. It reports whether there are any.
func (inv inventory) keepApart(nodes nodeset.NodeSet) bool {
	there := nodes.Where(func(node string) bool { _, ok := inv.hosts[node]; return ok })
	if there.Empty() {
		return false
	}
	inv.groups[groupApart] = group{Hosts: there.Names()}
	return true
}

// absent returns a failure for each node that cannot be configured because it, or the control node, is not in the
// inventory.
func (inv inventory) absent(c reconfigure.Cluster, nodes nodeset.NodeSet) reconfigure.Failures {
	failures := reconfigure.Failures{}
	_, control := inv.hosts[c.Control.Name]
	for node := range nodes.All() {
		if _, ok := inv.hosts[node]; !ok {
			failures[node] = errors.New("not configured: it has no instance with an address")
		} else if !control {
			failures[node] = noResult(
				fmt.Errorf("not configured: the control node %s has no instance with an address", c.Control.Name))
		}
	}
	return failures
}

// list returns the form of an inventory program's output.
func (inv inventory) list() ([]byte, error) {
	all := map[string]any{"_meta": map[string]any{"hostvars": inv.hosts}}
	for name, g := range inv.groups {
		all[name] = g
	}
	return marshal(all)
}

// static returns the form of an inventory file.
func (inv inventory) static() ([]byte, error) {
	all := map[string]any{}
	for name, g := range inv.groups {
		hosts := map[string]hostVars{}
		for _, host := range g.Hosts {
			hosts[host] = inv.hosts[host]
		}
		children := map[string]struct{}{}
		for _, child := range g.Children {
			children[child] = struct{}{}
		}
		all[name] = map[string]any{"hosts": hosts, "children": children, "vars": g.Vars}
	}
	return marshal(all)
}

func marshal(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the inventory as JSON: %w", err)
	}
	return append(text, '\n'), nil
}
