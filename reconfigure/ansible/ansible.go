// Package ansible configures instances by the playbooks under ansible/, which go-ansible's command line starts and which tell us through a callback plugin of ours
// what becomes of each host; and it renders the inventory.
//
// Nodes succeed and fail one by one: a node that changed has failed if one of its tasks did, if it could not be reached, or if the run ended before its turn. What
// goes wrong on other nodes, which are only told of the new ones and given Slurm's configuration, is worth a note and nothing more.
package ansible

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Config is what a Runner works with.
type Config struct {
	Dir    string    // the cluster directory, absolute: ansible/ and group_vars/ are in it, and inventory.json is written there
	Binary string    // ansible-playbook; empty: looked up on PATH
	Env    []string  // the environment to start from, os.Environ() as a rule; settings of Ansible's in it do not reach it
	Log    io.Writer // gets Ansible's own output; it need not be safe for concurrent use
}

// Runner runs the playbooks of one cluster directory. One run at a time: the inventory file is theirs in common.
type Runner struct{ Config }

// New makes a Runner. Nothing is looked at or started before Configure.
func New(c Config) *Runner {
	if c.Binary == "" {
		c.Binary = "ansible-playbook"
	}
	return &Runner{Config: c}
}

// Configure writes the inventory, tells all instances of each other, and configures those of the changed nodes; to nodes that are kept apart it does not log in. It may be repeated: what is as it should be stays
// untouched. Where the extent is everywhere, the control node is one of the changed nodes. The failures say of each changed node what its last failing task said. An error means that there are no verdicts: the playbook could not be
// read, Ansible could not be started, or ctx ended; then each changed node may be in any state, and the call may be retried.
//
// Watch hears the tasks that begin on changed nodes, and of trouble on the others; it must not block.
func (r *Runner) Configure(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance, extent reconfigure.Extent,
	watch func(node, message string)) (reconfigure.Failures, error) {
	inv := newInventory(c, instances)
	limit := ""
	if inv.keepApart(extent.Apart) {
		limit = "all:!" + groupApart
	}
	static, err := inv.static()
	if err != nil {
		return nil, err
	}
	if err := renameio.WriteFile(filepath.Join(r.Dir, "inventory.json"), static, 0o644); err != nil {
		return nil, fmt.Errorf("write Ansible's inventory: %w", err)
	}
	extent = withControl(c, extent)
	failures := inv.absent(c, extent.Changed)
	failed := make([]string, 0, len(failures))
	for node := range failures {
		failed = append(failed, node)
	}
	rest := extent.Changed.Difference(nodeset.Of(failed...))
	if _, ok := inv.hosts[c.Control.Name]; !ok || rest.Empty() && !extent.Changed.Empty() {
		return failures, nil
	}
	seen, err := r.play(ctx, c.Settings.StateDir, limit, reconfigure.Extent{Changed: rest, Everywhere: extent.Everywhere}, watch)
	more, err := seen.verdicts(rest, err)
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", rest, err)
	}
	for node, err := range more {
		failures[node] = err
	}
	return failures, nil
}

// withControl has the control node be one of those that change where all nodes get another configuration of Slurm: they get what slurmctld has taken.
func withControl(c reconfigure.Cluster, extent reconfigure.Extent) reconfigure.Extent {
	if extent.Everywhere {
		extent.Changed = extent.Changed.Union(nodeset.Of(c.Control.Name))
	}
	return extent
}

// play runs site.yml as far as the extent goes, on the hosts that the pattern limits it to; empty: on all. The record is of use together with an error too.
func (r *Runner) play(ctx context.Context, stateDir, limit string, extent reconfigure.Extent, watch func(node, message string)) (seen record, err error) {
	s, err := newScratch(stateDir)
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if err := s.writeVars(extent); err != nil {
		return seen, err
	}
	events, err := listen(s.events())
	if err != nil {
		return seen, err
	}
	done := make(chan error, 1)
	go func() {
		done <- events.read(func(e event) {
			seen.add(e)
			e.tell(extent.Changed, watch)
		})
	}()
	err = executor{Runner: r, scratch: s, limit: limit}.Execute(ctx)
	events.end()
	if lost := <-done; lost != nil && err == nil {
		err = fmt.Errorf("read what Ansible says of the hosts: %w", lost)
	}
	return seen, err
}

// scratch is the files of one run: what Ansible needs besides the cluster directory, and where it puts what it needs while it runs. The SSH sockets have a
// folder of their own with a short name, because the path of a socket cannot be longer than 108 bytes (unix(7)).
type scratch struct {
	home    string // Ansible's own folder: it is there between runs, and it is used instead of the one in HOME, which may be missing
	dir     string
	sockets string
}

func newScratch(stateDir string) (scratch, error) {
	s := scratch{home: filepath.Join(stateDir, "ansible")}
	err := os.MkdirAll(s.home, 0o700)
	if err == nil {
		s.dir, err = os.MkdirTemp(s.home, scratchPrefix)
	}
	if err == nil {
		s.sockets, err = os.MkdirTemp("/tmp", "reconfigure-")
	}
	if err != nil {
		return scratch{}, fmt.Errorf("make a folder for Ansible's run: %w", errors.Join(err, os.RemoveAll(s.dir)))
	}
	return s, nil
}

const scratchPrefix = "run-"

// Sweep removes what runs have left behind in the state directory that were killed, and begun before that time. It MUST be so long ago that none is under way still.
func Sweep(stateDir string, before time.Time) error {
	left, err := filepath.Glob(filepath.Join(stateDir, "ansible", scratchPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		info, err := os.Stat(dir)
		if err == nil && info.ModTime().Before(before) {
			err = os.RemoveAll(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what a run of Ansible's has left: %w", err)
		}
	}
	return nil
}

func (s scratch) events() string { return filepath.Join(s.dir, "events") }
func (s scratch) vars() string   { return filepath.Join(s.dir, "vars.json") }

// writeVars hands the names over in a file, since thousands of them do not fit into an argument.
func (s scratch) writeVars(extent reconfigure.Extent) error {
	vars, err := json.Marshal(map[string]any{
		"reconfigure_changed":    append([]string{}, extent.Changed.Names()...),
		"reconfigure_everywhere": extent.Everywhere,
	})
	if err == nil {
		err = os.WriteFile(s.vars(), vars, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write Ansible's variables: %w", err)
	}
	return nil
}

// close ends the SSH connections that Ansible has left open, and removes what only the run needed.
func (s scratch) close(ctx context.Context) error {
	return errors.Join(endMasters(ctx, s.sockets), os.RemoveAll(s.sockets), os.RemoveAll(s.dir))
}
