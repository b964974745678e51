package attach

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/check"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurmconf"
)

// group writes the NodeName lines of a group. Nodes that the site's files have are read and not written.
func (w *writer) group(g reconfigure.NodeGroup) {
	theirs := g.Nodes().Intersect(w.site.Nodes())
	if !theirs.Empty() {
		w.find(check.Note, fmt.Sprintf("the site's files have %s already", theirs),
			"reconfigure reads their lines and does not write them", "nothing to do")
	}
	elastic := g.CloudNodes()
	static := theirs.Intersect(elastic).Where(func(node string) bool {
		return !strings.EqualFold(w.site.Node(node)["state"], "CLOUD")
	})
	if !static.Empty() {
		w.find(check.Error, fmt.Sprintf("the site's files have %s without State=CLOUD", static),
			"slurmctld does not ask for their instances", "State=CLOUD in their NodeName lines")
	}
	words, known := w.hardware(g)
	for _, part := range []struct {
		nodes nodeset.NodeSet
		state string
	}{{g.Persistent(), "UNKNOWN"}, {elastic, "CLOUD"}} {
		nodes := part.nodes.Difference(theirs)
		if nodes.Empty() {
			continue
		}
		if !known {
			known = true // say it once
			w.find(check.Error, fmt.Sprintf("CPUs or memory of %s are neither declared nor known from flavor %s", nodes,
				g.Flavor), "slurmctld takes them for nodes with one CPU and 1 MiB",
				"CPUs and RealMemory in slurm of node group "+g.Name)
		}
		pairs := []string{"NodeName=" + nodes.String()}
		if len(g.Features) > 0 {
			pairs = append(pairs, "Features="+strings.Join(g.Features, ","))
		}
		if g.Gres != "" {
			pairs = append(pairs, "Gres="+g.Gres)
		}
		w.line(slices.Concat(pairs, words, []string{"State=" + part.state})...)
	}
}

// layout lists the settings with which a NodeName line has a number of CPUs.
var layout = []string{"cpus", "procs", "boards", "sockets", "socketsperboard", "corespersocket", "threadspercore"}

// NeedsFlavors reports whether a group lacks CPUs or memory, which then come from its flavor.
func NeedsFlavors(c reconfigure.Cluster) bool {
	w := writer{}
	return slices.ContainsFunc(c.Groups, func(g reconfigure.NodeGroup) bool {
		_, known := w.hardware(g)
		return !known
	})
}

// hardware returns the settings of a group's nodes: the declared ones and, for missing ones, those of the flavor. It
// reports whether CPUs and memory are known.
func (w *writer) hardware(g reconfigure.NodeGroup) (words []string, known bool) {
	settings := map[string]string{}
	maps.Copy(settings, g.Slurm)
	hasCPUs := slices.ContainsFunc(layout, func(key string) bool { return settings[key] != "" })
	if flavor, ok := w.Hardware[g.Name]; ok {
		if !hasCPUs {
			settings["cpus"], hasCPUs = strconv.Itoa(flavor.CPUs), true
		}
		settings["realmemory"] = cmp.Or(settings["realmemory"], strconv.Itoa(flavor.RealMemory))
	}
	return spelt(settings, slurmconf.NodeSettings()), hasCPUs && settings["realmemory"] != ""
}

// spelt returns KEY=VALUE pairs with the keys as Slurm spells them, in their order.
func spelt(settings map[string]string, keys []string) (pairs []string) {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		name := key
		if i := slices.IndexFunc(keys, func(k string) bool { return strings.EqualFold(k, key) }); i >= 0 {
			name = keys[i]
		}
		pairs = append(pairs, name+"="+settings[key])
	}
	return pairs
}

// timeouts returns the settings of power saving of a partition, by keys in lower case.
func (w *writer) timeouts() map[string]string {
	t := w.Cluster.Slurm
	return map[string]string{
		"suspendtime":    strconv.Itoa(int(t.SuspendTime.Seconds())),
		"suspendtimeout": strconv.Itoa(int(t.SuspendTimeout.Seconds())),
		"resumetimeout":  strconv.Itoa(int(t.ResumeTimeout.Seconds())),
	}
}

// partition writes a partition, unless the site's files have it.
func (w *writer) partition(p reconfigure.Partition) {
	if slices.Contains(w.site.Partitions(), p.Name) {
		w.find(check.Note, "the site's files have partition "+p.Name+" already",
			"reconfigure reads its line and does not write it", "nothing to do")
		return
	}
	settings := w.timeouts()
	maps.Copy(settings, p.Slurm)
	pairs := []string{"PartitionName=" + p.Name, "Nodes=" + w.declared(p).String()}
	if p.Default {
		pairs = append(pairs, "Default=YES")
	}
	w.line(append(pairs, spelt(settings, slurmconf.PartitionSettings())...)...)
	for _, other := range w.site.Sections("PartitionName") {
		if p.Default && strings.EqualFold(other.Settings["default"], "YES") {
			w.find(check.Error, fmt.Sprintf("%s: partition %s is the default, and so is %s in the declaration", other.At,
				other.Settings["partitionname"], p.Name), "Slurm has one default partition",
				"no default in partition "+p.Name+" of the declaration")
		}
	}
}

// declared returns the nodes of a declared partition.
func (w *writer) declared(p reconfigure.Partition) (nodes nodeset.NodeSet) {
	for _, g := range w.Cluster.Groups {
		if slices.Contains(p.Groups, g.Name) {
			nodes = nodes.Union(g.Nodes())
		}
	}
	return nodes
}

// members returns the nodes of a partition: its Nodes may name nodes, node sets, or ALL.
func members(c slurmconf.Conf, p slurmconf.Section) (nodes nodeset.NodeSet) {
	named, err := nodeset.Parse(p.Settings["nodes"])
	if err != nil {
		return nodes
	}
	if all := named.Where(func(name string) bool { return strings.EqualFold(name, "ALL") }); !all.Empty() {
		return c.Nodes()
	}
	nodes = named
	for _, set := range c.Sections("NodeSet") {
		if name := set.Settings["nodeset"]; named.Contains(name) {
			nodes = nodes.Difference(nodeset.Of(name)).Union(ofSet(c, set))
		}
	}
	return nodes
}

// ofSet returns the nodes of a node set: those that it names, and those with its features.
func ofSet(c slurmconf.Conf, set slurmconf.Section) nodeset.NodeSet {
	nodes, _ := nodeset.Parse(set.Settings["nodes"])
	wanted := strings.Split(cmp.Or(set.Settings["feature"], set.Settings["features"]), ",")
	return nodes.Union(c.Nodes().Where(func(node string) bool {
		has := cmp.Or(c.Node(node)["features"], c.Node(node)["feature"])
		return slices.ContainsFunc(wanted, func(f string) bool {
			return f != "" && slices.Contains(strings.Split(has, ","), f)
		})
	}))
}
