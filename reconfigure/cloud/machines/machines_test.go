package machines

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/cloudtest"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// room has machines whose states are files. Their command is a shell script.
type room struct {
	*testing.T
	client *Client
	dir    string

	lock   sync.Mutex
	nodes  map[string]reconfigure.Spec
	writes []string // the statuses that were written to the map of nodes, with the machine's state
	states map[string]reconfigure.NodeState
	silent error // Slurm does not answer
	logins []string
}

// script switches a machine. A file NODE.VERB has its own commands instead.
const script = `#!/bin/sh
cd "$(dirname "$0")" && echo "$1 $2" >> log
if [ -e "$2.$1" ]; then . "./$2.$1"; fi
case $1 in
state) cat "$2" ;;
*) echo "$1" > "$2" ;;
esac
`

func newRoom(t *testing.T) *room {
	t.Helper()
	r := &room{T: t, dir: t.TempDir(), nodes: map[string]reconfigure.Spec{}, states: map[string]reconfigure.NodeState{}}
	r.file("switch", script)
	r.file(File, fmt.Sprintf(`clouds:
  room:
    flavors:
      big:
        on: [%[1]s, "on", "{node}"]
        off: [%[1]s, "off", "{node}"]
        state: [%[1]s, state, "{node}"]
      gone: {on: [/no/command], off: [/no/command], state: [/no/command]}
      always: {}
    addresses: {ctl: 192.0.2.1, node1: 192.0.2.11, node2: 192.0.2.12, node3: 192.0.2.13}
    command_seconds: 1
    switch_seconds: 1
    shutdown_seconds: 1
`, filepath.Join(r.dir, "switch")))
	for _, node := range []string{"node1", "node2", "node3"} {
		r.file(node, "off\n")
	}
	var err error
	r.client, err = Open(t.Context(), reconfigure.Access{Cloud: "room", Dir: r.dir, Means: reconfigure.Means{
		Control: "ctl",
		Nodes: func(context.Context) (map[string]reconfigure.Spec, error) {
			r.lock.Lock()
			defer r.lock.Unlock()
			return maps.Clone(r.nodes), nil
		},
		KeepNodes: r.keep,
		Login: func(_ context.Context, i reconfigure.Instance, command []string) error {
			r.lock.Lock()
			defer r.lock.Unlock()
			r.logins = append(r.logins, i.Address+" "+strings.Join(command, " "))
			return errors.New("no route to host")
		},
		States: func(
			context.Context, reconfigure.Instance, nodeset.NodeSet,
		) (map[string]reconfigure.NodeState, error) {
			return r.states, r.silent
		},
		Environ: []string{"PATH=" + os.Getenv("PATH")},
	}})
	r.must(err)
	r.client.poll = 10 * time.Millisecond
	return r
}

func (r *room) keep(_ context.Context, shard string, nodes map[string]reconfigure.Spec) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	for node, spec := range r.nodes {
		if spec.Shard == shard {
			delete(r.nodes, node)
		}
	}
	maps.Copy(r.nodes, nodes)
	state, _ := os.ReadFile(filepath.Join(r.dir, shard))
	status := "none"
	if spec, there := nodes[shard]; there {
		status = string(spec.Status())
	}
	r.writes = append(r.writes, status+" while "+strings.TrimSpace(string(state)))
	return nil
}

func (r *room) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// file writes a file of the room with mode. Scripts are executable.
func (r *room) file(name, text string) {
	r.Helper()
	syscall.ForkLock.RLock() // or another test's child inherits the open script, which then cannot run
	defer syscall.ForkLock.RUnlock()
	r.must(os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o755))
}

// log returns the calls of the command since the last call of log, except queries of the state.
func (r *room) log() []string {
	text, _ := os.ReadFile(filepath.Join(r.dir, "log"))
	_ = os.Remove(filepath.Join(r.dir, "log"))
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "state ")
	})
}

func spec(node string, power reconfigure.Power) reconfigure.Spec {
	return reconfigure.Spec{
		Group: "standard", ImageID: existing, FlavorID: "big", NetworkID: existing, Power: power, Shard: node,
	}
}

// TestClientIsACloud tests the client with the contract's suite, with a command that is a program.
func TestClientIsACloud(t *testing.T) {
	cloudtest.TestCloud(t, func(t *testing.T) cloudtest.CloudSetup {
		r := newRoom(t)
		state := func(text string) func(string) string {
			return func(node string) string {
				r.file(node, text)
				r.nodes[node] = spec(node, "")
				return node
			}
		}
		return cloudtest.CloudSetup{
			Existing: true,
			Cloud:    r.client,
			Source:   reconfigure.Source{Image: existing, Flavor: "big", Network: existing},
			Resolved: reconfigure.Resolved{ImageID: existing, FlavorID: "big", NetworkID: existing},
			Make:     state("Chassis Power is on\n"),
			Break:    state("crashed\n"),
			Boots: func(id string) int {
				text, _ := os.ReadFile(filepath.Join(r.dir, "log"))
				return strings.Count(string(text), "on "+id+"\n")
			},
		}
	})
}

