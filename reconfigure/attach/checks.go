package attach

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// checkSite finds what in the site's files meets reconfigure's nodes.
func (w *writer) checkSite() {
	const drains = "slurmd runs it on reconfigure's nodes too, and a node without it is drained by its first job"
	for _, p := range []struct {
		name     string
		severity check.Severity
		why      string
	}{
		{"Prolog", check.Warning, drains},
		{"Epilog", check.Warning, drains},
		{"HealthCheckProgram", check.Note, "slurmd runs it on reconfigure's nodes too"},
		{"PrologSlurmctld", check.Note, "slurmctld runs it for jobs on reconfigure's nodes too, with their names"},
		{"EpilogSlurmctld", check.Note, "slurmctld runs it for jobs on reconfigure's nodes too, with their names"},
		{"JobSubmitPlugins", check.Note, "it decides about jobs for reconfigure's partitions too"},
	} {
		if is, at, there := w.site.Setting(p.name); there {
			change := "look at it"
			if p.severity == check.Warning {
				change = "the image of the node groups must have it"
			}
			w.find(p.severity, fmt.Sprintf("%s: %s=%s", at, p.name, is), p.why, change)
		}
	}
	if hosts := w.site.Sections("SlurmctldHost"); len(hosts) > 1 || value(w.site, "BackupController") != "" {
		w.find(check.Warning, "there is a backup slurmctld",
			"it reads its own files, and would start without reconfigure's nodes",
			"one folder with slurm.conf for both hosts, or the same files on both")
	}
	if !hasWord(value(w.site, parameters), "enable_configless") {
		w.find(check.Warning, "the nodes have their own slurm.conf: slurmctld is not configless",
			"slurmd and srun on the site's nodes do not know reconfigure's nodes, and slurmctld logs that the files differ",
			fmt.Sprintf("copy %s and slurm.conf to the site's nodes too, or enable_configless in %s", File, parameters))
	}
	if w.Firewall && len(w.Cluster.Control.Existing.CIDRs) == 0 {
		w.find(check.Warning, "control_node.cidrs is missing",
			"the security group of reconfigure's nodes lets neither slurmctld nor the site's nodes connect to them",
			"cidrs: [NETWORK] in control_node of the declaration")
	}
	w.checkSuspendTime()
}

// checkSuspendTime finds nodes of the site that slurmctld would power down when there is a SuspendProgram.
func (w *writer) checkSuspendTime() {
	own := w.site.Nodes().Difference(w.Cluster.Nodes()).Difference(w.excepted())
	const why = "with a SuspendProgram, slurmctld powers down idle nodes of the site"
	if is, at, there := w.site.Setting("SuspendTime"); there && limited(is) && !own.Empty() {
		w.find(check.Error, fmt.Sprintf("%s: SuspendTime=%s for all nodes, and %s not excepted", at, is, isOrAre(own)), why,
			fmt.Sprintf("remove the line, or SuspendExcNodes=%s", w.site.Nodes().Difference(w.Cluster.Nodes())))
	}
	for _, p := range w.site.Sections("PartitionName") {
		if nodes := members(w.site, p).Intersect(own); limited(p.Settings["suspendtime"]) && !nodes.Empty() {
			w.find(check.Error, fmt.Sprintf("%s: SuspendTime=%s for partition %s, and %s not excepted", p.At,
				p.Settings["suspendtime"], p.Settings["partitionname"], isOrAre(nodes)), why,
				fmt.Sprintf("no SuspendTime in the line, or SuspendExcNodes=%s", nodes))
		}
	}
}

func isOrAre(nodes nodeset.NodeSet) string {
	if nodes.Len() == 1 {
		return nodes.String() + " is"
	}
	return nodes.String() + " are"
}

// limited reports whether a value of SuspendTime is a time.
func limited(value string) bool {
	return value != "" && value != "-1" && !strings.EqualFold(value, "INFINITE") && !strings.EqualFold(value, "NONE")
}

