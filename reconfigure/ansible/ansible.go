// Package ansible configures instances with the playbooks under ansible/, and renders the inventory. go-ansible
// builds the command line; our callback plugin reports the events of each host.
//
// Each changed node has its own result: it has failed if one of its tasks failed, if it was unreachable, or if the
// run ended before its tasks. A failure on another node, which only gets addresses and Slurm's configuration, is
// logged and fails nothing.
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
	"slices"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process/sockets"
	"github.com/eiffel-hpc/eiffel/reconfigure/sitefiles"
)

// Config is the configuration of a Runner.
type Config struct {
	Dir string // the cluster directory, absolute, with group_vars/; inventory.json is written there
	// Program is the folder with ansible/ and slurmscripts/ of the program; empty: Dir, a checkout. With it, Dir is a
	// site folder, whose ansible/ has its own roles, files and variables.
	Program string
	// Command is the path of the program that Slurm's keys may run on the control hosts; empty: bin/reconfigure in the
	// declared cluster directory.
	Command string
	Binary  string    // ansible-playbook; empty: looked up on PATH
	Env     []string  // the base environment, normally os.Environ(); Ansible's settings are removed from it
	Log     io.Writer // gets Ansible's own output; it need not be safe for concurrent use
}

// Runner runs the playbooks of one cluster directory. Only one run may be under way at a time, since all use the same
// inventory file.
type Runner struct {
	Config
	preparing sync.Mutex // held while a process waits, or starts to
	lock      sync.Mutex
	waiting   *prepared
}

// New returns a Runner. It reads nothing and starts nothing.
func New(c Config) *Runner {
	if c.Binary == "" {
		c.Binary = "ansible-playbook"
	}
	return &Runner{Config: c}
}

// Configure configures the instances of the changed nodes. The other nodes get what the extent says; Configure does
// not log in to those of extent.Apart. It may be repeated: it does not change what is as declared. If the extent is
// Everywhere, the control node is one of the changed nodes. The failures have the message of the last failed task of
// each changed node that failed. A node without a result, because the run ended at another host or the control host
// failed, has reconfigure.ClassAnsible. An error means that the results are unknown: the playbook could not be read,
// Ansible could not be started, or ctx ended. Then each node may be in any state, and the call may be retried.
//
// watch is called for each task that begins on a changed node, and for each failure on another one. done, which may
// be nil, is called once for each changed node, as soon as its result is known: with nil when its last task has
// ended, that is, when slurmd has started; else with its failure. It is not called for nodes whose results are
// unknown when an error is returned. Both are called by other goroutines, one call at a time, and must not block.
func (r *Runner) Configure(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance,
	extent reconfigure.Extent, watch func(node, message string),
	done func(node string, seen reconfigure.Configured, err error)) (reconfigure.Failures, error) {
	site, err := sitefiles.Read(r.Dir)
	if err != nil {
		return nil, err
	}
	inv := newInventory(c, instances, site)
	static, err := inv.static()
	if err != nil {
		return nil, err
	}
	if err := renameio.WriteFile(filepath.Join(r.Dir, "inventory.json"), static, 0o644); err != nil {
		return nil, fmt.Errorf("write Ansible's inventory: %w", err)
	}
	extent = withControl(c, extent)
	results := results{done: done, told: map[string]bool{}, seen: map[string]reconfigure.Configured{}}
	failures := inv.absent(c, extent.Changed)
	results.tell(failures)
	extent.Changed = extent.Changed.Difference(failures.Nodes())
	_, control := inv.hosts[c.Control.Name]
	if !control || extent.Changed.Empty() && (!extent.Addresses || len(failures) > 0) {
		return failures, nil
	}
	seen, err := r.play(ctx, c, instances, inv, extent, watch, results)
	more, err := seen.verdicts(extent.Changed, err)
	if err != nil {
		return nil, fmt.Errorf("the playbooks ended without results: %w", err)
	}
	results.tell(more)
	results.wellFor(extent.Changed)
	maps.Copy(failures, more)
	return failures, nil
}

// results calls done with the result of each node, once.
type results struct {
	done func(node string, seen reconfigure.Configured, err error)
	told map[string]bool
	seen map[string]reconfigure.Configured
}