// apply carries out a change of node1 as an operation does.
func (r *room) apply(ctx context.Context, c reconfigure.Change) error {
	r.Helper()
	c.Node = "node1"
	plan := reconfigure.Plan{Changes: []reconfigure.Change{c}, Desired: map[string]reconfigure.Spec{}}
	if c.Action != reconfigure.Remove {
		plan.Desired["node1"] = c.Spec
	}
	shard := r.client.Shard("node1")
	preview, err := shard.Preview(r.Context(), plan)
	r.must(err)
	failures, err := shard.Apply(ctx, preview, func(string, string) {}, nil)
	return errors.Join(err, failures["node1"])
}

// TestMachinesAreSwitched carries out changes of a machine that is on or off, and checks the commands and the map of
// nodes before and after each of them.
func TestMachinesAreSwitched(t *testing.T) {
	on, off := spec("node1", ""), spec("node1", reconfigure.PowerOff)
	control := reconfigure.Spec{Group: "control", ImageID: existing, FlavorID: "always", NetworkID: existing}
	idle := reconfigure.NodeState{Node: "node1", Flags: reconfigure.NodeIdle | reconfigure.NodeCloud}
	soon := time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		state  string // of the machine
		before reconfigure.Spec
		change reconfigure.Change
		slurm  reconfigure.NodeState
		silent bool
		script string // of the command "off" or "on", after its verb
		ran    []string
		writes []string
		class  reconfigure.Class // of the failure; empty: there is none
	}{
		"a machine is taken in": {
			state: "off", change: reconfigure.Change{Action: reconfigure.Create, Spec: on, Deadline: soon},
			ran: []string{"on node1"}, writes: []string{"SHUTOFF while off", "ACTIVE while on"},
		},
		"one that runs is booted for Slurm": {
			state: "on", change: reconfigure.Change{Action: reconfigure.Create, Spec: on, Deadline: soon},
			ran: []string{"off node1", "on node1"}, writes: []string{"SHUTOFF while on", "ACTIVE while on"},
		},
		"one that runs is left running for a deploy": {
			state: "on", change: reconfigure.Change{Action: reconfigure.Create, Spec: on},
			writes: []string{"SHUTOFF while on", "ACTIVE while on"},
		},
		"one that Slurm uses is left alone": {
			state: "on", change: reconfigure.Change{Action: reconfigure.Create, Spec: on, Deadline: soon}, slurm: idle,
			class: reconfigure.ClassRefused,
		},
		"one of which Slurm does not say is left alone": {
			state: "on", change: reconfigure.Change{Action: reconfigure.Create, Spec: on, Deadline: soon}, silent: true,
			class: reconfigure.ClassRefused,
		},
		"another group": {
			state: "on", before: on, change: reconfigure.Change{Action: reconfigure.Replace, Spec: on},
			ran: []string{"off node1", "on node1"}, writes: []string{"SHUTOFF while on", "ACTIVE while on"},
		},
		"suspend": {
			state: "on", before: on, change: reconfigure.Change{Action: reconfigure.Stop, Spec: off},
			ran: []string{"off node1"}, writes: []string{"SHUTOFF while off"},
		},
		"suspend again": {
			state: "off", before: off, change: reconfigure.Change{Action: reconfigure.Stop, Spec: off},
		},
		"suspend after a worker died": {
			state: "off", before: on, change: reconfigure.Change{Action: reconfigure.Stop, Spec: off},
			writes: []string{"SHUTOFF while off"},
		},
		"resume": {
			state: "off", before: off, change: reconfigure.Change{Action: reconfigure.Start, Spec: on},
			ran: []string{"on node1"}, writes: []string{"ACTIVE while on"},
		},
		"resume after a worker died": {
			state: "on", before: off, change: reconfigure.Change{Action: reconfigure.Start, Spec: on},
			writes: []string{"ACTIVE while on"},
		},
		"shrink": {
			state: "on", before: on, change: reconfigure.Change{Action: reconfigure.Remove},
			ran: []string{"off node1"}, writes: []string{"none while off"},
		},
		"an address that is no longer declared": {
			state:  "on",
			before: reconfigure.Spec{Group: "standard", NetworkID: existing, Shard: "node1"},
			change: reconfigure.Change{Action: reconfigure.Remove}, writes: []string{"none while on"},
		},
		"the command fails": {
			state: "on", before: on, change: reconfigure.Change{Action: reconfigure.Stop, Spec: off},
			script: "off echo 'Unable to establish session' >&2; exit 1",
			ran:    []string{"off node1"}, class: reconfigure.ClassCloud,
		},
		"the command hangs": {
			state: "off", before: off, change: reconfigure.Change{Action: reconfigure.Start, Spec: on},
			script: "on exec sleep 60", ran: []string{"on node1"}, class: reconfigure.ClassCloud,
		},
		"the machine does not start": {
			state: "off", before: off, change: reconfigure.Change{Action: reconfigure.Start, Spec: on},
			script: "on exit 0", ran: []string{"on node1"}, class: reconfigure.ClassBoot,
		},
		"there is no power": {
			state: "off", before: off, change: reconfigure.Change{Action: reconfigure.Start, Spec: on},
			script: "on exit 75", ran: []string{"on node1"}, class: reconfigure.ClassCapacity,
		},
		"the command is a script without its program": {
			state: "off", before: off, change: reconfigure.Change{Action: reconfigure.Start, Spec: on},
			script: "on exit 127", ran: []string{"on node1"}, class: reconfigure.ClassMissing,
		},
		"the command is not there": {
			state: "off", before: reconfigure.Spec{Group: "standard", ImageID: existing, FlavorID: "gone", Shard: "node1"},
			change: reconfigure.Change{Action: reconfigure.Remove}, class: reconfigure.ClassMissing,
		},
		"the state is unknown": {
			state: "off", before: off, change: reconfigure.Change{Action: reconfigure.Start, Spec: on},
			script: "state exit 1", class: reconfigure.ClassCloud,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait for a time limit
			r := newRoom(t)
			r.file("node1", tc.state+"\n")
			r.nodes["ctl"] = control
			if tc.before.Group != "" {
				r.nodes["node1"] = tc.before
			}
			r.states["node1"] = tc.slurm
			if tc.silent {
				r.silent = errors.New("no answer")
			}
			if verb, text, ok := strings.Cut(tc.script, " "); ok {
				r.file("node1."+verb, text)
			}
			err := r.apply(t.Context(), tc.change)
			if (err == nil) != (tc.class == "") || err != nil && reconfigure.ClassOf(err) != tc.class {
				t.Errorf("error %v of class %s, want class %q", err, reconfigure.ClassOf(err), tc.class)
			}
			if diff := cmp.Diff(tc.ran, r.log(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.writes, r.writes); diff != "" {
				t.Errorf("the map of nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAFailureHasTheWordsOfTheCommand makes a command fail whose arguments must not be shown.
func TestAFailureHasTheWordsOfTheCommand(t *testing.T) {
	r := newRoom(t)
	r.nodes["node1"] = spec("node1", "")
	r.file("node1", "on\n")
	r.file("node1.off", "echo begins; printf 'two lines\nUnable to establish session\n\n' >&2; exit 3\n")
	err := r.apply(t.Context(), reconfigure.Change{Action: reconfigure.Stop, Spec: spec("node1", reconfigure.PowerOff)})
	want := r.client.table.Flavors["big"].Off[0] + " for node1 ended with exit code 3: Unable to establish session"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if want := []string{"192.0.2.11 sudo -n systemctl --no-block poweroff"}; !slices.Equal(r.logins, want) {
		t.Errorf("logins %q, want %q", r.logins, want)
	}
}

// TestAShutdownSparesTheCommand makes a machine shut down by itself.
func TestAShutdownSparesTheCommand(t *testing.T) {
	r := newRoom(t)
	r.nodes["node1"] = spec("node1", "")
	r.file("node1", "on\n")
	r.client.access.Means.Login = func(context.Context, reconfigure.Instance, []string) error {
		return os.WriteFile(filepath.Join(r.dir, "node1"), []byte("off\n"), 0o644)
	}
	r.must(r.apply(t.Context(), reconfigure.Change{
		Action: reconfigure.Stop, Spec: spec("node1", reconfigure.PowerOff),
	}))
	if ran := r.log(); len(ran) > 0 || !r.nodes["node1"].Stopped() {
		t.Errorf("ran %q, and the map of nodes has %+v", ran, r.nodes)
	}
}

// TestAWorkerThatEndsWritesNothing ends a worker while it switches a machine on: the next worker finds the machine
// stopped.
func TestAWorkerThatEndsWritesNothing(t *testing.T) {
	r := newRoom(t)
	r.client.table.CommandSeconds = 60
	ctx, cancel := context.WithCancelCause(t.Context())
	died := errors.New("killed")
	r.file("node1.on", "touch began; exec sleep 60\n")
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(r.dir, "began")); err == nil {
				cancel(died)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	create := reconfigure.Change{Action: reconfigure.Create, Spec: spec("node1", ""), Deadline: time.Now().Add(time.Hour)}
	if err := r.apply(ctx, create); !errors.Is(err, died) {
		t.Error(err)
	}
	if !r.nodes["node1"].Stopped() {
		t.Errorf("the map of nodes has %+v", r.nodes)
	}
	r.must(os.Remove(filepath.Join(r.dir, "node1.on")))
	r.must(r.apply(t.Context(), reconfigure.Change{Action: reconfigure.Start, Spec: spec("node1", "")}))
	if state, err := r.client.Shard("node1").State(t.Context()); err != nil ||
		state.Instances["node1"].Made != spec("node1", "") || state.Instances["node1"].Address != "192.0.2.11" {
		t.Errorf("%+v, error %v", state, err)
	}
}

// TestARebootOutlastsPassingFailures makes each command of a reboot fail once.
func TestARebootOutlastsPassingFailures(t *testing.T) {
	r := newRoom(t)
	r.nodes["node1"] = spec("node1", "")
	r.file("node1", "on\n")
	for _, verb := range []string{"on", "off"} {
		r.file("node1."+verb, "rm node1."+verb+"; exit 1\n")
	}
	r.must(r.client.Reboot(t.Context(), "node1"))
	if ran, want := r.log(), []string{"off node1", "off node1", "on node1", "on node1"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
	r.file("node1.off", "exit 127\n")
	if err := r.client.Reboot(t.Context(), "node1"); reconfigure.ClassOf(err) != reconfigure.ClassMissing {
		t.Error(err)
	}
	if ran := r.log(); !slices.Equal(ran, []string{"off node1"}) {
		t.Errorf("ran %q for a failure that does not pass", ran)
	}
}

// TestTheStateIsTheLastWord parses what commands print about a machine.
func TestTheStateIsTheLastWord(t *testing.T) {
	m := machine{node: "node1", flavor: Flavor{State: []string{"state"}}}
	for printed, want := range map[string]reconfigure.ServerStatus{
		"Chassis Power is on\n": statusOn, "Chassis Power is off": statusOff, "running\n\n": statusOn,
		"shut off\n\n": statusOff, "\"On\"": statusOn, "crashed": statusError,
		"": statusUnknown, "paused": statusUnknown, "off or on?": statusUnknown, "power": statusUnknown,
	} {
		if got, err := parseStatus(m, printed); got != want || (err != nil) != (want == statusUnknown) {
			t.Errorf("%q is %s, error %v, want %s", printed, got, err, want)
		}
	}
}

// TestAMachineThatDoesNotSayIsUnknown lists a machine whose command fails, beside one that answers.
func TestAMachineThatDoesNotSayIsUnknown(t *testing.T) {
	r := newRoom(t)
	r.nodes["node1"], r.nodes["node2"] = spec("node1", ""), spec("node2", reconfigure.PowerOff)
	r.nodes["node3"] = reconfigure.Spec{NetworkID: existing, Shard: "node3"} // out of service
	r.file("node1.state", "echo timeout >&2; exit 1\n")
	servers, err := r.client.Servers(t.Context(), nodeset.NodeSet{})
	r.must(err)
	if len(servers) != 2 || servers["node2"][0].Status != statusOff || servers["node1"][0].Status != statusUnknown ||
		!strings.HasSuffix(servers["node1"][0].Fault.Words, "exit code 1: timeout") {
		t.Errorf("%+v", servers)
	}
}

// TestAMachineThatHangsDelaysNoOther lists machines when the command of one hangs for longer than a list waits.
func TestAMachineThatHangsDelaysNoOther(t *testing.T) {
	r := newRoom(t)
	r.client.table.CommandSeconds = 60
	r.nodes["node1"], r.nodes["node2"] = spec("node1", ""), spec("node2", "")
	r.file("node1.state", "while ! [ -e go ]; do sleep 0.02; done; echo on; exit\n")
	r.file("node2", "on\n")
	for range 2 { // the command runs only once
		servers, err := r.client.Servers(t.Context(), nodeset.NodeSet{})
		r.must(err)
		if servers["node1"][0].Status != statusUnknown || !servers["node2"][0].Active() {
			t.Errorf("%+v", servers)
		}
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "log"))
	r.must(err)
	if asked := strings.Count(string(text), "state node1"); asked != 1 {
		t.Errorf("node1 was asked for %d times", asked)
	}
	r.file("go", "")
	for deadline := time.Now().Add(time.Minute); ; {
		servers, err := r.client.Servers(t.Context(), nodeset.NodeSet{})
		r.must(err)
		if servers["node1"][0].Active() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", servers)
		}
	}
}

// TestAnOperationWaitsForTheSwitch previews the changes of a machine: none may be delivered before Apply has ended.
func TestAnOperationWaitsForTheSwitch(t *testing.T) {
	r := newRoom(t)
	r.nodes["node1"] = spec("node1", "")
	shard := r.client.Shard("node1")
	for action, want := range map[reconfigure.Action]reconfigure.Effect{
		reconfigure.Create:  "", // already in service
		reconfigure.Replace: reconfigure.EffectReplace, reconfigure.Start: reconfigure.EffectStart,
		reconfigure.Stop: reconfigure.EffectStop, reconfigure.Remove: reconfigure.EffectDelete,
		reconfigure.Configure: "",
	} {
		plan := reconfigure.Plan{
			Changes: []reconfigure.Change{{Node: "node1", Action: action, Spec: spec("node1", "")}},
			Desired: map[string]reconfigure.Spec{"node1": spec("node1", ""), "node2": spec("node2", "")},
		}
		preview, err := shard.Preview(t.Context(), plan)
		r.must(err)
		var all []reconfigure.ResourceChange
		if want != "" {
			all = append(all, reconfigure.ResourceChange{Address: "machine.node1", Node: "node1", Effect: want})
		}
		if diff := cmp.Diff(all, preview.Changes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", action, diff)
		}
	}
	if ran := r.log(); len(ran) > 0 {
		t.Errorf("ran %q", ran)
	}
}

// TestTheTableIsChecked reads tables with one mistake each.
func TestTheTableIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		`{flavors: {big: {}}}`: "",
		`{flavors: {big: {on: [a], off: [b], state: [c]}}, shutdown: []}`: "",
		`{}`:                                               "flavors is empty",
		`{flavors: {big: {on: [a], off: [b]}}}`:            "flavor big: set all of on, off and state, or none",
		`{flavors: {big: {on: a b c}}}`:                    "cannot unmarshal",
		`{flavors: {big: {}}, adresses: {}}`:               "adresses",
		`{flavors: {big: {}}, addresses: {node1: "::1"}}`:  "::1 is not an IPv4 address",
		`{flavors: {big: {}}, addresses: {node1: router}}`: "router",
		`{flavors: {big: {}}, command_seconds: 0}`:         "less than 1",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, File), []byte("clouds: {room: "+text+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Check(reconfigure.Access{Dir: dir, Cloud: "room"})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// TestTheDeclarationIsChecked places the nodes of declarations.
func TestTheDeclarationIsChecked(t *testing.T) {
	table := Table{Flavors: map[string]Flavor{
		"always": {}, "big": {On: []string{"a"}, Off: []string{"b"}, State: []string{"c"}},
	}}
	good := reconfigure.Source{Image: existing, Flavor: "big", Network: existing}
	for name, tc := range map[string]struct {
		change func(*reconfigure.Source, *reconfigure.NodeGroup)
		want   string
	}{
		"good":          {func(*reconfigure.Source, *reconfigure.NodeGroup) {}, ""},
		"always on":     {func(_ *reconfigure.Source, g *reconfigure.NodeGroup) { g.Flavor, g.Min = "always", 2 }, ""},
		"image":         {func(_ *reconfigure.Source, g *reconfigure.NodeGroup) { g.Image = "debian-13" }, "debian-13"},
		"control image": {func(c *reconfigure.Source, _ *reconfigure.NodeGroup) { c.Image = "debian-13" }, "control_node"},
		"network":       {func(_ *reconfigure.Source, g *reconfigure.NodeGroup) { g.Network = "net" }, "network: net"},
		"never off":     {func(_ *reconfigure.Source, g *reconfigure.NodeGroup) { g.Flavor = "always" }, "min_nodes to 2"},
	} {
		t.Run(name, func(t *testing.T) {
			control, g := good, reconfigure.NodeGroup{Name: "g", Prefix: "n", Width: 1, Max: 2, Source: good}
			tc.change(&control, &g)
			places, err := place(table, reconfigure.Cluster{
				Control: reconfigure.Control{Name: "ctl", Source: control}, Groups: []reconfigure.NodeGroup{g},
			})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if want := map[string]string{"ctl": "", "n1": "n1", "n2": "n2"}; !maps.Equal(places, want) {
				t.Errorf("places %v, want %v", places, want)
			}
		})
	}
}
