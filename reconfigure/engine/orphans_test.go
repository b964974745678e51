package engine_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// interrupted has a worker be killed, and Terraform with it, while a node is made; then another one carries out the same plan.
func (l *lab) interrupted(how enginetest.Half, nodes ...string) map[string]string {
	l.Helper()
	l.wants(reconfigure.Create, nodes...)
	l.KillDuring(0, how)
	if _, err := l.try(l.Context()); err != nil {
		l.Fatal(err)
	}
	l.plan = reconfigure.Plan{}
	l.wants(reconfigure.Create, nodes...)
	return l.carry()
}

func TestOrphanGoesBeforeItsNodeIsMadeAgain(t *testing.T) {
	for _, how := range []enginetest.Half{enginetest.Unwritten, enginetest.Unknown} {
		t.Run(string(how), func(t *testing.T) {
			test(t, func(l *lab) {
				l.want("verdicts", map[string]string{"p3": "done"}, l.interrupted(how, "p3"))
				l.want("orphans", 0, len(l.Orphans()))
				l.want("doubled", 0, len(l.Doubled()))
			})
		})
	}
}

// The answer to a creation is lost, and Terraform goes on: nothing may be left of it.
func TestInstanceOfALostAnswerIsCleanedAway(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(enginetest.LostCreate, "p3")
		l.PowersUp("p3", "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.want("verdicts", map[string]string{"p3": "failed apply: lost create", "p4": "done"}, l.carry())
		l.want("orphans", 0, len(l.Orphans()))
		l.want("node", enginetest.Node{State: back}, l.Node("p3"))
	})
}

func TestOrphanGoesWithItsNode(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3")
		l.PowersDown("p3")
		l.Forget("p3")
		l.wants(reconfigure.Remove, "p3")
		l.want("verdicts", map[string]string{"p3": "done"}, l.carry())
		l.want("orphans", 0, len(l.Orphans()))
	})
}

// Terraform's state may have been lost with all that it knew: then what it does not know is a cluster at work.
func TestOrphanThatMayBeOfUseIsLeftAlone(t *testing.T) {
	for name, rule := range map[string]struct {
		prepare func(*lab)
		node    string
		why     string
	}{
		"a job runs on it":       {func(l *lab) { l.Have("p3"); l.StartJob("p3"); l.Forget("p3") }, "p3", "it is in use by Slurm"},
		"a job may start on it":  {func(l *lab) { l.Have("p3"); l.Forget("p3") }, "p3", "it is in use by Slurm"},
		"Slurm does not answer":  {func(l *lab) { l.Have("p3"); l.Forget("p3"); l.Order(enginetest.SlurmSilent) }, "p3", "as Slurm does not answer"},
		"it is the control node": {func(l *lab) { l.Forget("ctl") }, "ctl", "all of Slurm's state may be on it"},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				rule.prepare(l)
				l.wants(reconfigure.Create, rule.node, "p4")
				said := l.carry()[rule.node]
				if !strings.HasPrefix(said, "failed apply: left alone: there is instance ") || !strings.Contains(said, rule.why) {
					l.Errorf("%s: %s", rule.node, said)
				}
				l.want("orphans", []string{rule.node}, l.Orphans())
				l.want("doubled", 0, len(l.Doubled()))
				l.want("lost jobs", 0, len(l.Lost()))
				l.want("the other one is made", true, l.Node("p4").Instance.ID != "")
			})
		})
	}
}

// Where Terraform's state has a part of it, an orphan is what was about to be made, whether Slurm answers or not: no cluster could be deployed otherwise.
func TestHalfMadeControlNodeIsMadeAnew(t *testing.T) {
	test(t, func(l *lab) {
		l.World = enginetest.NewWorld(declared())
		l.engine = engine.New(declared(), l.Deps())
		l.want("verdicts", map[string]string{"ctl": "done"}, l.interrupted(enginetest.Unwritten, "ctl"))
		l.want("orphans", 0, len(l.Orphans()))
	})
}

// What Terraform has begun to make it must not forget, as long as nobody can tell what has come of it.
func TestNothingBegunIsForgottenWhileNobodyCanTell(t *testing.T) {
	test(t, func(l *lab) {
		l.wants(reconfigure.Create, "p3")
		l.KillDuring(0, enginetest.Unwritten)
		l.Then(enginetest.AfterApply, func() { l.Order(enginetest.CloudSilent) })
		if _, err := l.try(l.Context()); err != nil {
			l.Fatal(err)
		}
		l.want("orphans", []string{"p3"}, l.Orphans())
		l.want("Terraform knows of it", "p3", l.Node("p3").Instance.Node)
		l.plan = reconfigure.Plan{}
		l.wants(reconfigure.Remove, "p3")
		const why = "failed apply: nobody can tell whether there is an instance of it already: cloud silent"
		l.want("verdicts", map[string]string{"p3": why}, l.carry())
		l.Clear(enginetest.CloudSilent)
		l.want("verdicts", map[string]string{"p3": "done"}, l.carry())
		l.want("orphans", 0, len(l.Orphans()))
	})
}

func TestNothingIsMadeWhileNobodyCanTellWhatThereIs(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p4")
		l.PowersDown("p4")
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.wants(reconfigure.Remove, "p4")
		l.Then(enginetest.AfterPreview, func() { l.Order(enginetest.CloudSilent) })
		l.Then(enginetest.AfterApply, func() { l.Clear(enginetest.CloudSilent) })
		l.want("verdicts", map[string]string{"p3": "failed apply: nobody can tell whether there is an instance of it already: cloud silent", "p4": "done"}, l.carry())
		l.want("node", enginetest.Node{State: back}, l.Node("p3"))
	})
}

// A worker sets a node DOWN for which nothing can be planned, and dies: the next one hands it back.
func TestNodeThatAnotherWorkerSetDownIsHandedBack(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.plan.Rejected = []reconfigure.Rejection{{Node: "p3", Request: 1, Reason: "no such image", Awaited: true}}
		if err := l.Down(t.Context(), nodeset.Of("p3"), "no such image"); err != nil {
			t.Fatal(err)
		}
		l.carry()
		l.want("node", enginetest.Node{State: back}, l.Node("p3"))
	})
}

// The map of nodes is written before the deed. What Terraform did not come to is yet to be done, and must not be taken for done.
func TestInstanceIsWhatItWasMadeOfWhateverWasIntended(t *testing.T) {
	test(t, func(l *lab) {
		was := l.Spec("p1")
		l.drained(reconfigure.Replace, "p1")
		l.plan.Changes[0].Spec.ImageID = "id-of-v2"
		l.KillDuring(0, enginetest.NotBegun)
		if _, err := l.try(l.Context()); err != nil {
			t.Fatal(err)
		}
		l.want("intended", "id-of-v2", l.Node("p1").Spec.ImageID)
		seen, err := l.engine.Observe(l.Context(), none)
		if err != nil {
			t.Fatal(err)
		}
		l.want("observed", was, seen.Desired["p1"])
	})
}