func (r results) of(node string, err error) {
	if r.done != nil && !r.told[node] {
		r.told[node] = true
		r.done(node, r.seen[node], err)
	}
}

func (r results) tell(failures reconfigure.Failures) {
	for node, err := range failures {
		r.of(node, err)
	}
}

// wellFor reports success for the nodes that have no result yet.
func (r results) wellFor(nodes nodeset.NodeSet) {
	for node := range nodes.All() {
		r.of(node, nil)
	}
}

// hear reports the result in an event of the run, if it has one.
func (r results) hear(e event, changed nodeset.NodeSet) {
	if !changed.Contains(e.Host) {
		return
	}
	r.seen[e.Host] = e.seen(r.seen[e.Host])
	switch {
	case !e.final():
	case e.fails():
		r.of(e.Host, e.failure())
	default:
		r.of(e.Host, nil)
	}
}

// withControl adds the control node to the changed nodes if all nodes get a new configuration of Slurm, since they
// get the one that slurmctld has accepted.
func withControl(c reconfigure.Cluster, extent reconfigure.Extent) reconfigure.Extent {
	if extent.Everywhere && !c.Attached() {
		extent.Changed = extent.Changed.Union(nodeset.Of(c.Control.Name))
	}
	return extent
}

// needed returns the inventory of a run. Ansible takes time for each host in it, so it has only the changed nodes and
// the control node, from which they may need files. A run that changes the control node or distributes addresses has
// all hosts.
func (inv inventory) needed(c reconfigure.Cluster, extent reconfigure.Extent) inventory {
	control := nodeset.Of(c.Control.Name)
	if extent.Addresses || !extent.Changed.Intersect(control).Empty() {
		return inv
	}
	return inv.only(extent.Changed.Union(control))
}

// play runs site.yml for the extent. The record is valid also when there is an error.
func (r *Runner) play(ctx context.Context, c reconfigure.Cluster, instances map[string]reconfigure.Instance,
	inv inventory, extent reconfigure.Extent, watch func(node, message string), results results) (
	seen record, err error) {
	if err := setDamagedAside(givenFile(c.Settings.StateDir)); err != nil {
		return seen, err
	}
	inv = inv.needed(c, extent)
	e := executor{Runner: r, playbook: playbookFor(c, extent)}
	if inv.keepApart(extent.Apart) {
		e.limit = "all:!" + groupApart
	} else if e.ready = r.take(e.playbook); e.ready != nil {
		e.scratch = e.ready.scratch
	}
	if e.ready == nil {
		if e.scratch, err = newScratch(c.Settings.StateDir); err != nil {
			return seen, err
		}
	}
	defer func() { err = errors.Join(err, e.scratch.close(ctx)) }()
	err = errors.Join(e.scratch.writeVars(c, extent, r.varsOf(c)), e.scratch.writeInventory(r.sources(), inv))
	if err != nil {
		if e.ready != nil {
			e.ready.end(err)
		}
		return seen, err
	}
	measured := map[string]string{}
	seen, err = r.execute(ctx, e, func(e event) {
		e.tell(extent.Changed, watch)
		results.hear(e, extent.Changed)
		if e.Event == eventDone {
			measured[e.Host] = e.Hardware
		}
	})
	if lost := keepMeasured(c, instances, extent.Changed, measured); lost != nil {
		watch(c.Control.Name, lost.Error()) // this does not fail the nodes
	}
	return seen, err
}

// execute runs a playbook and calls hear with its events, after they are in the record.
func (r *Runner) execute(ctx context.Context, e executor, hear func(event)) (seen record, err error) {
	events, err := e.listen()
	if err != nil {
		return seen, err
	}
	done := make(chan error, 1)
	go func() {
		done <- events.read(func(e event) {
			seen.add(e)
			hear(e)
		})
	}()
	err = explained(e.Execute(ctx), r.Dir, r.sources().names(e.scratch.dir))
	events.end()
	if lost := <-done; lost != nil && err == nil {
		err = fmt.Errorf("read Ansible's events: %w", lost)
	}
	return seen, err
}

