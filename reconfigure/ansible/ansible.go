// Package ansible configures instances by the playbooks under ansible/, which go-ansible's command line starts and
// which tell us through a callback plugin of ours what becomes of each host; and it renders the inventory.
//
// Nodes succeed and fail one by one: a node that changed has failed if one of its tasks did, if it could not be
// reached, or if the run ended before its turn. What goes wrong on other nodes, which are only told of the new ones and
// given Slurm's configuration, is worth a note and nothing more.
package ansible

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Config is what a Runner works with.
type Config struct {
	Dir    string    // the cluster directory, absolute, with ansible/ and group_vars/; inventory.json is written there
	Binary string    // ansible-playbook; empty: looked up on PATH
	Env    []string  // the environment to start from, os.Environ() as a rule; Ansible's settings are taken out of it
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

// Configure configures the instances of the changed nodes, and tells the others what the extent says; a node that it
// does not name gets no task, and to one that is kept apart it does not log in. It may be repeated: what is as it
// should be stays untouched. Where the extent is everywhere, the control node is one of the changed nodes. The failures
// say of each changed node what its last failing task said. An error means that the results of the other nodes are
// unknown: the playbook could not be read, Ansible could not be started, or ctx ended; then each of them may be in any
// state, and the call may be retried.
//
// Watch hears the tasks that begin on changed nodes, and of trouble on the others. Done, which may be nil, hears the
// result of a changed node as soon as it is known, once: nil when its last task has ended, that is, when slurmd has
// started, or else what the failures say of it. It does not hear of nodes whose result is unknown when an error is
// returned. Neither may block; they are not called at once, but by goroutines of ours.
func (r *Runner) Configure(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance,
	extent reconfigure.Extent, watch func(node, message string), done func(node string, err error)) (
	reconfigure.Failures, error) {
	inv := newInventory(c, instances)
	static, err := inv.static()
	if err != nil {
		return nil, err
	}
	if err := renameio.WriteFile(filepath.Join(r.Dir, "inventory.json"), static, 0o644); err != nil {
		return nil, fmt.Errorf("write Ansible's inventory: %w", err)
	}
	extent = withControl(c, extent)
	results := results{done: done, told: map[string]bool{}}
	failures := inv.absent(c, extent.Changed)
	results.tell(failures)
	extent.Changed = extent.Changed.Difference(failures.Nodes())
	_, control := inv.hosts[c.Control.Name]
	if !control || extent.Changed.Empty() && (!extent.Addresses || len(failures) > 0) {
		return failures, nil
	}
	seen, err := r.play(ctx, c, inv, extent, watch, results)
	more, err := seen.verdicts(extent.Changed, err)
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", extent.Changed, err)
	}
	results.tell(more)
	results.wellFor(extent.Changed)
	maps.Copy(failures, more)
	return failures, nil
}

// results hands the result of each node over, once.
type results struct {
	done func(node string, err error)
	told map[string]bool
}

func (r results) of(node string, err error) {
	if r.done != nil && !r.told[node] {
		r.told[node] = true
		r.done(node, err)
	}
}

func (r results) tell(failures reconfigure.Failures) {
	for node, err := range failures {
		r.of(node, err)
	}
}

// wellFor is for nodes of which nothing was told, so nothing is wrong with them.
func (r results) wellFor(nodes nodeset.NodeSet) {
	for node := range nodes.All() {
		r.of(node, nil)
	}
}

// hear takes an event of the run.
func (r results) hear(e event, changed nodeset.NodeSet) {
	switch {
	case !e.final() || !changed.Contains(e.Host):
	case e.fails():
		r.of(e.Host, e.failure())
	default:
		r.of(e.Host, nil)
	}
}

// withControl has the control node be one of those that change where all nodes get another configuration of Slurm: they
// get what slurmctld has taken.
func withControl(c reconfigure.Cluster, extent reconfigure.Extent) reconfigure.Extent {
	if extent.Everywhere {
		extent.Changed = extent.Changed.Union(nodeset.Of(c.Control.Name))
	}
	return extent
}

