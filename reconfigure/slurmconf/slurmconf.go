// Package slurmconf compares slurmctld's running configuration with the next one, by their meaning, and finds the
// jobs that a restart of slurmctld would end. It is pure.
//
// At its start slurmctld compares each job that it has saved with its configuration, and ends the jobs that do not
// fit (Slurm's source, src/slurmctld/read_config.c, _sync_jobs_to_conf):
//
//   - "Invalid partition": its partition is gone. This also applies to waiting jobs.
//   - "Invalid nodes": one of its nodes is gone.
//   - "change in socket/core configuration": a node of it has another number of cores (job_resources.c,
//     valid_job_resources).
//   - "invalid GRES configuration": gres of a node is gone, or its number has changed and gres.conf names files
//     (gres.h, gres_job_revalidate2).
//
// Other settings have different effects on jobs. harmless.go lists the tested changes that end no job; the effects of
// all others are unknown.
//
// Dangers does not read the files that slurm.conf includes: it compares their names. Load reads them.
package slurmconf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// The files that are compared.
const (
	slurmFile = "slurm.conf"
	gresFile  = "gres.conf"
)

// Dangers returns the changes between two configurations with which a restarted slurmctld ends jobs, if the nodes or
// the partition have jobs. The files are by name. Without a running configuration there are no dangers. The error
// names a line that cannot be read.
func Dangers(running, coming map[string]string) ([]reconfigure.Danger, error) {
	if running[slurmFile] == "" {
		return nil, nil
	}
	was, err := parse(running)
	if err != nil {
		return nil, fmt.Errorf("slurmctld's running configuration: %w", err)
	}
	will, err := parse(coming)
	if err != nil {
		return nil, fmt.Errorf("the next configuration: %w", err)
	}
	return slices.Concat(settings(was, will), nodes(was, will), partitions(was, will)), nil
}

// jobsLost lists the settings, in lower case, whose change may also lose waiting jobs: slurmctld does not find their
// records, or rejects them (slurm.conf(5)). An included file may have any of them.
var jobsLost = []string{
	"accountingstorageenforce", "authtype", "clustername", "include", "maxarraysize", "maxjobcount", "selecttype",
	"slurmuser", "statesavelocation", "switchtype",
}

const (
	gatherType = "jobacctgathertype"
	noGather   = "jobacct_gather/none" // the default
)

// settings returns the dangers of changed settings: all that are not known to be harmless. It is unknown whether they
// end jobs. One danger has all settings, so that an administrator sees them together.
func settings(was, will config) []reconfigure.Danger {
	names := maps.Clone(will.names)
	maps.Copy(names, was.names)
	var changed, lost []string
	for _, key := range slices.Sorted(maps.Keys(names)) {
		is, wanted := was.settings[key], will.settings[key]
		if key == gatherType {
			is, wanted = cmp.Or(is, noGather), cmp.Or(wanted, noGather)
		}
		if is == wanted || isHarmless(key, is, wanted) {
			continue
		}
		what := differs(names[key], is, wanted)
		changed = append(changed, what)
		if slices.Contains(jobsLost, key) {
			lost = append(lost, what)
		}
	}
	var all []reconfigure.Danger
	if len(changed) > 0 {
		all = append(all, reconfigure.Danger{Nodes: nodeset.Collect(maps.Keys(was.nodes)), What: sentence(changed),
			Unsure: true})
	}
	if len(lost) > 0 {
		for _, name := range slices.Sorted(maps.Keys(was.partitions)) {
			all = append(all, reconfigure.Danger{Partition: name, What: sentence(lost), Unsure: true})
		}
	}
	return all
}

func sentence(parts []string) string { return strings.Join(parts, ", and ") }

