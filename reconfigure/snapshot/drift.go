package snapshot

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Drift is one way in which a node differs from the declaration, or in which the sources differ about it.
type Drift string

// The drifts. The words are stable for programs.
const (
	DriftImage      Drift = "image" // its instance has another image; likewise below
	DriftFlavor     Drift = "flavor"
	DriftNetwork    Drift = "network"
	DriftGroup      Drift = "group"      // its instance was made for another node group
	DriftPlacement  Drift = "placement"  // its instance is in another zone or server group, or had other scheduler hints
	DriftMissing    Drift = "missing"    // it must always have an instance, but has none
	DriftTainted    Drift = "tainted"    // its instance is tainted in Terraform's state, or only a part of it exists
	DriftLost       Drift = "lost"       // Terraform's state has an instance that the cloud does not have
	DriftDoubled    Drift = "doubled"    // the cloud has several instances with its name
	DriftUndeclared Drift = "undeclared" // it has an instance, but no node group declares it
	DriftAddress    Drift = "address"    // Terraform's state or Slurm has another address than the cloud
	DriftStopped    Drift = "stopped"    // its instance is shut off, paused or suspended without a request
	DriftAge        Drift = "age"        // its instance is older than the maximum of its group
	DriftError      Drift = "error"      // its instance is in ERROR
)

// Differences lists the differences between two Specs, in the order of the drifts. It ignores the shard.
func Differences(is, wanted reconfigure.Spec) []Drift {
	var all []Drift
	for _, part := range []struct {
		drift      Drift
		is, wanted string
	}{
		{DriftImage, is.ImageID, wanted.ImageID},
		{DriftFlavor, is.FlavorID, wanted.FlavorID},
		{DriftNetwork, is.NetworkID, wanted.NetworkID},
		{DriftGroup, is.Group, wanted.Group},
	} {
		if part.is != part.wanted {
			all = append(all, part.drift)
		}
	}
	if !wanted.Admits(is.Placement) {
		all = append(all, DriftPlacement)
	}
	return all
}

// Declared returns the group of a node and its declared image, flavor and network; false if no node group declares it.
func Declared(c reconfigure.Cluster, node string) (group string, source reconfigure.Source, ok bool) {
	if node == c.Control.Name {
		return reconfigure.ControlGroup, c.Control.Source, true
	}
	g, ok := c.GroupOf(node)
	return g.Name, g.Source, ok
}

// Always reports whether a node must have an instance even while Slurm does not need it: the control node, and
// persistent nodes.
func Always(c reconfigure.Cluster, node string) bool {
	g, ok := c.GroupOf(node)
	n, _ := g.Number(node)
	return node == c.Control.Name || ok && n <= g.Min
}

// DeclaredSources lists the images, flavors and networks that are declared for the nodes, each combination once.
func DeclaredSources(c reconfigure.Cluster) []reconfigure.Source {
	var sources []reconfigure.Source
	if !c.Attached() {
		sources = append(sources, c.Control.Source)
	}
	for _, g := range c.Groups {
		for _, source := range g.Sources() {
			if !slices.Contains(sources, source) {
				sources = append(sources, source)
			}
		}
	}
	return sources
}

// ImageNames returns the names of the declared images by their ids, if these are resolved.
func (s Snapshot) ImageNames(c reconfigure.Cluster) map[string]string {
	names := map[string]string{}
	for _, source := range DeclaredSources(c) {
		if id := s.Sources[source].ImageID; id != "" {
			names[id] = source.Image
		}
	}
	return names
}

// Undeclared returns the nodes that no node group declares, but that have an instance in Terraform's state or in the
// cloud.
func (s Snapshot) Undeclared(c reconfigure.Cluster) nodeset.NodeSet {
	return undeclared(c, slices.AppendSeq(slices.Collect(maps.Keys(s.Instances)), maps.Keys(s.Servers)))
}

// Forgotten returns the nodes that a new slurm.conf would lack, although they have an instance in Terraform's state
// or Slurm has allocated them to a job.
func (s Snapshot) Forgotten(c reconfigure.Cluster) nodeset.NodeSet {
	names := slices.Collect(maps.Keys(s.Instances))
	for node, state := range s.States {
		if state.GivenToJob() && !c.Attached() { // the site has nodes of its own
			names = append(names, node)
		}
	}
	return undeclared(c, names)
}

// UndeclaredIn returns the nodes of a group that are in Terraform's map but no longer declared by a node group. An
// empty group means all groups.
func (s Snapshot) UndeclaredIn(c reconfigure.Cluster, group string) nodeset.NodeSet {
	var names []string
	for node, spec := range s.Desired {
		if spec.Group != reconfigure.ControlGroup && (group == "" || spec.Group == group) {
			names = append(names, node)
		}
	}
	return undeclared(c, names)
}

// InGroups returns the nodes that a resize of groups concerns: all declared nodes of the groups, and the nodes in
// Desired that they no longer declare. Without groups it returns those of all groups, also of groups that are no
// longer declared. The error names a group that is unknown.
func (s Snapshot) InGroups(c reconfigure.Cluster, groups []string) (nodeset.NodeSet, error) {
	if len(groups) == 0 {
		return c.Nodes().Union(s.UndeclaredIn(c, "")), nil
	}
	var all nodeset.NodeSet
	for _, name := range groups {
		gone := s.UndeclaredIn(c, name)
		g, err := reconfigure.GroupNamed(c.Groups, name)
		if err != nil && gone.Empty() {
			return nodeset.NodeSet{}, err
		}
		all = all.Union(g.Nodes()).Union(gone)
	}
	return all, nil
}

func undeclared(c reconfigure.Cluster, names []string) nodeset.NodeSet {
	return nodeset.Of(names...).Difference(c.Nodes()).Difference(nodeset.Of(c.Control.Name))
}