// needed is the inventory of a run. Ansible takes time for each host that it knows, so it gets no others than those
// that the run is for, and the control node, from which they may have to be given something. The control node itself is
// told the addresses of all persistent nodes.
func (inv inventory) needed(c reconfigure.Cluster, extent reconfigure.Extent) inventory {
	control := nodeset.Of(c.Control.Name)
	if extent.Addresses || extent.Everywhere || !extent.Changed.Intersect(control).Empty() {
		return inv
	}
	return inv.only(extent.Changed.Union(control))
}

// play runs site.yml as far as the extent goes. The record is of use together with an error too.
func (r *Runner) play(ctx context.Context, c reconfigure.Cluster, inv inventory, extent reconfigure.Extent,
	watch func(node, message string), results results) (seen record, err error) {
	s, err := newScratch(c.Settings.StateDir)
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	inv = inv.needed(c, extent)
	limit := ""
	if inv.keepApart(extent.Apart) {
		limit = "all:!" + groupApart
	}
	if err := errors.Join(s.writeVars(c, extent), s.writeInventory(r.Dir, inv)); err != nil {
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
			results.hear(e, extent.Changed)
		})
	}()
	err = executor{Runner: r, scratch: s, limit: limit}.Execute(ctx)
	events.end()
	if lost := <-done; lost != nil && err == nil {
		err = fmt.Errorf("read what Ansible says of the hosts: %w", lost)
	}
	return seen, err
}

// scratch is the files of one run: what Ansible needs besides the cluster directory, and where it puts what it needs
// while it runs. The SSH sockets have a folder of their own with a short name, because the path of a socket cannot be
// longer than 108 bytes (unix(7)).
type scratch struct {
	home    string // Ansible's own folder, kept between runs; used instead of the one in HOME, which may be missing
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

// Sweep removes what runs have left behind in the state directory that were killed, and begun before that time. It MUST
// be so long ago that none is under way still.
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

func (s scratch) events() string    { return filepath.Join(s.dir, "events") }
func (s scratch) vars() string      { return filepath.Join(s.dir, "vars.json") }
func (s scratch) inventory() string { return filepath.Join(s.dir, "inventory.json") }

// writeVars hands the names over in a file, since thousands of them do not fit into an argument.
func (s scratch) writeVars(c reconfigure.Cluster, extent reconfigure.Extent) error {
	given := givenFile(c.Settings.StateDir)
	if c.Settings.Journal != "" {
		// Another control host may have changed the control node since this one kept anything, so it is asked in each
		// run.
		given = filepath.Join(s.dir, "given.json")
	}
	vars, err := json.Marshal(map[string]any{
		"reconfigure_changed":    append([]string{}, extent.Changed.Names()...),
		"reconfigure_addresses":  extent.Addresses,
		"reconfigure_everywhere": extent.Everywhere,
		"given_file":             given,
	})
	if err == nil {
		err = os.WriteFile(s.vars(), vars, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write Ansible's variables: %w", err)
	}
	return nil
}

// writeInventory writes the inventory of the run. Ansible looks for variables of groups and hosts beside it.
func (s scratch) writeInventory(dir string, inv inventory) error {
	static, err := inv.static()
	if err == nil {
		err = os.WriteFile(s.inventory(), static, 0o600)
	}
	for _, name := range []string{"group_vars", "host_vars"} {
		if err == nil {
			err = os.Symlink(filepath.Join(dir, name), filepath.Join(s.dir, name))
		}
	}
	if err != nil {
		return fmt.Errorf("write the inventory of Ansible's run: %w", err)
	}
	return nil
}

// close ends the SSH connections that Ansible has left open, and removes what only the run needed.
func (s scratch) close(ctx context.Context) error {
	return errors.Join(endMasters(ctx, s.sockets), os.RemoveAll(s.sockets), os.RemoveAll(s.dir))
}
