package slurm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestArrivalsAreOfNodesThatWereNotUp(t *testing.T) {
	const (
		off     = reconfigure.NodeIdle | reconfigure.NodeCloud | reconfigure.NodePoweredDown
		booting = reconfigure.NodeMixed | reconfigure.NodeCloud | reconfigure.NodeNotResponding | reconfigure.NodePoweringUp
		on      = reconfigure.NodeMixed | reconfigure.NodeCloud
	)
	var seen arrivals
	for i, step := range []struct {
		states map[string]reconfigure.NodeFlags
		want   string
	}{
		{map[string]reconfigure.NodeFlags{"c1": off, "c2": off, "p1": reconfigure.NodeIdle}, ""},
		{map[string]reconfigure.NodeFlags{"c1": booting, "c2": booting, "p1": reconfigure.NodeIdle}, ""},
		{map[string]reconfigure.NodeFlags{"c1": on, "c2": booting}, "c1"},
		{map[string]reconfigure.NodeFlags{"c1": on, "c2": on}, "c2"},
		{map[string]reconfigure.NodeFlags{"c1": off, "c2": on}, ""},
		{map[string]reconfigure.NodeFlags{"c1": on, "c2": on}, "c1"},
	} {
		states := map[string]reconfigure.NodeState{}
		for name, flags := range step.states {
			states[name] = reconfigure.NodeState{Node: name, Flags: flags}
		}
		if got := seen.of(states).String(); got != step.want {
			t.Errorf("step %d: %q have come up, want %q", i, got, step.want)
		}
	}
}

// TestJobsOfNodesThatComeUpAreLaunched runs slurm_commands.py beside an up.sh, as on a control node.
func TestJobsOfNodesThatComeUpAreLaunched(t *testing.T) {
	s := newTools(t, map[string]string{"scontrol": print(t, "scontrol-25.11.json"), "squeue": "", "up.sh": ""})
	script, err := os.ReadFile("../../slurmscripts/slurm_commands.py")
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "slurm_commands.py"), script, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := s.client(false, "/bin/sh", "-c", `set -- "$*"; exec `+s.dir+`/slurm_commands.py "$1"`, "sh")
	c.arrivals.of(map[string]reconfigure.NodeState{"p1": {}, "p2": {}, "c001": {}})
	states := func() {
		t.Helper()
		if got, err := c.States(t.Context(), nodeset.NodeSet{}); err != nil || len(got) != 6 {
			t.Fatalf("%v, error %v", got, err)
		}
	}
	states()
	if calls := s.calls(); !slices.Contains(calls, "up.sh p[1-2]") {
		t.Errorf("calls: %q", calls)
	}
	states()
	if calls := s.calls(); slices.ContainsFunc(calls, func(call string) bool { return strings.HasPrefix(call, "up.sh") }) {
		t.Errorf("calls of the second time: %q", calls)
	}
	// A control node that an older release has deployed rejects the command.
	s.set("up.sh", "exit 77")
	c.arrivals.of(map[string]reconfigure.NodeState{"p1": {}})
	states()
	if calls := s.calls(); !slices.Contains(calls, "up.sh p1") {
		t.Errorf("calls of the third time: %q", calls)
	}
	// With launch: slurm, there is no wait for it.
	c.config.LaunchAtOnce = false
	c.arrivals.of(map[string]reconfigure.NodeState{"p1": {}})
	states()
	if calls := s.calls(); slices.ContainsFunc(calls, func(call string) bool { return strings.HasPrefix(call, "up.sh") }) {
		t.Errorf("calls with launch: slurm: %q", calls)
	}
}
