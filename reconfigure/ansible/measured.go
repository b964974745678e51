package ansible

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// measuredFile has the hardware that slurmd detected on the first node of each group, by group.
func measuredFile(stateDir string) string { return filepath.Join(stateDir, "ansible", "measured.json") }

// Measured returns the hardware that slurmd detected on the last measured node of each group, by the group's name. A
// group is measured whenever nodes of it are configured.
func Measured(stateDir string) (map[string]reconfigure.Measured, error) {
	all := map[string]reconfigure.Measured{}
	text, err := os.ReadFile(measuredFile(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("read the measured hardware of the node groups: %w", err)
	}
	return all, nil
}

// toMeasure returns the first of the changed nodes of each group, by group.
func toMeasure(c reconfigure.Cluster, changed nodeset.NodeSet) map[string]string {
	first := map[string]string{}
	for _, g := range c.Groups {
		for node := range changed.Intersect(g.Nodes()).All() {
			first[g.Name] = node
			break
		}
	}
	return first
}

// keepMeasured writes the output of slurmd on the measured nodes. Nodes are not trusted: each counts only for its own
// group, and a line that is longer than any of slurmd's is ignored.
func keepMeasured(c reconfigure.Cluster, instances map[string]reconfigure.Instance, changed nodeset.NodeSet,
	printed map[string]string) error {
	const longest = 1000
	all, err := Measured(c.Settings.StateDir)
	if err != nil {
		all = map[string]reconfigure.Measured{} // a damaged file is replaced
	}
	before := maps.Clone(all)
	for group, node := range toMeasure(c, changed) {
		if line := printed[node]; line != "" && len(line) < longest {
			all[group] = reconfigure.Measured{Node: node, FlavorID: instances[node].Made.FlavorID, Printed: line}
		}
	}
	if maps.Equal(before, all) {
		return nil
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = renameio.WriteFile(measuredFile(c.Settings.StateDir), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the measured hardware of the node groups: %w", err)
	}
	return nil
}