// scratch has the folders of one run: Ansible's input beside the cluster directory, and its temporary files. The SSH
// sockets have their own folder.
type scratch struct {
	home    string // Ansible's folder, which stays between runs; HOME may not exist
	dir     string
	sockets sockets.Dir
}

func newScratch(stateDir string) (scratch, error) {
	s := scratch{home: filepath.Join(stateDir, "ansible")}
	err := os.MkdirAll(s.home, 0o700)
	if err == nil {
		s.dir, err = os.MkdirTemp(s.home, scratchPrefix)
	}
	if err == nil {
		s.sockets, err = sockets.New()
	}
	if err != nil {
		return scratch{}, fmt.Errorf("make a folder for Ansible's run: %w", errors.Join(err, os.RemoveAll(s.dir)))
	}
	return s, nil
}

const scratchPrefix = "run-"

// Sweep removes the folders of killed runs from the state directory that were made before that time. The time MUST be
// so long ago that none of those runs is still in progress.
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
			return fmt.Errorf("remove the folder of an old run of Ansible: %w", err)
		}
	}
	return nil
}

func (s scratch) events() string    { return filepath.Join(s.dir, "events") }
func (s scratch) vars() string      { return filepath.Join(s.dir, "vars.json") }
func (s scratch) slurmConf() string { return filepath.Join(s.dir, "slurmconf.json") }
func (s scratch) hardware() string  { return filepath.Join(s.dir, "hardware.json") }
func (s scratch) inventory() string { return filepath.Join(s.dir, "inventory.json") }

// pipe is for the variables of an Ansible that starts before they are known.
func (s scratch) pipe() string { return filepath.Join(s.dir, "vars") }

// writeVars writes the variables to a file, since thousands of names do not fit into an argument.
func (s scratch) writeVars(c reconfigure.Cluster, extent reconfigure.Extent, vars map[string]any) error {
	given := givenFile(c.Settings.StateDir)
	if c.Settings.Journal != "" || c.Attached() {
		// The site, or another control host, may have changed the control node since this one wrote its file. So each run
		// reads it again.
		given = filepath.Join(s.dir, "given.json")
	}
	maps.Copy(vars, map[string]any{
		"reconfigure_changed":    append([]string{}, extent.Changed.Names()...),
		"reconfigure_addresses":  extent.Addresses,
		"reconfigure_everywhere": extent.Everywhere,
		"reconfigure_hardware":   slices.Sorted(maps.Values(toMeasure(c, extent.Changed))),
		"given_file":             given,
	})
	if extent.Conf != nil {
		// The file stays for runs of the playbooks by hand.
		if err := writeHardware(hardwareFile(c.Settings.StateDir), extent.Conf.Hardware); err != nil {
			return err
		}
		// The configuration is in a separate file, since Ansible evaluates variables as templates.
		vars["slurm_conf_file"] = s.slurmConf()
		if err := writeJSON(s.slurmConf(), plannedConf(*extent.Conf)); err != nil {
			return err
		}
	}
	return writeJSON(s.vars(), vars)
}

// setDamagedAside renames a file that is not JSON, for example after a power failure, so that the playbooks read its
// content from the control node again. It is kept, since it may have the only copy of the munge key.
func setDamagedAside(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && json.Valid(text) {
		return nil
	}
	if err == nil {
		err = os.Rename(path, path+".damaged")
	}
	if err != nil {
		return fmt.Errorf("read what the compute nodes get: %w", err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write Ansible's variables: %w", err)
	}
	return nil
}

// writeInventory writes the inventory of the run. Ansible reads the variables of groups and hosts from the same folder.
func (s scratch) writeInventory(from sources, inv inventory) error {
	static, err := inv.static()
	if err == nil {
		err = os.WriteFile(s.inventory(), static, 0o600)
	}
	if err == nil {
		err = from.link(s.dir)
	}
	if err != nil {
		return fmt.Errorf("write the inventory of Ansible's run: %w", err)
	}
	return nil
}

// close ends the SSH connections that Ansible left open, and removes the files of the run.
func (s scratch) close(ctx context.Context) error {
	return errors.Join(endMasters(ctx, s.sockets.Path), s.sockets.Remove(), os.RemoveAll(s.dir))
}
