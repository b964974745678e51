// Package recovery decides how a cluster is rebuilt whose journal and Terraform states are lost and of which there is
// no backup: which cluster id it has, and what each node's entry in the map of nodes is, from what the cloud shows. It
// asks nobody and changes nothing.
package recovery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Facts are what the declaration and the cloud say.
type Facts struct {
	Cluster  reconfigure.Cluster
	Servers  map[string][]reconfigure.Server // the cluster's instances, by node
	Ports    map[string][]reconfigure.Port   // the cluster's ports, by node
	Commands reconfigure.CloudCommands
}

// Found is what can be imported.
type Found struct {
	Nodes   map[string]reconfigure.Spec   // the map of nodes
	Servers map[string]reconfigure.Server // the instances in it, with the ids of their ports, by node
	Ports   map[string]string             // ids of the kept ports of nodes without an instance, by node
	Left    []Left
}

// Left is something that cannot be imported.
type Left struct {
	What    string `json:"what"` // a node, an instance, a port or a resource
	Reason  string `json:"reason"`
	Command string `json:"command,omitempty"` // what an administrator types
}

// Compute returns the map of nodes. An instance that boots, has failed, or shares its name with another one is left, as
// is one whose port is not the cluster's; it stays in the cloud. An instance of a node that the declaration no longer
// has is imported too.
func Compute(f Facts) Found {
	found := Found{
		Nodes: map[string]reconfigure.Spec{}, Servers: map[string]reconfigure.Server{}, Ports: map[string]string{},
	}
	for _, node := range slices.Sorted(maps.Keys(f.Servers)) {
		spec, server, left := f.instance(node)
		if left != nil {
			found.Left = append(found.Left, *left)
			continue
		}
		found.Nodes[node], found.Servers[node] = spec, server
	}
	for _, node := range slices.Sorted(maps.Keys(f.Ports)) {
		if len(f.Servers[node]) > 0 || !f.Cluster.KeepsPort(node) {
			continue // a port that nothing keeps is a finding of a comparison
		}
		ports := f.Ports[node]
		if len(ports) > 1 {
			found.Left = append(found.Left, Left{node, "it has several ports and no instance: " + idsOf(ports, portID) +
				"; remove all but one, and recover again", f.Commands.RemovePort + "ID"})
			continue
		}
		group, _ := f.Cluster.GroupOf(node)
		found.Nodes[node] = reconfigure.Spec{
			Group: group.Name, NetworkID: ports[0].Network, Shard: f.Cluster.Shard(node),
		}
		found.Ports[node] = ports[0].ID
	}
	if control := f.Cluster.Control.Name; control != "" && len(f.Servers[control]) == 0 { // else the site runs it
		found.Left = append(found.Left, Left{
			control, "the control node has no instance; after `reconfigure continue` make it", "reconfigure deploy",
		})
	}
	return found
}

func portID(p reconfigure.Port) string     { return p.ID }
func serverID(s reconfigure.Server) string { return s.ID }
func idsOf[T any](all []T, id func(T) string) string {
	var ids []string
	for _, one := range all {
		ids = append(ids, id(one))
	}
	slices.Sort(ids)
	return strings.Join(ids, ", ")
}

// instance returns the entry and the instance of a node that has instances, or why there is none.
func (f Facts) instance(node string) (spec reconfigure.Spec, s reconfigure.Server, left *Left) {
	all := f.Servers[node]
	if len(all) > 1 {
		reason := fmt.Sprintf("it has several instances: %s; find out which one Slurm uses (`scontrol show node %s`, "+
			"NodeAddr), remove the others, and recover again", idsOf(all, serverID), node)
		return spec, s, &Left{node, reason, f.Commands.Remove + "ID"}
	}
	s = all[0]
	group, declared := f.Cluster.GroupOf(node)
	port, ours := portOf(f.Ports[node], s.ID)
	s.PortID = port.ID
	spec = reconfigure.Spec{
		Group: cmp.Or(s.Group, group.Name), ImageID: s.ImageID, FlavorID: s.FlavorID, NetworkID: port.Network,
		Shard: f.Cluster.Shard(node), Placement: reconfigure.Placement{Metadata: s.Metadata},
	}
	if s.Adopted {
		spec.SecurityGroups = port.SecurityGroups
	}
	leave := func(reason, begin string) (reconfigure.Spec, reconfigure.Server, *Left) {
		return reconfigure.Spec{}, s, &Left{fmt.Sprintf("%s (instance %s)", node, s.ID), reason, command(begin, s.ID)}
	}
	power := group.WhenIdle.Power()
	switch {
	case s.Active():
	case declared && power != "" && s.Status == (reconfigure.Spec{Power: power}).Status():
		spec.Power = power
	case s.Stopped():
		return leave(fmt.Sprintf("it is %s; start it, and recover again", s.Status), f.Commands.Start[s.Status])
	case s.Failed():
		return leave("it is in ERROR, so no job can run on it; remove it", f.Commands.Remove)
	default:
		return leave(fmt.Sprintf("it is %s; recover again when it is ACTIVE", s.Status), "")
	}
	const end = "; let its jobs end, and remove it"
	switch {
	case spec.ImageID == "":
		return leave("it boots from a volume, which the root module does not make"+end, f.Commands.Remove)
	case spec.FlavorID == "":
		return leave("the cloud does not tell its flavor"+end, f.Commands.Remove)
	case !ours:
		return leave("its port does not have the cluster's id"+end, f.Commands.Remove)
	}
	return spec, s, nil
}

// command returns a command for something with an id; empty if there is no such command.
func command(begin, id string) string {
	if begin == "" {
		return ""
	}
	return begin + id
}

func portOf(all []reconfigure.Port, server string) (reconfigure.Port, bool) {
	i := slices.IndexFunc(all, func(p reconfigure.Port) bool { return p.Server == server })
	if i < 0 {
		return reconfigure.Port{}, false
	}
	return all[i], true
}

// ClusterID returns the id of the cluster with a name, from the instances that have this name, by the ids in their
// metadata. asked is the id that the caller wants; empty: there must be only one.
func ClusterID(name string, found map[string][]reconfigure.Server, asked string) (string, error) {
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(id string) bool { return id == "" })
	switch {
	case asked != "" && slices.Contains(ids, asked):
		return asked, nil
	case asked != "":
		return "", fmt.Errorf("no instance of cluster %q has the id %q; there are %s", name, asked,
			cmp.Or(strings.Join(ids, ", "), "none with an id"))
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) > 1:
		var each []string
		for _, id := range ids {
			var nodes []string
			for _, s := range found[id] {
				nodes = append(nodes, s.Node)
			}
			each = append(each, fmt.Sprintf("%s (%s)", id, nodeset.Of(nodes...)))
		}
		return "", fmt.Errorf("the cloud has instances of %d clusters named %q: choose one by --cluster-id: %s", len(ids),
			name, strings.Join(each, ", "))
	case len(found[""]) > 0:
		return "", fmt.Errorf("the %d instances of cluster %q have no cluster id: an early version made them, and they "+
			"cannot be told from those of another cluster", len(found[""]), name)
	}
	return "", fmt.Errorf("the cloud has no instance of a cluster %q: there is nothing to recover; `reconfigure deploy` "+
		"makes a new cluster", name)
}
