package ansible

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// The playbooks for a control node that the site runs.
const (
	attachedPlaybook = "attached.yml" // the compute nodes
	attachPlaybook   = "attach.yml"
	detachPlaybook   = "detach.yml"
	repairPlaybook   = "repair.yml"
)

// AttachWork is the folder of a change of slurm.conf, relative to the folder of that file.
const AttachWork = "eiffel/work"

// playbookFor returns the playbook for an extent.
func playbookFor(c reconfigure.Cluster, extent reconfigure.Extent) string {
	switch {
	case c.Attached():
		return attachedPlaybook
	case extent.Addresses, extent.Everywhere, extent.Changed.Contains(c.Control.Name), !hasGiven(c):
		return sitePlaybook
	}
	return computePlaybook
}

// hasGiven reports whether the control host has what the compute nodes get from the control node, as site.yml decides.
// It does not if a run ended while slurmctld was restarted, and never if another control host may have changed that.
func hasGiven(c reconfigure.Cluster) bool {
	given := givenFile(c.Settings.StateDir)
	_, err := os.Stat(given)
	_, doubt := os.Stat(given + ".doubt")
	return c.Settings.Journal == "" && err == nil && errors.Is(doubt, fs.ErrNotExist)
}

// varsOf is vars, with those of a control node that the site runs. They take precedence over the roles' own, whose
// paths are those of a control node that reconfigure configures.
func (r *Runner) varsOf(c reconfigure.Cluster) map[string]any {
	vars := r.vars()
	if !c.Attached() {
		return vars
	}
	conf := c.Control.Existing.SlurmConf
	dir := path.Dir(conf)
	folder := path.Join(dir, "eiffel")
	maps.Copy(vars, map[string]any{
		"attach_folder":               folder,
		"slurm_conf_path":             conf,
		"slurm_directory":             dir,
		"slurm_scripts_directory":     path.Join(folder, "bin"),
		"slurm_scripts_key_directory": path.Join(folder, "keys"),
		"slurm_scripts_log":           path.Join(folder, "keys", "reconfigure.log"),
		"slurm_scripts_up":            path.Join(folder, "up"),
		"slurm_scripts_path":          c.Control.Existing.Path(),
		"slurm_scripts_conf":          conf,
		"slurm_user":                  "{{ given.user }}",
		"slurm_compute_folders":       "{{ given.folders }}",
		"slurm_compute_users":         "{{ [{'name': given.user, 'uid': given.uid}] }}",
		"munge_files": []map[string]any{{"path": "/etc/munge/munge.key", "secret64": "{{ given.munge_key }}",
			"owner": "munge", "mode": "0400"}},
	})
	return vars
}

// Attachment is what is changed on a control node that the site runs.
type Attachment struct {
	SlurmUser string
	Line      string // the line in slurm.conf
	Include   string // the name of the included file
	Text      string // of the included file; empty: detach
	Expect    string // the SHA-256 sum of slurm.conf without the line, as hexadecimal digits
	Restart   bool   // slurmctld is restarted; otherwise `scontrol reconfigure` is enough
	Dangers   []reconfigure.Danger
	// Repair only continues a killed change; the texts are not used.
	Repair bool
}

// Attach writes the line, the files and the keys on the control node, or removes them. It may be repeated, also after
// it was killed. After an error slurmctld runs with a configuration that it accepts.
func (r *Runner) Attach(
	ctx context.Context, c reconfigure.Cluster, control reconfigure.Instance, a Attachment,
) (err error) {
	s, err := newScratch(c.Settings.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	vars := r.varsOf(c)
	files := map[string]any{
		"conf": c.Control.Existing.SlurmConf, "line": a.Line, "include": a.Include, "expect": a.Expect,
		"restart": a.Restart, "work": path.Join(path.Dir(c.Control.Existing.SlurmConf), AttachWork),
		"dangers": dangers(a.Dangers), "repair": a.Repair, "path": c.Control.Existing.Path(),
	}
	playbook := detachPlaybook
	switch {
	case a.Repair:
		playbook = repairPlaybook
	case a.Text != "":
		playbook, files["text"] = attachPlaybook, a.Text
	}
	vars["attach_files"], vars["slurm_user"] = files, cmp.Or(a.SlurmUser, "root")
	inv := newInventory(c, map[string]reconfigure.Instance{control.Node: control}, nil)
	if err := errors.Join(writeJSON(s.vars(), vars), s.writeInventory(r.sources(), inv)); err != nil {
		return err
	}
	seen, err := r.execute(ctx, executor{Runner: r, scratch: s, playbook: playbook}, func(event) {})
	failures, err := seen.verdicts(nodeset.Of(control.Node), err)
	if err = errors.Join(err, failures[control.Node]); err != nil {
		return fmt.Errorf("%s: %w", c.Control.Existing.Host, err)
	}
	return nil
}

// dangers returns dangers in the form that the modules read.
func dangers(all []reconfigure.Danger) []map[string]any {
	list := []map[string]any{}
	for _, d := range all {
		list = append(list, map[string]any{
			"nodes": d.Nodes.String(), "partition": d.Partition, "what": d.What, "unsure": d.Unsure})
	}
	return list
}
