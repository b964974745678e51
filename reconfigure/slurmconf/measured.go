package slurmconf

import (
	"fmt"
	"maps"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Mismatch is the difference between the hardware of a node and its line in slurm.conf. The zero value means that
// there is none.
type Mismatch struct {
	Declared, Printed string // the settings that differ: "CPUs=8 Sockets=8 …", "RealMemory=7500"
	Change            string // the settings that fit, as in a group's slurm of all.yml
	// Less reports whether the node has less than is declared. Slurm then does not use the node (slurmctld's
	// validate_node_specs).
	Less bool
	// Layout reports whether the node has the declared CPUs and threads, in other sockets and cores.
	Layout bool
}

// Compare compares the settings of a NodeName line, by keys in lower case, with the line that `slurmd -C` prints on
// the node. If the settings have no CPUs or no RealMemory, Compare takes those of the flavor, as the playbooks do;
// nil: the flavor is unknown, and they are not compared. Two differences are allowed: CPUs may be the number of cores
// (slurm.conf(5), CPUs), and up to a quarter of the memory may be undeclared. Compare returns an error if printed is
// not such a line.
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
			// The value is 2 % lower, since nodes of a group differ by some MiB.
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

// processors returns the number of threads; CPUs may be lower.
func (h hardware) processors() int { return h.sockets * h.cores * h.threads }

// countsCores reports whether h is the same hardware, with one CPU for each core.
func (h hardware) countsCores(other hardware) bool {
	cores := h.sockets * h.cores
	other.cpus = cores
	return h == other
}

// change returns the settings of a group with this hardware.
func (h hardware) change() string {
	text := fmt.Sprintf("CPUs: %d, ", h.cpus)
	if h.boards > 1 {
		text += fmt.Sprintf("Boards: %d, SocketsPerBoard: %d", h.boards, h.sockets/h.boards)
	} else {
		text += fmt.Sprintf("Sockets: %d", h.sockets)
	}
	return text + fmt.Sprintf(", CoresPerSocket: %d, ThreadsPerCore: %d", h.cores, h.threads)
}
