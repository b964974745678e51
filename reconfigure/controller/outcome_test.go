package controller_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

type statuses = map[string]reconfigure.Status

// wantSaid checks an outcome: its code, and each node's status.
func (l *lab) wantSaid(id reconfigure.RequestID, code reconfigure.Code, want statuses) {
	l.Helper()
	o, ok := l.outcome(id)
	got := statuses{}
	for _, v := range o.Verdicts {
		got[v.Node] = v.Status
	}
	if diff := cmp.Diff(want, got); diff != "" || !ok || o.Code != code || o.Error != "" || len(got) != len(o.Verdicts) ||
		o.Finished.IsZero() {
		l.Errorf("outcome %+v (-want +got):\n%s", o, diff)
	}
}

func TestEachRequestGetsItsOwnOutcome(t *testing.T) {
	test(t, []string{"p2", "p3"}, func(l *lab) {
		l.PowersUp("p4", "p5", "p6")
		l.PowersDown("p2")
		l.Order(simulate.NoValidHost, "p5")
		l.Order(simulate.NoSSH, "p6")
		l.submit(ask(reconfigure.Resume, "p4"), ask(reconfigure.Resume, "p4", "p5"), ask(reconfigure.Resume, "p5", "p6"),
			ask(reconfigure.Suspend, "p2", "p9"), ask(reconfigure.Resume, "p3"), ask(reconfigure.Suspend, "p1"),
			ask(reconfigure.Resume, "p3", "stranger1"))
		l.work()
		l.wantSaid(1, done, statuses{"p4": reconfigure.StatusDone})
		l.wantSaid(2, partial, statuses{"p4": reconfigure.StatusDone, "p5": reconfigure.StatusFailed})
		l.wantSaid(3, failed, statuses{"p5": reconfigure.StatusFailed, "p6": reconfigure.StatusFailed})
		l.wantSaid(4, done, statuses{"p2": reconfigure.StatusDone, "p9": reconfigure.StatusUnchanged})
		l.wantSaid(5, done, statuses{"p3": reconfigure.StatusUnchanged})
		l.wantSaid(6, failed, statuses{"p1": reconfigure.StatusRejected})
		l.wantSaid(7, partial, statuses{"p3": reconfigure.StatusUnchanged, "stranger1": reconfigure.StatusRejected})
		if n := len(l.plans()); n != 1 {
			t.Errorf("%d plans", n)
		}
		l.wantTook(1, time.Second, 5*time.Second) // without a wait for p6
		l.wantTook(4, time.Second, 5*time.Second)
	})
}

func TestRequestForTheWholeClusterHasAVerdictOnEveryNodeThatChanged(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.World = simulate.NewWorld(declared())
		l.submit(ask(reconfigure.Deploy))
		l.work()
		l.wantSaid(1, done, statuses{"ctl": reconfigure.StatusDone, "p1": reconfigure.StatusDone})
	})
}

func TestRefusalHasACodeOfItsOwn(t *testing.T) {
	test(t, []string{"p2"}, func(l *lab) {
		l.Order(simulate.OtherImage, "p1")
		l.PowersUp("p4", "p5")
		l.submit(ask(reconfigure.Resume, "p4"), ask(reconfigure.Resume, "p2", "p5"), ask(reconfigure.Resume, "p2"))
		l.work()
		l.wantEnds(codes{1: refused, 2: partial, 3: done})
	})
}

func TestAnEditOfTheDeclarationCountsFromTheNextPlanOn(t *testing.T) {
	test(t, nil, func(l *lab) {
		small := declared()
		small.Groups[0].Max = 3
		l.lock.Lock()
		l.cluster = small
		l.lock.Unlock()
		l.submit(ask(reconfigure.Resume, "p4"))
		stay, ended := l.stays(nil)
		pass(time.Minute)
		l.wantSaid(1, failed, statuses{"p4": reconfigure.StatusRejected})
		l.declare(declared())
		l.submit(ask(reconfigure.Suspend, "p4"))
		pass(time.Minute)
		l.wantSaid(2, done, statuses{"p4": reconfigure.StatusUnchanged})
		stay()
		<-ended
	})
}

func TestARejectedNodeThatSlurmWaitsForIsHandedBackBeforeTheVerdict(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.cluster.Groups[0].Image = "no such image"
		l.PowersUp("p4")
		l.submit(ask(reconfigure.Resume, "p4"))
		l.work()
		l.wantSaid(1, failed, statuses{"p4": reconfigure.StatusRejected})
		if s := l.Node("p4").State; s != "IDLE+CLOUD+POWERED_DOWN" {
			t.Errorf("p4 is %s", s)
		}
	})
}

