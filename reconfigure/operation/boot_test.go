package operation_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// diesWhileBooting has Slurm power up p3, and the operator end while its instance boots.
func (l *lab) diesWhileBooting() {
	l.Helper()
	l.PowersUp("p3")
	l.wants(reconfigure.Create, "p3")
	l.Takes(simulate.Booting, time.Minute)
	l.start()
	time.Sleep(30 * time.Second)
	l.end(errors.New("killed"))
	l.running.Wait()
	l.restart()
	l.plan = reconfigure.Plan{}
}

// goesOn plans that the boot of nodes goes on at a phase.
func (l *lab) goesOn(at reconfigure.Phase, nodes ...string) {
	l.wants(reconfigure.Boot, nodes...)
	for _, node := range nodes {
		l.change(node).At = at
	}
}

func TestABootGoesOnInTheNextWorker(t *testing.T) {
	test(t, func(l *lab) {
		l.diesWhileBooting()
		l.goesOn(reconfigure.PhaseBoot, "p3")
		l.wantDone("p3")
		l.wantNever("reboot", "delete")
		l.want("boots", 1, l.Node("p3").Boots)
	})
}

// The playbooks have run, and slurmd registers soon.
func TestAVerifiedNodeIsNotConfiguredAgain(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		time.Sleep(time.Minute)
		l.PowersUp("p3")
		l.Takes(simulate.Registering, 30*time.Second)
		if err := l.Reboot(t.Context(), l.IDs()["p3"]); err != nil { // by the last worker
			t.Fatal(err)
		}
		l.goesOn(reconfigure.PhaseVerify, "p3")
		l.wantDone("p3")
		l.wantNever("configure")
		l.want("boots", 2, l.Node("p3").Boots)
	})
}

// Slurm has called after the boot: the planner was wrong.
func TestABootThatSlurmDoesNotAcceptIsRepeated(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		time.Sleep(time.Minute)
		l.PowersUp("p3")
		l.goesOn(reconfigure.PhaseApply, "p3")
		l.wantDone("p3")
		l.wantOrder("configure p3", "reboot p3", "configure p3")
	})
}

// The last worker has booted the instance for the request, so slurmd may register while it would be rebooted, and the
// job that waits for the node would begin.
func TestABootThatSlurmAwaitsIsNotRepeated(t *testing.T) {
	for _, at := range []reconfigure.Phase{reconfigure.PhaseBoot, reconfigure.PhaseConfigure, reconfigure.PhaseVerify} {
		t.Run(string(at), func(t *testing.T) {
			test(t, func(l *lab) {
				l.Have("p3")
				time.Sleep(time.Minute)
				l.PowersUp("p3")
				l.Takes(simulate.Registering, time.Hour)
				if err := l.Reboot(t.Context(), l.IDs()["p3"]); err != nil { // by the last worker
					t.Fatal(err)
				}
				l.goesOn(at, "p3")
				l.wantVerdicts(map[string]string{
					"p3": "failed verify: slurmd did not register in time: Slurm has it as ALLOCATED+CLOUD+POWERING_UP",
				})
				l.want("boots", 2, strings.Count(strings.Join(l.Calls(), "\n"), "reboot p3")+1)
				l.wantOrder("down p3", "power_down p3")
			})
		})
	}
}

func TestAnInstanceThatDoesNotRunAnyMoreIsRebooted(t *testing.T) {
	test(t, func(l *lab) {
		l.diesWhileBooting()
		l.Switch("p3", reconfigure.PowerOff)
		l.goesOn(reconfigure.PhaseBoot, "p3")
		l.wantVerdicts(map[string]string{"p3": "done"}) // its first boot had not ended, so the second prints its key
		l.wantOrder("reboot p3")
	})
}

// A reboot clears the console log, in which the host key stands.
func TestAHostKeyIsLearnedBeforeAReboot(t *testing.T) {
	test(t, func(l *lab) {
		l.diesWhileBooting()
		l.PowersUp("p3") // Slurm has called again
		l.wants(reconfigure.Reboot, "p3")
		l.wantDone("p3")
		l.want("boots", 2, l.Node("p3").Boots)
		l.wantNote("its host key is not known yet")
	})
}

// A worker was killed in a deploy.
func TestAnInstanceThatMayNotHaveBootedIsAwaited(t *testing.T) {
	test(t, func(l *lab) {
		l.diesWhileBooting()
		l.wants(reconfigure.Configure, "p1", "p3")
		before := len(l.Events())
		l.wantDone("p1", "p3")
		l.wantNever("reboot")
		var booted []string
		for _, e := range l.Events()[before:] {
			if e.Phase == reconfigure.PhaseBoot && e.Level == reconfigure.Done {
				booted = append(booted, e.Node)
			}
		}
		l.want("awaited nodes", []string{"p3"}, booted)
	})
}

// A worker made it anew for the request, learned its key and rebooted it.
func TestTheHostKeyOfAnInstanceThatWasMadeBeforeIsKept(t *testing.T) {
	test(t, func(l *lab) {
		since := time.Now()
		time.Sleep(time.Minute)
		l.Have("p3")
		if err := l.Reboot(t.Context(), l.IDs()["p3"]); err != nil {
			t.Fatal(err)
		}
		l.wants(reconfigure.Replace, "p3")
		l.change("p3").Since = since
		l.wantDone("p3")
		l.wantNote("was made for the request already")
	})
}
