package ansible

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// The playbooks.
const (
	sitePlaybook      = "site.yml"
	computePlaybook   = "compute.yml" // the compute nodes alone
	slurmConfPlaybook = "slurm_conf.yml"
)

// SlurmConf is Slurm's configuration on the control node. Files are by name.
type SlurmConf struct {
	// Running has the files with which slurmctld last answered; then, if they differ, those in Slurm's folder,
	// which an administrator may have told slurmctld to read. Empty: the control node is not configured yet.
	Running []map[string]string `json:"running"`
	Jobs    map[string]int      `json:"jobs"`   // by partition; nil: slurmctld does not answer
	Coming  map[string]string   `json:"coming"` // the files that the declaration gives
}

// SlurmConf reads the configuration that slurmctld runs with, and renders the one that Configure would write. It
// changes nothing on the cluster, and may run at the same time as Configure. The hardware is by node group. The
// control node must have an instance with an address. The call may be repeated.
func (r *Runner) SlurmConf(
	ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance,
	hardware map[string]reconfigure.Hardware,
) (answer SlurmConf, err error) {
	s, err := newScratch(c.Settings.StateDir)
	if err != nil {
		return SlurmConf{}, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	control := nodeset.Of(c.Control.Name)
	vars := r.vars()
	vars["slurm_conf_answer"] = s.slurmConf()
	if hardware != nil {
		vars["hardware_file"] = s.hardware()
	}
	err = errors.Join(writeHardware(s.hardware(), hardware),
		s.writeInventory(r.sources(), newInventory(c, instances, nil).only(control)), writeJSON(s.vars(), vars))
	if err != nil {
		return SlurmConf{}, err
	}
	seen, err := r.execute(ctx, executor{Runner: r, scratch: s, playbook: slurmConfPlaybook}, func(event) {})
	failures, err := seen.verdicts(control, err)
	if err = errors.Join(err, failures[c.Control.Name]); err != nil {
		return SlurmConf{}, fmt.Errorf("read Slurm's configuration: %w", err)
	}
	text, err := os.ReadFile(s.slurmConf())
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		return SlurmConf{}, fmt.Errorf("read Slurm's configuration: %w", err)
	}
	return answer, nil
}

// plannedConf is a configuration in the form that the role slurm_conf reads.
func plannedConf(conf reconfigure.SlurmConf) map[string]any {
	return map[string]any{"files": conf.Files, "dangers": dangers(conf.Dangers), "unknown": conf.Err}
}

// writeHardware writes the hardware of node groups, unless it is unknown.
func writeHardware(file string, hardware map[string]reconfigure.Hardware) error {
	if hardware == nil {
		return nil
	}
	text, err := json.Marshal(hardware)
	if err == nil {
		err = renameio.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the hardware of the node groups: %w", err)
	}
	return nil
}
