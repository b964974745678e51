package storm

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// twice runs a resume with two attempts and a fault. It calls happens after the wait for SSH of the numbered attempt.
func twice(t *testing.T, fault simulate.Fault, try int, happens func(*play)) *play {
	t.Helper()
	s := scene{
		was: forgiving(declared(1, 4)), have: []string{"ctl", "p1"},
		requests: []reconfigure.Request{ask(reconfigure.Resume, "p3")},
	}
	p := s.begin(t, memory.New())
	p.world.PowersUp("p3")
	p.world.Order(fault, "p3")
	for range try - 1 {
		p.world.Then(simulate.AfterWait, func() {})
	}
	p.world.Then(simulate.AfterWait, func() { happens(p) })
	if _, err := p.worker(0); err != nil {
		t.Fatal(err)
	}
	return p
}

// givesUp does what Slurm does at ResumeTimeout: its ResumeFailProgram asks for a suspend.
func (p *play) givesUp() {
	p.Helper()
	p.world.GivesUp("p3")
	if _, err := p.book.Submit(p.Context(), ask(reconfigure.Suspend, "p3")); err != nil {
		p.Error(err)
	}
}

func (p *play) wantCode(id reconfigure.RequestID, want reconfigure.Code) {
	p.Helper()
	if o, ok, err := p.book.Outcome(p.Context(), id); err != nil || !ok || o.Code != want {
		p.Errorf("request %s ends as %+v (%t), error %v", id, o, ok, err)
	}
}

// TestSlurmGivesUpWhileThereIsASecondAttempt checks that the suspend that Slurm requests waits for the resume, and is
// then carried out.
func TestSlurmGivesUpWhileThereIsASecondAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		fault  simulate.Fault
		try    int
		resume reconfigure.Code
		node   simulate.Node
	}{
		"before it": {
			simulate.Lemon, 1, reconfigure.CodeFailed, simulate.Node{State: "IDLE+CLOUD+POWERED_DOWN"},
		},
		"during it": {
			simulate.NoSSH, 2, reconfigure.CodeFailed, simulate.Node{State: "IDLE+CLOUD+POWERED_DOWN"},
		},
		"during it, and it comes still": {simulate.Lemon, 2, reconfigure.CodeDone, simulate.Node{State: "IDLE+CLOUD"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := twice(t, c.fault, c.try, (*play).givesUp)
				p.wantCode(1, c.resume)
				if _, ok, err := p.book.Outcome(t.Context(), 2); err != nil || !ok {
					t.Errorf("the suspend has an outcome: %t, error %v", ok, err)
				}
				n := p.world.Node("p3")
				if c.resume == reconfigure.CodeDone { // Slurm uses it again, and suspends it when it is idle
					c.node.Instance, c.node.Spec, c.node.Made, c.node.Boots = n.Instance, n.Spec, n.Made, n.Boots
				}
				if n != c.node {
					t.Errorf("the node is %+v\ncalls %q", n, p.world.Calls())
				}
				if doubled := p.world.Doubled(); len(doubled) > 0 {
					t.Errorf("%v got a second instance", doubled)
				}
			})
		})
	}
}

// TestStormOfRetries runs storms with only those node faults that allow a second attempt. Meanwhile workers die, jobs
// end, and Slurm gives up nodes.
func TestStormOfRetries(t *testing.T) {
	kinds := []string{
		"jobs need", "jobs need", "jobs end on", "Slurm gives up", "kill", "node fault", "node fault", "slurmd is slow",
		"boots are slow", "time passes", "time passes",
	}
	faults := []simulate.Fault{
		simulate.Lemon, simulate.Lemon, simulate.NoSSH, simulate.PlaybookFails, simulate.NeverRegisters,
		simulate.NeverRemoved,
	}
	if again := blow(t, func(t *rapid.T) []step { return drawStepsOf(t, kinds, faults) }); again == 0 {
		t.Error("no node ever got a second attempt")
	}
}

func TestSecondAttemptBeginsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		p := twice(t, simulate.Lemon, 1, func(*play) {})
		p.wantCode(1, reconfigure.CodeDone)
		s := p.cluster().Settings
		if took := time.Since(begun); took >= s.BootTimeout+2*time.Minute { // its worker needs less time than that
			t.Errorf("it took %s", took)
		}
		if n := p.world.Node("p3"); n.State != "ALLOCATED+CLOUD" || !n.Job || n.Instance.ID == "" {
			t.Errorf("the node is %+v", n)
		}
	})
}