// checkRunning compares slurmctld with its files: a restart lets the site's edits take effect, too.
func (w *writer) checkRunning(now slurmconf.Conf) {
	switch {
	case w.release == nil:
		w.find(check.Error, "slurmctld does not say its version", "the file depends on it", "scontrol show config")
	case !w.since("22.05"):
		w.find(check.Error, "slurmctld is "+w.Settings["SLURM_VERSION"], "reconfigure needs 22.05 or later", "upgrade Slurm")
	case w.since("25.12"):
		w.find(check.Warning, "slurmctld is "+w.Settings["SLURM_VERSION"], "releases after 25.11 were not looked at",
			"compare its release notes")
	}
	declared := w.Cluster.Control.Existing.SlurmConf
	if runs := w.Settings["SLURM_CONF"]; runs != declared {
		w.find(check.Error, fmt.Sprintf("slurmctld reads %s, and not %s", runs, declared), "it would not read the line",
			"slurm_conf: "+runs+" in control_node of the declaration")
	}
	if gone := w.Nodes.Difference(now.Nodes()); !gone.Empty() {
		w.find(check.Error, fmt.Sprintf("slurmctld has %s, and its files do not", gone),
			"somebody has edited the files: the next start of slurmctld would end the jobs there",
			"put the nodes back into the files")
	}
	for _, p := range w.Partitions {
		if !slices.Contains(now.Partitions(), p) {
			w.find(check.Error, fmt.Sprintf("slurmctld has partition %s, and its files do not", p),
				"somebody has edited the files: the next start of slurmctld would end its jobs",
				"put the partition back into the files")
		}
	}
	// Before 23.02, slurmctld may hide powered-down cloud nodes.
	added := now.Nodes().Difference(w.Nodes).Where(func(node string) bool {
		return !strings.EqualFold(now.Node(node)["state"], "CLOUD")
	})
	if !added.Empty() {
		w.find(check.Warning, fmt.Sprintf("the files have %s, and slurmctld does not", added),
			"somebody has edited the files, and that edit would take effect, too; or slurmctld finds no address for the name, "+
				"which since 23.11 delays each `scontrol reconfigure` by ten seconds",
			"restart slurmctld first, or set NodeAddr")
	}
}

// checkPartitions looks at the partitions of reconfigure's nodes, as slurmctld would read them.
func (w *writer) checkPartitions(coming slurmconf.Conf) {
	var reached, suspended nodeset.NodeSet
	for _, p := range coming.Sections("PartitionName") {
		if p.File == w.Cluster.Control.Existing.SlurmConf && !w.attached {
			p.Line-- // our line is not there yet
		}
		name, nodes := p.Settings["partitionname"], members(coming, p).Intersect(w.Cluster.Nodes())
		reached = reached.Union(nodes)
		if limited(p.Settings["suspendtime"]) {
			suspended = suspended.Union(nodes)
		}
		if strings.EqualFold(p.Settings["nodes"], "ALL") {
			w.find(check.Warning, fmt.Sprintf("%s: partition %s has all nodes", p.At, name),
				"its jobs may run on reconfigure's nodes", "Nodes="+w.site.Nodes().String()+" if they must not")
		}
		w.checkTimeouts(p, nodes)
	}
	if lonely := w.Cluster.Nodes().Difference(reached); !lonely.Empty() {
		w.find(check.Error, fmt.Sprintf("no partition has %s", lonely), "no job can run there",
			"partitions in the declaration, or the nodes in a partition of the site")
	}
	if limited(value(coming, "SuspendTime")) {
		return
	}
	elastic := w.Cluster.Nodes().Difference(w.Cluster.Persistent()).Intersect(reached)
	if forever := elastic.Difference(suspended); !forever.Empty() {
		w.find(check.Error, fmt.Sprintf("no partition of %s has a SuspendTime", forever),
			"their instances are never removed, and cost money",
			strings.Join(spelt(w.timeouts(), slurmconf.PartitionSettings()), " ")+" in the line of their partition")
	}
}

// checkTimeouts compares a site's partition of reconfigure's nodes with the declared timeouts.
func (w *writer) checkTimeouts(p slurmconf.Section, nodes nodeset.NodeSet) {
	if nodes.Empty() || !limited(p.Settings["suspendtime"]) || w.isDeclared(p.Settings["partitionname"]) {
		return
	}
	for _, key := range []string{"resumetimeout", "suspendtimeout"} {
		if want := w.timeouts()[key]; p.Settings[key] != want {
			pair := spelt(map[string]string{key: want}, slurmconf.PartitionSettings())[0]
			w.find(check.Warning, fmt.Sprintf("%s: partition %s lacks %s", p.At, p.Settings["partitionname"], pair),
				"reconfigure's deadlines follow the declaration: it gives up nodes too early, or after Slurm does",
				pair+" in the line")
		}
	}
}

// isDeclared reports whether our file has the partition.
func (w *writer) isDeclared(name string) bool {
	return slices.ContainsFunc(w.Cluster.Partitions, func(p reconfigure.Partition) bool { return p.Name == name }) &&
		!slices.Contains(w.site.Partitions(), name)
}

// checkJobs finds the jobs that would end.
func (w *writer) checkJobs(dangers []reconfigure.Danger) {
	for _, d := range dangers {
		var jobs []string
		for _, j := range w.Jobs {
			if d.Partition != "" && slices.Contains(j.Partitions, d.Partition) || !j.Nodes.Intersect(d.Nodes).Empty() {
				jobs = append(jobs, j.ID)
			}
		}
		if len(jobs) == 0 {
			continue
		}
		would := "would end"
		if d.Unsure {
			would = "may end"
		}
		const most = 10
		list := strings.Join(jobs[:min(most, len(jobs))], ", ")
		if len(jobs) > most {
			list += fmt.Sprintf(" and %d more", len(jobs)-most)
		}
		w.find(check.Error, fmt.Sprintf("%s %s: %s", text.Count(len(jobs), "job"), would, list), d.What,
			"wait until they have ended")
	}
}