// nodes returns the dangers of nodes; nodes with the same change are one danger.
func nodes(was, will config) []reconfigure.Danger {
	byWhat := map[string][]string{}
	for name, is := range was.nodes {
		for _, what := range is.changes(name, will) {
			byWhat[what] = append(byWhat[what], name)
		}
	}
	var all []reconfigure.Danger
	for what, names := range byWhat {
		all = append(all, reconfigure.Danger{Nodes: nodeset.Of(names...), What: what})
	}
	slices.SortFunc(all, func(a, b reconfigure.Danger) int {
		return cmp.Or(cmp.Compare(a.Nodes.String(), b.Nodes.String()), cmp.Compare(a.What, b.What))
	})
	return all
}

// partitions returns the dangers of partitions that are gone.
func partitions(was, will config) []reconfigure.Danger {
	var all []reconfigure.Danger
	for _, name := range slices.Sorted(maps.Keys(was.partitions)) {
		if !will.partitions[name] {
			all = append(all, reconfigure.Danger{Partition: name, What: "it is no longer declared"})
		}
	}
	return all
}

// node is the lines of one node, by keys in lower case.
type node struct {
	settings map[string]string
	gres     map[string]string // from gres.conf: the other keys of the lines, by Name and Type
}

// changes returns the changes that end the jobs on a node.
func (n node) changes(name string, will config) []string {
	other, there := will.nodes[name]
	if !there {
		return []string{"it is no longer declared"}
	}
	var all []string
	if is, wanted := n.hardware(), other.hardware(); is != wanted {
		all = append(all, fmt.Sprintf("its hardware is %s instead of %s", wanted, is))
	}
	if is, wanted := gres(n.settings["gres"]), gres(other.settings["gres"]); is != wanted {
		all = append(all, differs("Gres", is, wanted))
	} else if is != "" && !maps.Equal(n.gres, other.gres) {
		all = append(all, "its lines in gres.conf change")
	}
	return all
}

// differs returns the text about a setting that changes.
func differs(name, is, wanted string) string {
	return fmt.Sprintf("%s is %s instead of %s", name, cmp.Or(wanted, "not set"), cmp.Or(is, "not set"))
}

// gres returns a list of gres in a fixed order, since the order does not matter. Its entries are name[:type][:count].
func gres(list string) string {
	items := strings.Split(strings.ToLower(list), ",")
	slices.Sort(items)
	return strings.Join(items, ",")
}

// hardware is the number of CPUs, sockets, cores and threads, as slurmctld computes it from the line of a node
// (src/common/read_config.c, _parse_nodename).
type hardware struct {
	cpus, boards, sockets, cores, threads int
	special                               string // CPUs that jobs cannot use
}

func (h hardware) String() string {
	text := fmt.Sprintf("CPUs=%d Sockets=%d CoresPerSocket=%d ThreadsPerCore=%d", h.cpus, h.sockets, h.cores, h.threads)
	if h.boards > 1 {
		text = fmt.Sprintf("Boards=%d %s", h.boards, text)
	}
	return strings.TrimSpace(text + " " + h.special)
}

func (n node) hardware() hardware {
	h := hardware{boards: n.number("boards", 1), cores: n.number("corespersocket", 1),
		threads: n.number("threadspercore", 1)}
	perBoard, bySocket := n.number("socketsperboard", 0), n.number("sockets", 0)
	h.cpus = n.number("cpus", n.number("procs", 0))
	switch {
	case bySocket > 0:
		h.sockets = bySocket
	case perBoard > 0:
		h.sockets = perBoard * h.boards
	default:
		h.sockets = max(1, h.cpus/(h.cores*h.threads))
	}
	if h.cpus == 0 {
		h.cpus = h.sockets * h.cores * h.threads
	}
	for _, key := range []string{"corespeccount", "cpuspeclist"} {
		if value := n.settings[key]; value != "" {
			h.special = strings.TrimSpace(h.special + " " + key + "=" + value)
		}
	}
	return h
}

// number returns the value of a key; the default if the key is missing or slurmctld does not accept its value.
func (n node) number(key string, byDefault int) int {
	if i, err := strconv.Atoi(n.settings[key]); err == nil && i > 0 {
		return i
	}
	return byDefault
}
