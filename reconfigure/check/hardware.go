package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

// hardware compares the declared hardware of each group with what slurmd detected on a node. It skips a node that was
// made with another flavor than the declared one. With config_overrides Slurm itself does not compare (slurm.conf(5),
// SlurmdParameters).
func hardware(facts Facts) (found []Finding) {
	if facts.Slurm == nil || hasWord(facts.Slurm["SlurmdParameters"], "config_overrides") {
		return nil
	}
	for _, g := range facts.Cluster.Groups {
		measured, known := facts.Measured[g.Name]
		id := facts.Sources[g.Source].FlavorID
		if !known || id != "" && measured.FlavorID != "" && id != measured.FlavorID {
			continue
		}
		m, err := slurmconf.Compare(g.Slurm, flavorOf(facts, id), measured.Printed)
		switch {
		case err != nil:
			found = append(found, Finding{
				Check: "hardware", Severity: Warning,
				What:   fmt.Sprintf("slurmd -C does not print the hardware of %s: %v", measured.Node, err),
				Why:    "it is unknown whether slurm.conf declares the real hardware of the nodes",
				Change: "run slurmd -C on " + measured.Node,
			})
		case m.Change != "":
			f := Finding{
				Check: "hardware", Severity: Warning,
				What: fmt.Sprintf("group %s: slurmd -C on %s prints %s, but declared is %s", g.Name, measured.Node,
					m.Printed, m.Declared),
				Why: "jobs cannot use all hardware of the nodes, or are bound to other CPUs than the allocated ones",
				Change: fmt.Sprintf("in all.yml, node_groups, %s: slurm: {%s}; then reconfigure deploy",
					g.Name, m.Change),
			}
			switch {
			case m.Layout:
				f.Severity = Note
				f.Why = "a job's tasks are bound to other sockets and cores than requested"
			case m.Less:
				f.Severity = Error
				f.Why = "Slurm does not use a node with less than slurm.conf declares: it is drained, or stays INVAL"
			}
			found = append(found, f)
		}
	}
	return found
}

// fallbacks reports the fallback flavors of which a node would have less than slurm.conf declares.
func fallbacks(facts Facts) (found []Finding) {
	for _, g := range facts.Cluster.Groups {
		own := flavorOf(facts, facts.Sources[g.Source].FlavorID)
		for _, name := range g.Fallbacks {
			if own == nil { // no flavor is known
				continue
			}
			source := g.Source
			source.Flavor = name
			flavor, known := facts.Room.Flavors[facts.Sources[source].FlavorID]
			if !known {
				continue
			}
			has := fmt.Sprintf("CPUs=%d RealMemory=%d", flavor.Cores, flavor.RAM)
			if m, err := slurmconf.Compare(g.Slurm, own, has); err == nil && m.Less {
				found = append(found, Finding{
					Check: "hardware", Severity: Error,
					What:   fmt.Sprintf("group %s: flavor %s has %s, but declared is %s", g.Name, source.Flavor, has, m.Declared),
					Why:    "Slurm does not use a node with less than slurm.conf declares: it is drained, or stays INVAL",
					Change: "fallback_flavors there, in all.yml",
				})
			}
		}
	}
	return found
}

// gpus reports groups with GPUs for which the playbooks write a gres.conf without AutoDetect and File.
func gpus(facts Facts) (found []Finding) {
	if facts.GresConf == nil || strings.TrimSpace(*facts.GresConf) != "" {
		return nil
	}
	for _, g := range facts.Cluster.Groups {
		if !slices.ContainsFunc(strings.Split(g.Gres, ","), func(gres string) bool {
			name, _, _ := strings.Cut(gres, ":")
			return name == "gpu"
		}) {
			continue
		}
		found = append(found, Finding{
			Check: "gpus", Severity: Warning,
			What: fmt.Sprintf("group %s declares %s, and gres.conf has neither AutoDetect nor File", g.Name, g.Gres),
			Why:  "slurmd does not know the devices, so it cannot restrict a job to the GPUs that Slurm gave it",
			Change: "slurm_gres_conf in group_vars/cluster.yml, for instance: Name=gpu File=/dev/nvidia[0-3]; " +
				"then reconfigure deploy",
		})
	}
	return found
}

// flavorOf returns the hardware of a flavor for slurm.conf; nil if the flavor is unknown.
func flavorOf(facts Facts, id string) *reconfigure.Hardware {
	if facts.Room == nil {
		return nil
	}
	flavor, known := facts.Room.Flavors[id]
	if !known {
		return nil
	}
	hardware := reconfigure.HardwareOf(flavor)
	return &hardware
}
