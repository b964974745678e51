package slurm

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

var booted = time.Unix(1795175097, 0)

func TestStatesOf2205(t *testing.T) {
	s := &slurmctld{t: t, lister: "sinfo --json", nodes: "testdata/sinfo-22.05.json", paused: "p1\n"}
	got, err := s.client().States(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]reconfigure.NodeState{
		"p1":   {Node: "p1", Address: "192.0.2.1", Flags: reconfigure.NodeIdle, Boot: booted, Busy: true}, // its job is suspended
		"p2":   {Node: "p2", Address: "192.0.2.1", Flags: reconfigure.NodeMixed, Boot: booted, Busy: true},
		"c001": {Node: "c001", Address: "192.0.2.1", Flags: reconfigure.NodeDown | reconfigure.NodeCloud | reconfigure.NodePoweredDown, Reason: `reconfigure: it's "bad" \ $x é`},
		"c002": {Node: "c002", Address: "192.0.2.1", Flags: reconfigure.NodeIdle | reconfigure.NodeCloud | reconfigure.NodePoweredDown},
		"c003": {Node: "c003", Address: "192.0.2.1", Flags: reconfigure.NodeMixed | reconfigure.NodeCloud | reconfigure.NodeNotResponding | reconfigure.NodePoweringUp, Busy: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestStatesOfLaterReleases(t *testing.T) {
	s := &slurmctld{t: t, lister: "scontrol show nodes --json", nodes: "testdata/scontrol-25.11.json"}
	got, err := s.client().States(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]reconfigure.NodeState{
		"p1":   {Node: "p1", Address: "p1", Flags: reconfigure.NodeIdle, Boot: booted},
		"p2":   {Node: "p2", Address: "p2", Flags: reconfigure.NodeMixed, Boot: booted, Busy: true},
		"p3":   {Node: "p3", Address: "p3", Flags: reconfigure.NodeIdle | reconfigure.NodeCompleting, Boot: booted, Busy: true},
		"c001": {Node: "c001", Address: "c001", Flags: reconfigure.NodeDown | reconfigure.NodeCloud | reconfigure.NodePoweredDown, Reason: "reconfigure: No valid host was found"},
		"c002": {Node: "c002", Address: "c002", Flags: reconfigure.NodeIdle | reconfigure.NodeCloud | reconfigure.NodePoweredDown},
		"c003": {Node: "c003", Address: "c003", Flags: reconfigure.NodeAllocated | reconfigure.NodeCloud | reconfigure.NodeNotResponding | reconfigure.NodePoweringUp, Busy: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// An empty list that is taken for the truth would say that no node has a job.
func TestStatesAreAnErrorWhereNobodyCanTell(t *testing.T) {
	for name, s := range map[string]*slurmctld{
		"nodes cannot be listed, exit status 0": {lister: "sinfo --json", nodes: "testdata/sinfo-22.05-unreachable.json"},
		"jobs cannot be listed":                 {lister: "sinfo --json", nodes: "testdata/sinfo-22.05.json", down: true},
		"no tool lists nodes":                   {},
		"jobs listed on nonsense":               {lister: "sinfo --json", nodes: "testdata/sinfo-22.05.json", paused: "c[1-\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			if got, err := s.client().States(t.Context()); !errors.Is(err, ErrUnreachable) {
				t.Errorf("states %v, error %v", got, err)
			}
		})
	}
}

func TestWhatSlurmDoesAfterAReboot(t *testing.T) {
	for form, rule := range map[string]struct {
		text    string
		returns bool
	}{
		"22.05, resume":    {`"state": "idle", "state_flags": ["DRAIN", "REBOOT_REQUESTED"], "next_state_after_reboot": "unknown", "next_state_after_reboot_flags": ["RESUME", "?"]`, true},
		"22.05, no reboot": {`"state": "idle", "state_flags": [], "next_state_after_reboot": "invalid", "next_state_after_reboot_flags": []`, false},
		"later, resume":    {`"state": ["IDLE", "DRAIN"], "next_state_after_reboot": ["UNKNOWN", "RESUME"]`, true},
		"later, down":      {`"state": ["IDLE", "DRAIN"], "next_state_after_reboot": ["DOWN"]`, false},
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
		if err := got.UnmarshalJSON([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %v, error %v", text, got, err)
		}
	}
	if err := new(number).UnmarshalJSON([]byte(`{"set": 1}`)); err == nil {
		t.Error("no error")
	}
}
