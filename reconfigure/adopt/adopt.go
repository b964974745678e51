// Package adopt decides which servers of somebody else may become the instances of nodes. It asks nobody and changes
// nothing.
package adopt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Facts are what the declaration, the map of nodes and the cloud say.
type Facts struct {
	Cluster    reconfigure.Cluster
	ID         string // the cluster's
	Desired    map[string]reconfigure.Spec
	Candidates map[string][]reconfigure.Candidate // by node
	// Again reports whether an adoption was interrupted, so that some servers may be the cluster's already.
	Again bool
}

// Choose returns the server of each node that may be adopted, and why the other nodes have none.
func Choose(f Facts, nodes nodeset.NodeSet) (map[string]reconfigure.Candidate, reconfigure.Failures) {
	chosen, refused := map[string]reconfigure.Candidate{}, reconfigure.Failures{}
	for node := range nodes.All() {
		if why := f.refuse(node); why != "" {
			refused[node] = errors.New(why)
		} else {
			chosen[node] = f.Candidates[node][0]
		}
	}
	return chosen, refused
}

// refuse returns why no server can become the instance of a node; empty if one can.
func (f Facts) refuse(node string) string {
	_, declared := f.Cluster.GroupOf(node)
	all := f.Candidates[node]
	switch {
	case !declared:
		return "no node group declares it"
	case len(all) == 0:
		return "the cloud has no server with this name"
	case len(all) > 1:
		var ids []string
		for _, c := range all {
			ids = append(ids, c.ID)
		}
		slices.Sort(ids)
		return fmt.Sprintf("the cloud has %d servers with this name, %s: rename all but one", len(all),
			strings.Join(ids, ", "))
	}
	server := all[0]
	again := f.Again && server.Adopted && server.Cluster == f.ID
	_, known := f.Desired[node]
	switch {
	case server.Cluster == f.ID && !again:
		return "its instance is the cluster's already"
	case server.Cluster != "" && !again:
		return fmt.Sprintf("server %s belongs to the cluster %s", server.ID, server.Cluster)
	case known && !again && f.Desired[node].HasInstance():
		return "the cluster has an instance of it, which the cloud no longer has: `reconfigure reconcile` shows it"
	case known && !again:
		return "the cluster keeps a port for it, and its server has another one"
	case !server.Active():
		return fmt.Sprintf("server %s is %s: start it first", server.ID, server.Status)
	case server.ImageID == "":
		return fmt.Sprintf("server %s boots from a volume, which no instance of the cluster does", server.ID)
	case server.FlavorID == "":
		return fmt.Sprintf("the cloud does not tell the flavor of server %s", server.ID)
	case len(server.Ports) != 1:
		return fmt.Sprintf("server %s has %d ports, and an instance of the cluster has one", server.ID, len(server.Ports))
	}
	return ""
}

// Releasable returns which of the nodes may be released, and why the others may not. The control node has all of
// Slurm's state.
func Releasable(
	f Facts, nodes nodeset.NodeSet, ours map[string][]reconfigure.Server,
) (map[string]reconfigure.Server, reconfigure.Failures) {
	chosen, refused := map[string]reconfigure.Server{}, reconfigure.Failures{}
	for node := range nodes.All() {
		switch servers := ours[node]; {
		case node == f.Cluster.Control.Name:
			refused[node] = errors.New("it is the control node")
		case !f.Desired[node].HasInstance() && !(f.Again && len(servers) == 1):
			refused[node] = errors.New("the cluster has no instance of it")
		case len(servers) != 1:
			refused[node] = fmt.Errorf("the cloud has %d instances of it: `reconfigure reconcile` shows them", len(servers))
		default:
			chosen[node] = servers[0]
		}
	}
	return chosen, refused
}
