package slurmconf

import (
	"fmt"
	"maps"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Mismatch is how the hardware of a node differs from its line in slurm.conf. The zero value is that it does not.
type Mismatch struct {
	Declared, Printed string // what differs: "CPUs=8 Sockets=8 …", "RealMemory=7500"
	Change            string // the settings that fit, as in a group's slurm of group_vars/all.yml
	// Less reports whether the node has less than is declared. Slurm then does not use it (slurmctld's
	// validate_node_specs).
	Less bool
	// Layout reports whether the node has the declared CPUs and threads, in other sockets and cores.
	Layout bool
}

// Compare compares the settings of a NodeName line, by keys in lower case, with the line that `slurmd -C` prints on the
// node. Where the settings have no CPUs or no RealMemory, those of the flavor count, as in the playbooks; nil: the
// flavor is not known, and what comes of it is not compared. It is no difference that CPUs is the number of cores
// (slurm.conf(5), CPUs), nor that up to a quarter of the memory is not declared. The error is that slurmd does not
// print such a line.
func Compare(settings map[string]string, flavor *reconfigure.Hardware, printed string) (Mismatch, error) {
	_, values, _ := pairs(printed)
	has := node{settings: values}
	memory := has.number("realmemory", 0)
	if has.number("cpus", 0) == 0 || memory == 0 {
		return Mismatch{}, fmt.Errorf("%q has no hardware", printed)
	}
	declared, complete := withFlavor(settings, flavor)
	is, there := declared.hardware(), has.hardware()
	is.special, there.special = "", ""
	var m Mismatch
	if complete && is != there && !is.countsCores(there) {
		m = Mismatch{Declared: is.String(), Printed: there.String(),
			Less: there.cpus < is.cpus || there.processors() < is.processors(), Change: there.change(),
			Layout: there.cpus == is.cpus && there.threads == is.threads && there.processors() == is.processors()}
	}
	if wanted := declared.number("realmemory", 0); memory < wanted || 0 < wanted && wanted < memory/4*3 {
		m.add(Mismatch{Declared: fmt.Sprintf("RealMemory=%d", wanted), Printed: fmt.Sprintf("RealMemory=%d", memory),
			// A little less, since nodes of a group differ by some MiB.
			Less: memory < wanted, Change: fmt.Sprintf("RealMemory: %d", memory-memory/50)})
	}
	return m, nil
}

// withFlavor returns the settings with those that come from the flavor (ansible/roles/slurm_conf/templates). complete
// reports whether the number of CPUs is known.
func withFlavor(settings map[string]string, flavor *reconfigure.Hardware) (declared node, complete bool) {
	declared.settings = map[string]string{}
	maps.Copy(declared.settings, settings)
	for _, key := range []string{
		"cpus", "procs", "boards", "sockets", "socketsperboard", "corespersocket", "threadspercore",
	} {
		complete = complete || settings[key] != ""
	}
	if flavor == nil {
		return declared, complete
	}
	if !complete {
		declared.settings["cpus"] = fmt.Sprint(flavor.CPUs)
	}
	if settings["realmemory"] == "" {
		declared.settings["realmemory"] = fmt.Sprint(flavor.RealMemory)
	}
	return declared, true
}

func (m *Mismatch) add(other Mismatch) {
	m.Declared = strings.TrimSpace(m.Declared + " " + other.Declared)
	m.Printed = strings.TrimSpace(m.Printed + " " + other.Printed)
	m.Less, m.Layout = m.Less || other.Less, false
	m.Change = strings.TrimPrefix(m.Change+", "+other.Change, ", ")
}

// processors is the number of threads, which CPUs may be less than.
func (h hardware) processors() int { return h.sockets * h.cores * h.threads }

// countsCores reports whether h is the same hardware, with one CPU for each core.
func (h hardware) countsCores(other hardware) bool {
	cores := h.sockets * h.cores
	other.cpus = cores
	return h == other
}

// change is the settings of a group with this hardware.
func (h hardware) change() string {
	text := fmt.Sprintf("CPUs: %d, ", h.cpus)
	if h.boards > 1 {
		text += fmt.Sprintf("Boards: %d, SocketsPerBoard: %d", h.boards, h.sockets/h.boards)
	} else {
		text += fmt.Sprintf("Sockets: %d", h.sockets)
	}
	return text + fmt.Sprintf(", CoresPerSocket: %d, ThreadsPerCore: %d", h.cores, h.threads)
}