func TestUpdateOfNodesInUse(t *testing.T) {
	test(t, []string{"p2"}, func(l *lab) {
		l.StartJob("p2")
		time.AfterFunc(time.Hour, func() { l.EndJob("p2") })
		l.submit(ask(reconfigure.Update, "p1", "p2"))
		l.work()
		l.wantCalls("drain p[1-2]: update", "reboot p1", "configure p1 of ctl,p[1-2]", "undrain p1",
			"reboot p2", "configure p2 of ctl,p[1-2]", "undrain p2")
		o, _ := l.outcome(1)
		if o.Code != done || len(o.Verdicts) != 2 || o.Verdicts[0].Action != reconfigure.Reboot ||
			o.Verdicts[1].Action != reconfigure.Reboot {
			t.Errorf("outcome %+v", o)
		}
		l.wantTook(1, time.Hour, time.Hour+time.Minute)
		if n := len(l.plans()); n > 4 {
			t.Errorf("%d plans", n)
		}
	})
}

func TestUpdateGivesUpOnAJobThatDoesNotEnd(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.StartJob("p1")
		l.submit(ask(reconfigure.Update, "p1"))
		l.work()
		l.wantCalls("drain p1: update", "undrain p1")
		l.wantSaid(1, failed, statuses{"p1": reconfigure.StatusRejected})
		l.wantTook(1, 2*time.Hour, 2*time.Hour+time.Minute)
	})
}

// A second attempt belongs to the same operation. Nodes that are done stay as they are.
func TestNodesGetAsManyAttemptsAsTheyMay(t *testing.T) {
	for retries, want := range map[int]int{0: 1, 1: 2, 2: 3} {
		test(t, nil, func(l *lab) {
			l.cluster.Settings.Retries, l.cluster.Settings.BootTimeout = retries, time.Minute
			l.PowersUp("p2", "p3")
			l.Order(simulate.NoSSH, "p2")
			l.submit(ask(reconfigure.Resume, "p2", "p3"))
			l.work()
			l.wantSaid(1, partial, statuses{"p2": reconfigure.StatusFailed, "p3": reconfigure.StatusDone})
			made := 0
			for _, call := range l.Calls() {
				if call == "apply create p[2-3]" || call == "apply create p2" {
					made++
				}
			}
			if made != want || len(l.plans()) != 1 {
				t.Errorf("with %d retries %d instances of p2 were made, by %d plans", retries, made, len(l.plans()))
			}
		})
	}
}

// undone

func TestAResumeThatIsUndoneDoesNotBegin(t *testing.T) {
	test(t, []string{"p3"}, func(l *lab) {
		l.PowersUp("p2")
		l.PowersDown("p2", "p3")
		l.submit(ask(reconfigure.Resume, "p2"), ask(reconfigure.Suspend, "p2", "p3"))
		l.work()
		l.wantEnds(codes{1: cancelled, 2: done})
		l.wantCalls("apply delete p3")
	})
}

// The suspend has nothing to do, but has a plan with a number.
func TestAnUndoneResumeEndsWhereTheSuspendHasNothingToDo(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2")
		l.PowersDown("p2")
		l.submit(ask(reconfigure.Resume, "p2"), ask(reconfigure.Suspend, "p2"))
		l.work()
		l.wantEnds(codes{1: cancelled, 2: done})
		l.wantCalls()
	})
}

// The resume is undone when the suspend begins. If the suspend is cancelled before, the resume is carried out.
func TestAResumeIsCarriedOutWhenItsSuspendIsCancelled(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.PowersUp("p2")
		l.submit(ask(reconfigure.Resume, "p2"), ask(reconfigure.Suspend, "p2"))
		l.fails(noLogin, 5*time.Minute, "the cloud does not answer")
		l.spawn()
		pass(2 * time.Minute)
		if err := l.journal.Cancel(l.Context(), 2); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Minute)
		l.wantEnds(codes{1: done, 2: cancelled})
		l.wantCalls("apply create p2", "adopt p2", "configure p2 of ctl,p[1-2]")
	})
}

// Nodes of one request do not wait for one another, even if they have to be drained first.
func TestANodeWhoseJobHasEndedDoesNotWaitForTheOthersOfItsRequest(t *testing.T) {
	test(t, []string{"p2"}, func(l *lab) {
		l.Takes(simulate.Booting, 4*time.Minute, "p1")
		l.StartJob("p2")
		time.AfterFunc(time.Minute, func() { l.EndJob("p2") })
		l.submit(ask(reconfigure.Update, "p1", "p2"))
		l.spawn()
		pass(3 * time.Minute)
		l.wantCalls(
			"drain p[1-2]: update", "reboot p1", "reboot p2", "configure p2 of ctl,p[1-2] apart from p1", "undrain p2",
		)
		l.workers.Wait()
		l.wantSaid(1, done, statuses{"p1": reconfigure.StatusDone, "p2": reconfigure.StatusDone})
	})
}