// Own returns the server that is a node's instance: the one in Terraform's state or, if the state has none, the only
// one with the node's name.
func (s Snapshot) Own(node string) (reconfigure.Server, bool) {
	servers := s.Servers[node]
	id := s.Instances[node].ID
	if id == "" && len(servers) == 1 {
		return servers[0], true
	}
	i := slices.IndexFunc(servers, func(server reconfigure.Server) bool { return server.ID == id })
	if id == "" || i < 0 {
		return reconfigure.Server{}, false
	}
	return servers[i], true
}

// Lost reports whether a node's instance is in Terraform's state but not in the cloud.
func (s Snapshot) Lost(node string) bool {
	_, there := s.Own(node)
	return s.Asked(Cloud) && s.Instances[node].ID != "" && !there
}

// Current returns what a node's instance is made of: its entry in the map, but with the image and the flavor that the
// cloud or Terraform's state shows. They differ if a worker died between the edit of the map and the change.
func (s Snapshot) Current(node string) reconfigure.Spec {
	spec, made := s.Desired[node], s.Instances[node].Made
	own, _ := s.Own(node)
	spec.ImageID = cmp.Or(own.ImageID, made.ImageID, spec.ImageID)
	spec.FlavorID = cmp.Or(made.FlavorID, spec.FlavorID)
	spec.Zone = cmp.Or(own.Zone, spec.Zone)
	return spec
}

// FallenBack returns an entry with the flavor and the zone of a node's instance, if its group has them as a fallback.
func (s Snapshot) FallenBack(c reconfigure.Cluster, node string, spec, is reconfigure.Spec) reconfigure.Spec {
	g, _ := c.GroupOf(node)
	for _, source := range g.FallbackSources() {
		found := s.Sources[source]
		if is.FlavorID != "" && found.FlavorID == is.FlavorID && (found.Zone == "" || found.Zone == is.Zone) {
			spec.FlavorID, spec.Zone = found.FlavorID, found.Zone
			return spec
		}
	}
	return spec
}

// Outdated lists the differences between a node's instance and its declaration, as far as both are known.
func (s Snapshot) Outdated(c reconfigure.Cluster, node string) []Drift {
	group, source, declared := Declared(c, node)
	wanted, resolved := s.Sources[source]
	is := s.Current(node)
	_, there := s.Own(node)
	made := s.Desired[node].HasInstance() && s.Instances[node].ID != ""
	if !declared || !made && !there {
		return nil
	}
	spec := reconfigure.Spec{Group: group}
	if resolved && wanted.Err == "" {
		spec = s.FallenBack(c, node, wanted.Spec(group), is)
	}
	if !made { // only the cloud has the instance, and its list has only the image
		is = reconfigure.Spec{ImageID: is.ImageID}
	}
	return Differences(known(is, spec), known(spec, is))
}

// known returns s without the values that other lacks, so that only values that both have are compared.
func known(s, other reconfigure.Spec) reconfigure.Spec {
	both := func(is *string, other string) {
		if other == "" {
			*is = ""
		}
	}
	both(&s.Group, other.Group)
	both(&s.ImageID, other.ImageID)
	both(&s.FlavorID, other.FlavorID)
	both(&s.NetworkID, other.NetworkID)
	return s
}

// deployed reports whether any part of the cluster exists: before the first deploy nothing is missing.
func (s Snapshot) deployed() bool {
	return s.Instances != nil && len(s.Desired)+len(s.Instances)+len(s.Servers) > 0
}

// Rests reports whether the instance of a cloud node is stopped as intended, and Slurm does not use the node.
func (s Snapshot) Rests(c reconfigure.Cluster, node string) bool {
	spec := s.Desired[node]
	own, there := s.Own(node)
	return there && spec.Stopped() && own.Status == spec.Status() && !Always(c, node) && !s.States[node].Up()
}

// Drift lists all drifts of a node. A source that is unreachable adds nothing.
func (s Snapshot) Drift(c reconfigure.Cluster, node string) []Drift {
	_, _, declared := Declared(c, node)
	instance, servers := s.Instances[node], s.Servers[node]
	own, _ := s.Own(node)
	_, readdressed := s.Address(node)
	all := s.Outdated(c, node)
	for _, d := range []struct {
		drift Drift
		so    bool
	}{
		{DriftMissing, s.deployed() && instance.Node == "" && len(servers) == 0 && Always(c, node)},
		{DriftTainted, instance.Tainted},
		{DriftLost, s.Lost(node)},
		{DriftDoubled, len(servers) > 1},
		{DriftUndeclared, !declared},
		{DriftAddress, readdressed != ""},
		{DriftStopped, own.Stopped() && !s.Rests(c, node)},
		{DriftAge, s.Aged(c, node)},
		{DriftError, own.Failed()},
	} {
		if d.so {
			all = append(all, d.drift)
		}
	}
	return all
}

// Address returns the address of a node's instance in the cloud, and the source that has another one: Terraform or
// Slurm. The source is empty if they agree, or if the cloud has no address. Slurm's address counts only while Slurm
// uses the node, since it drops the address of a cloud node that it powers down. A host name in Slurm does not count
// as a difference.
func (s Snapshot) Address(node string) (address string, other System) {
	own, _ := s.Own(node)
	instance, state := s.Instances[node], s.States[node]
	if own.Address == "" {
		return "", ""
	}
	if instance.Address != "" && instance.Address != own.Address {
		return own.Address, Terraform
	}
	if at, err := netip.ParseAddr(state.Address); err == nil && state.Up() && at.String() != own.Address {
		return own.Address, Slurm
	}
	return own.Address, ""
}
