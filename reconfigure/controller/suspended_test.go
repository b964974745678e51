package controller_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// boots has Slurm power up p2, whose instance takes for ever to boot, and returns when that is ACTIVE.
func (l *lab) boots() (stop func(), ended <-chan error) {
	l.Helper()
	l.PowersUp("p2")
	l.Takes(simulate.Booting, simulate.Forever, "p2")
	l.submit(ask(reconfigure.Resume, "p2"))
	stop, ended = l.spawn()
	pass(30 * time.Second)
	return stop, ended
}

// wantGivenUp checks that the first request has failed, since Slurm has suspended p2.
func (l *lab) wantGivenUp() {
	l.Helper()
	o, _ := l.outcome(1)
	if len(o.Verdicts) != 1 || !strings.Contains(o.Verdicts[0].Reason, "Slurm powers it down") {
		l.Errorf("outcome %+v", o)
	}
	for _, call := range l.Calls() {
		if strings.HasPrefix(call, "down") || strings.HasPrefix(call, "power_down") {
			l.Errorf("Slurm was told: %s", call)
		}
	}
}

func TestASuspendWaitsForNoBootThatNobodyNeeds(t *testing.T) {
	test(t, nil, func(l *lab) {
		_, ended := l.boots()
		l.PowersDown("p2")
		suspend := l.submit(ask(reconfigure.Suspend, "p2"))
		<-ended
		l.wantEnds(codes{1: failed, suspend: done})
		l.wantTook(suspend, 0, time.Minute) // boot_timeout is five minutes
		l.wantGivenUp()
		if servers := l.IDs(); servers["p2"] != "" {
			t.Errorf("instances %v", servers)
		}
	})
}

// The worker has died; the next one finds the resume and the suspend.
func TestASuspendWaitsForNoResumeThatIsRepeated(t *testing.T) {
	for name, again := range map[string]bool{"suspended": false, "suspended and resumed": true} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(l *lab) {
				stop, ended := l.boots()
				stop()
				<-ended
				l.PowersDown("p2")
				suspend := l.submit(ask(reconfigure.Suspend, "p2"))
				want := codes{1: failed, suspend: done}
				if again {
					time.Sleep(time.Minute)
					l.PowersUp("p2")
					l.Takes(simulate.Booting, 10*time.Second, "p2")
					want[l.submit(ask(reconfigure.Resume, "p2"))] = done
				}
				began := time.Now()
				l.work()
				l.wantEnds(want)
				l.wantGivenUp()
				if d := time.Since(began); d > time.Minute {
					t.Errorf("it took %s", d)
				}
			})
		})
	}
}

// The worker begins the boot again before the suspend comes.
func TestASuspendEndsAResumeThatIsRepeated(t *testing.T) {
	test(t, nil, func(l *lab) {
		stop, ended := l.boots()
		stop()
		<-ended
		l.PowersDown("p2")
		_, ended = l.spawn()
		pass(20 * time.Second)
		suspend := l.submit(ask(reconfigure.Suspend, "p2"))
		<-ended
		l.wantEnds(codes{1: failed, suspend: done})
		l.wantTook(suspend, 0, time.Minute)
		l.wantGivenUp()
	})
}

// A suspend of somebody else, or of a node that Slurm powers up, waits until the node is up. Then it is rejected.
func TestASuspendThatSlurmDoesNotMeanEndsNoBoot(t *testing.T) {
	for name, change := range map[string]func(*lab, *reconfigure.Request){
		"Slurm powers it up": func(*lab, *reconfigure.Request) {},
		"another caller":     func(l *lab, r *reconfigure.Request) { r.Caller = "anna"; l.PowersDown("p2") },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(l *lab) {
				_, ended := l.boots()
				suspend := ask(reconfigure.Suspend, "p2")
				change(l, &suspend)
				id := l.submit(suspend)
				pass(time.Minute)
				l.wantEnds(codes{})
				l.Takes(simulate.Booting, time.Second, "p2")
				<-ended
				if o, _ := l.outcome(1); o.Code != done {
					t.Errorf("outcome %+v", o)
				}
				if _, ended := l.outcome(id); !ended {
					t.Error("the suspend has no outcome")
				}
			})
		})
	}
}
