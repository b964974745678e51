package reconcile

import (
	"cmp"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Count is how many nodes of a group have a state in one source.
type Count struct {
	Group  string          `json:"group,omitempty"` // empty: undeclared nodes
	Source snapshot.System `json:"source"`
	State  string          `json:"state"`
	Nodes  int             `json:"nodes"`
}

// Counts counts nodes as each source that answered has them: the instances in the cloud, those in Terraform's state,
// and the declared nodes in Slurm. States of a declared group without a node are zero.
func Counts(cluster reconfigure.Cluster, seen snapshot.Snapshot) []Count {
	counts := map[Count]int{}
	group := func(node string) string {
		if node == cluster.Control.Name {
			return reconfigure.ControlGroup
		}
		g, _ := cluster.GroupOf(node)
		return g.Name
	}
	groups := []string{reconfigure.ControlGroup}
	for _, g := range cluster.Groups {
		groups = append(groups, g.Name)
	}
	zero := func(source snapshot.System, states ...string) {
		for _, g := range groups {
			for _, state := range states {
				if source != snapshot.Slurm || g != reconfigure.ControlGroup {
					counts[Count{Group: g, Source: source, State: state}] = 0
				}
			}
		}
	}
	if seen.Asked(snapshot.Cloud) {
		zero(snapshot.Cloud, "building", "active", "stopped", "error")
		for node, servers := range seen.Servers {
			for _, s := range servers {
				counts[Count{Group: group(node), Source: snapshot.Cloud, State: serverState(s)}]++
			}
		}
	}
	if seen.Asked(snapshot.Terraform) {
		zero(snapshot.Terraform, "active", "stopped", "tainted")
		for node, i := range seen.Instances {
			if i.ID != "" {
				state := "active"
				if i.Tainted {
					state = "tainted"
				} else if seen.Desired[node].Stopped() {
					state = "stopped"
				}
				counts[Count{Group: group(node), Source: snapshot.Terraform, State: state}]++
			}
		}
	}
	if seen.Asked(snapshot.Slurm) {
		zero(snapshot.Slurm, "up", "drained", "down", "powering_up", "powering_down", "powered_down")
		for node := range cluster.Nodes().All() {
			if s, known := seen.States[node]; known {
				counts[Count{Group: group(node), Source: snapshot.Slurm, State: slurmState(s)}]++
			}
		}
	}
	var all []Count
	for c, n := range counts {
		c.Nodes = n
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Group, b.Group), cmp.Compare(a.State, b.State))
	})
	return all
}

func serverState(s reconfigure.Server) string {
	switch {
	case s.Status == reconfigure.ServerBuilding:
		return "building"
	case s.Active():
		return "active"
	case s.Stopped():
		return "stopped"
	case s.Failed():
		return "error"
	}
	return "other"
}

// slurmState returns the one state that matters most. A node that power saving has powered down is never down: it is
// where it should be.
func slurmState(s reconfigure.NodeState) string {
	switch {
	case s.PoweringUp():
		return "powering_up"
	case s.PoweringDown():
		return "powering_down"
	case s.PoweredDown():
		return "powered_down"
	case s.Down():
		return "down"
	case s.Drained():
		return "drained"
	case s.Up():
		return "up"
	}
	return "other"
}
