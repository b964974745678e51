package storm

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// TestStormsThatFailed runs storms that random draws found, without their irrelevant steps, and storms that are hardly
// ever drawn.
func TestStormsThatFailed(t *testing.T) {
	compares := func(s *storm) { s.looks = &looks{every: 5 * time.Minute} }
	for name, c := range map[string]struct {
		set   func(*storm)
		steps []step
	}{
		"a cleaned node that somebody else has drained cannot be made anew": {steps: []step{
			{what: "somebody drains", nodes: []string{"p1"}},
			{what: "image", nodes: []string{"p1"}},
			{what: "time passes", n: 2},
			{what: "cluster fault", fault: simulate.StateLocked, on: true},
			{what: "time passes", n: 12},
		}},
		"slurmd registers between DOWN and the hand-back, and a job starts": {steps: []step{
			{what: "slurmd is slow", n: 12},
			{what: "node fault", nodes: []string{"p3"}, fault: simulate.RegistersLate, on: true},
			{what: "jobs need", nodes: []string{"p3"}},
			{what: "time passes", n: 10},
		}},
		"an instance is rebooted before its host key was learned": {steps: []step{
			{what: "boots are slow", n: 12},
			{what: "declare", n: 1},
			{what: "time passes", n: 10},
			{what: "somebody boots", nodes: []string{"p2"}},
		}},
		"a node becomes persistent after Slurm has called for it in vain": {func(s *storm) { s.idle = reconfigure.IdleStop }, []step{
			{what: "declare", n: 2},
			{what: "cluster fault", nodes: []string{"p1", "p4"}, fault: simulate.SlurmSilent, on: true},
			{what: "time passes", n: 2},
			{what: "time passes", n: 2},
			{what: "kill now", nodes: []string{"p1"}, n: 2},
			{what: "jobs need", nodes: []string{"p2", "p5", "p4"}, n: 10},
		}},
		"slurmd registers when a worker that took up the boot no longer waits for it": {steps: []step{
			{what: "jobs need", nodes: []string{"p3"}},
			{what: "time passes", n: 3},
			{what: "slurmd is slow", n: 4},
			{what: "time passes", n: 4},
			{what: "time passes"},
			{what: "jobs need", nodes: []string{"p2"}},
			{what: "time passes"},
			{what: "time passes"},
			{what: "time passes"},
			{what: "time passes"},
			{what: "time passes"},
			{what: "kill", n: 8},
			{what: "time passes", n: 2},
			{what: "time passes"},
		}},
		"an administrator sets a node DOWN that becomes persistent": {compares, []step{
			{what: "cluster fault", fault: simulate.SlurmSilent, on: true},
			{what: "time passes"},
			{what: "declare", n: 10, on: true},
			{what: "time passes", n: 4},
			{what: "jobs need", nodes: []string{"p2"}, n: 5},
			{what: "time passes", n: 4},
			{what: "somebody sets DOWN", nodes: []string{"p2"}},
		}},
		"a node fails that is no longer to become persistent": {compares, []step{
			{what: "boots are slow", n: 12},
			{what: "declare", n: 1},
			{what: "time passes", n: 3},
			{what: "kill", n: 2},
			{what: "time passes", n: 6},
			{what: "declare", n: 0},
		}},
		"a rebuild is not recorded, and the old image is declared again": {steps: []step{
			{what: "declare", on: true},
			{what: "time passes", n: 8},
			{what: "builds are slow", nodes: []string{"p1"}, n: 2, on: true},
			{what: "update", nodes: []string{"p1"}},
			{what: "time passes", n: 3},
			{what: "kill now", n: 6},
			{what: "declare"},
		}},
		"a stop is not recorded, since its Terraform is killed": {func(s *storm) { s.idle = reconfigure.IdleStop }, []step{
			{what: "jobs need", nodes: []string{"p3"}},
			{what: "time passes", n: 6},
			{what: "jobs end on", nodes: []string{"p3"}},
			{what: "time passes", n: 10},
			{what: "switches hang", nodes: []string{"p3"}, n: 2, on: true},
			{what: "Slurm gives up", nodes: []string{"p3"}},
			{what: "time passes", n: 3},
			{what: "kill now", n: 1},
			{what: "time passes", n: 6},
		}},
		"a worker is killed, and loses its lease while its Terraform still runs": {steps: []step{
			{what: "jobs need", nodes: []string{"p4", "p5"}, n: 1},
			{what: "kill", n: 2},
			{what: "jobs end on", nodes: []string{"p4"}},
			{what: "Slurm gives up", nodes: []string{"p4"}},
			{what: "time passes"},
			{what: "time passes"},
			{what: "time passes"},
			{what: "lease is lost"},
			{what: "deploy"},
			{what: "time passes", n: 10},
		}},
		"somebody ends their own drain after the last check for jobs, and a job starts": {steps: []step{
			{what: "somebody drains", nodes: []string{"p1", "p2"}},
			{what: "update", nodes: []string{"p1"}, n: 12, on: true},
			{what: "update", nodes: []string{"p1"}, on: true},
			{what: "images are slow", nodes: []string{"p4"}, n: 7, on: true},
			{what: "images are slow", nodes: []string{"p4"}, n: 3},
			{what: "Slurm gives up", nodes: []string{"p3"}},
			{what: "jobs start on", nodes: []string{"p1", "p5", "p3"}, n: 10},
			{what: "somebody drains", nodes: []string{"p2"}, n: 1},
			{what: "somebody undrains", nodes: []string{"p1"}, n: 1},
			{what: "jobs start on", nodes: []string{"p1"}, n: 8, on: true},
			{what: "image", nodes: []string{"p1"}},
			{what: "time passes", nodes: []string{"p1"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := begin(func(s *storm) {
					if c.set != nil {
						c.set(s)
					}
				})
				s.play(t.Context(), c.steps)
				for _, wrong := range s.wrong {
					t.Error(wrong)
				}
				if t.Failed() {
					t.Log(strings.Join(s.world.Calls(), "\n"))
				}
			})
		})
	}
}
