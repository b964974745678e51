package slurm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// bySuspended is how slurm_commands.py lists the nodes of suspended jobs.
const bySuspended = "squeue --noheader --all --states=SUSPENDED --format=%N"

var booted = time.Unix(1795175097, 0)

func TestStatesOf2205(t *testing.T) {
	s := release2205(t)
	got, err := s.client(false).States(t.Context(), nodeset.NodeSet{})
	if err != nil {
		t.Fatal(err)
	}
	down := reconfigure.NodeCloud | reconfigure.NodePoweredDown
	up := reconfigure.NodeMixed | reconfigure.NodeCloud | reconfigure.NodeNotResponding | reconfigure.NodePoweringUp
	const at = "192.0.2.1"
	want := map[string]reconfigure.NodeState{
		"p1":   {Node: "p1", Address: at, Flags: reconfigure.NodeIdle, Boot: booted, Busy: true}, // its job is suspended
		"p2":   {Node: "p2", Address: at, Flags: reconfigure.NodeMixed, Boot: booted, Busy: true},
		"c001": {Node: "c001", Address: at, Flags: reconfigure.NodeDown | down, Reason: `reconfigure: it's "bad" \ $x é`},
		"c002": {Node: "c002", Address: at, Flags: reconfigure.NodeIdle | down},
		"c003": {Node: "c003", Address: at, Flags: up, Busy: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStatesOfLaterReleases(t *testing.T) {
	s := later(t)
	got, err := s.client(false).States(t.Context(), nodeset.NodeSet{})
	if err != nil {
		t.Fatal(err)
	}
	down := reconfigure.NodeCloud | reconfigure.NodePoweredDown
	up := reconfigure.NodeAllocated | reconfigure.NodeCloud | reconfigure.NodeNotResponding | reconfigure.NodePoweringUp
	completing := reconfigure.NodeIdle | reconfigure.NodeCompleting
	const reason = "reconfigure: No valid host was found"
	want := map[string]reconfigure.NodeState{
		"p1":   {Node: "p1", Address: "p1", Flags: reconfigure.NodeIdle, Boot: booted},
		"p2":   {Node: "p2", Address: "p2", Flags: reconfigure.NodeMixed, Boot: booted, Busy: true},
		"p3":   {Node: "p3", Address: "p3", Flags: completing, Boot: booted, Busy: true},
		"c001": {Node: "c001", Address: "c001", Flags: reconfigure.NodeDown | down, Reason: reason},
		"c002": {Node: "c002", Address: "c002", Flags: reconfigure.NodeIdle | down},
		"c003": {Node: "c003", Address: "c003", Flags: up, Busy: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStatesOf2411(t *testing.T) {
	s := newTools(t, map[string]string{"scontrol": print(t, "scontrol-24.11.json"), "sinfo": noJSON, "squeue": ""})
	got, err := s.client(false).States(t.Context(), nodeset.NodeSet{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]reconfigure.NodeState{
		"node01": {Node: "node01", Address: "node01", Boot: time.Unix(1795353937, 0), Returns: true,
			IdleSince: time.Unix(1795354051, 0),
			Flags:     reconfigure.NodeDown | reconfigure.NodeDrain | reconfigure.NodeRebootIssued,
			Reason:    "maintenance : reboot issued"},
		"node02": {Node: "node02", Address: "node02", Reason: "reconfigure: conformance",
			Flags: reconfigure.NodeIdle | reconfigure.NodeCloud | reconfigure.NodePoweredDown},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// If an empty list were accepted, no node would seem to have a job.
func TestStatesAreAnErrorWhereTheAnswerIsNotComplete(t *testing.T) {
	for name, test := range map[string]struct {
		tool, script string
		want         string // in the error
	}{
		"nodes cannot be listed, exit status 0": {"sinfo", print(t, "sinfo-22.05-unreachable.json"), "Unspecified error"},
		"nodes cannot be listed":                {"sinfo", unreachably, "Unable to contact slurm controller"},
		"jobs cannot be listed":                 {"squeue", unreachably, "Unable to contact slurm controller"},
		"jobs listed on nonsense":               {"squeue", "echo 'c[1-'", "suspended jobs"},
		"no tool lists nodes":                   {"sinfo", noJSON, "sinfo: unrecognized option"},
		"nodes cut off":                         {"sinfo", "echo '{\"nodes\": [{\"name\": \"p1\"'", "unexpected"},
		"another list":                          {"sinfo", `echo '{"sinfo": [], "errors": []}'`, "has no list of nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := release2205(t)
			s.set(test.tool, test.script)
			got, err := s.client(false).States(t.Context(), nodeset.NodeSet{})
			if !errors.Is(err, ErrUnreachable) {
				t.Fatalf("states %v, error %v", got, err)
			}
			if text := err.Error(); !strings.Contains(text, test.want) || strings.Contains(text, "scontrol") {
				t.Error(text)
			}
		})
	}
}

// TestTheToolThatListsNodesIsFoundOnce also changes Slurm's release once.
func TestTheToolThatListsNodesIsFoundOnce(t *testing.T) {
	s := release2205(t)
	c := s.client(false)
	look := func(want ...string) {
		t.Helper()
		_, err := c.States(t.Context(), nodeset.NodeSet{})
		want = append(want, bySuspended)
		if diff := cmp.Diff(want, s.calls()); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	look(string(byScontrol), string(bySinfo))
	look(string(bySinfo))
	s.set("sinfo", unreachably)
	if _, err := c.States(t.Context(), nodeset.NodeSet{}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	s.calls()
	s.set("sinfo", print(t, "sinfo-22.05.json"))
	look(string(bySinfo)) // that slurmctld did not answer for a moment says nothing about the tools
	s.set("scontrol", print(t, "scontrol-25.11.json"))
	s.set("sinfo", `echo '{"sinfo": []}'`)
	if _, err := c.States(t.Context(), nodeset.NodeSet{}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	s.calls()
	look(string(byScontrol))
	look(string(byScontrol))
}

// asks checks the calls of a query about some nodes.
func (s tools) asks(c *Client, nodes nodeset.NodeSet, want ...string) map[string]reconfigure.NodeState {
	s.t.Helper()
	got, err := c.States(s.t.Context(), nodes)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(want, s.calls()); diff != "" {
		s.t.Errorf("calls (-want +got):\n%s", diff)
	}
	return got
}

func TestFewNodesAreAskedForByName(t *testing.T) {
	const all, suspended = string(byScontrol), bySuspended
	var many []string
	for i := range fewNodes + 1 {
		many = append(many, fmt.Sprintf("c%04d", i))
	}
	s := later(t)
	c := s.client(false)
	s.asks(c, nodeset.Of("c001", "c002", "p1"), all+" c[001-002],p1", suspended)
	s.asks(c, nodeset.Of(many...), all, suspended)
	s.asks(c, nodeset.NodeSet{}, all, suspended)

	s = release2205(t) // sinfo lists all of them
	c = s.client(false)
	s.asks(c, nodeset.Of("p1"), all+" p1", string(bySinfo), suspended)
	s.asks(c, nodeset.Of("p1"), string(bySinfo), suspended)
}

// TestAReleaseThatTakesNoNamesListsAll uses a scontrol that prints its usage text if nodes are named.
func TestAReleaseThatTakesNoNamesListsAll(t *testing.T) {
	const all, suspended = string(byScontrol), bySuspended
	s := later(t)
	s.set("scontrol", `[ "$4" ] && { echo NodeName=p1 State=IDLE; exit; }`+"\n"+print(t, "scontrol-25.11.json"))
	c := s.client(false)
	got := s.asks(c, nodeset.Of("p1"), all+" p1", suspended, all, suspended)
	if got["p1"].Flags != reconfigure.NodeIdle {
		t.Errorf("states %v", got)
	}
	s.asks(c, nodeset.Of("p1"), all, suspended)
}

// TestASilentSlurmIsNoReasonToListAllForEver stops slurmctld while nodes are queried by name.
func TestASilentSlurmIsNoReasonToListAllForEver(t *testing.T) {
	s := later(t)
	c := s.client(false)
	for _, away := range []string{unreachably, "echo '{\"nodes\": ['"} {
		s.set("scontrol", away)
		if _, err := c.States(t.Context(), nodeset.Of("p1")); !errors.Is(err, ErrUnreachable) {
			t.Errorf("error %v", err)
		}
	}
	s.calls()
	s.set("scontrol", print(t, "scontrol-25.11.json"))
	s.asks(c, nodeset.Of("p1"), string(byScontrol)+" p1", bySuspended)
}

func release2205(t *testing.T) tools {
	return newTools(t, map[string]string{"scontrol": noJSON, "sinfo": print(t, "sinfo-22.05.json"), "squeue": "echo p1"})
}

func later(t *testing.T) tools {
	return newTools(t, map[string]string{"scontrol": print(t, "scontrol-25.11.json"), "sinfo": noJSON, "squeue": ""})
}

func TestWhatSlurmDoesAfterAReboot(t *testing.T) {
	for form, rule := range map[string]struct {
		text    string
		returns bool
	}{
		"22.05, resume":    {`"next_state_after_reboot": "unknown", "next_state_after_reboot_flags": ["RESUME", "?"]`, true},
		"22.05, no reboot": {`"next_state_after_reboot": "invalid", "next_state_after_reboot_flags": []`, false},
		"later, resume":    {`"next_state_after_reboot": ["UNKNOWN", "RESUME"]`, true},
		"later, down":      {`"next_state_after_reboot": ["DOWN"]`, false},
	} {
		t.Run(form, func(t *testing.T) {
			nodes, err := decode([]byte(`{"nodes": [{"name": "p1", ` + rule.text + `}]}`))
			if err != nil || nodes[0].state().Returns != rule.returns {
				t.Errorf("%+v, error %v", nodes, err)
			}
		})
	}
}

func TestNumberReadsEveryForm(t *testing.T) {
	for text, want := range map[string]number{
		`12`: 12, `1.5`: 1.5, `null`: 0,
		`{"set": true, "infinite": false, "number": 7}`:  7,
		`{"set": false, "infinite": false, "number": 7}`: 0,
	} {
		var got number
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %v, error %v", text, got, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"set": 1}`), new(number)); err == nil {
		t.Error("no error")
	}
}
