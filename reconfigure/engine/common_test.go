package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// pair has two labs in one world whose engines know of each other.
func pair(t *testing.T, do func(one, other *lab)) {
	t.Helper()
	test(t, func(l *lab) {
		deps := l.Deps()
		deps.Common = engine.NewCommon()
		l.engine = engine.New(declared(), deps)
		do(l, &lab{T: l.T, World: l.World, engine: engine.New(declared(), deps)})
	})
}

func (l *lab) wantDone(nodes ...string) {
	l.Helper()
	want := map[string]string{}
	for _, node := range nodes {
		want[node] = "done"
	}
	l.want("verdicts", want, l.carry())
}

// While one batch waits for its node to boot, another one is carried out from its beginning to its end. Each of them tells all nodes of all.
func TestBatchesTellOfEachOthersNodes(t *testing.T) {
	pair(t, func(one, other *lab) {
		one.wants(reconfigure.Create, "p3")
		other.wants(reconfigure.Create, "p4")
		one.Then(enginetest.AfterGreet, func() { other.wantDone("p4") })
		one.wantDone("p3")
		one.want("calls", []string{
			"apply create p3", "apply create p4", "configure p4 of ctl,p[1-4] apart from p3", "configure p3 of ctl,p[1-4]",
		}, one.Calls())
	})
}

// A persistent node that is rebooted stays among those that the others are told of: slurmctld would read slurm.conf anew for one that is gone, and forget its reboot.
func TestANodeThatRebootsIsNotForgotten(t *testing.T) {
	pair(t, func(one, other *lab) {
		one.Reboots("p1")
		one.wants(reconfigure.Reboot, "p1")
		other.wants(reconfigure.Create, "p4")
		one.Then(enginetest.AfterGreet, func() { other.wantDone("p4") })
		one.wantDone("p1")
		one.want("calls", []string{"reboot p1", "apply create p4", "configure p4 of ctl,p[1-2,4] apart from p1", "configure p1 of ctl,p[1-2,4]"}, one.Calls())
	})
}

// What failed is kept apart until it is cleaned away.
func TestWhatFailedIsKeptApart(t *testing.T) {
	pair(t, func(one, other *lab) {
		one.Order(enginetest.NoSSH, "p3")
		one.PowersUp("p3")
		one.wants(reconfigure.Create, "p3")
		other.wants(reconfigure.Create, "p4")
		one.Then(enginetest.AfterGreet, func() { other.wantDone("p4") })
		one.want("verdicts", map[string]string{"p3": "failed boot: no SSH"}, one.carry())
		one.wantOrder("configure p4 of ctl,p[1-4] apart from p3", "apply delete p3")
	})
}

func TestWhatAnotherBatchHasCleanedAwayIsNotToldOf(t *testing.T) {
	pair(t, func(one, other *lab) {
		one.Order(enginetest.NoSSH, "p3")
		one.PowersUp("p3")
		one.wants(reconfigure.Create, "p3")
		other.wants(reconfigure.Create, "p4")
		one.Then(enginetest.AfterGreet, func() { one.want("verdicts", map[string]string{"p3": "failed boot: no SSH"}, one.carry()) })
		other.wantDone("p4")
		if last := one.Calls()[len(one.Calls())-1]; last != "configure p4 of ctl,p[1-2,4]" {
			one.Errorf("the last call is %q", last)
		}
	})
}

// While the slurmd of one batch's node takes its time, the node is told of those of another one.
func TestANodeThatIsConfiguredIsToldOfThoseThatCome(t *testing.T) {
	pair(t, func(one, other *lab) {
		one.RegisterAfter(time.Minute)
		one.PowersUp("p3", "p4")
		one.wants(reconfigure.Create, "p3")
		other.wants(reconfigure.Create, "p4")
		time.AfterFunc(30*time.Second, func() { other.wantDone("p4") })
		one.wantDone("p3")
		one.want("calls", []string{"apply create p3", "configure p3 of ctl,p[1-3]", "apply create p4", "configure p4 of ctl,p[1-4]"}, one.Calls())
		time.Sleep(time.Minute)
	})
}

// watched is a provisioner that counts what is asked of it.
type watched struct {
	engine.Provisioner
	asked *int
}

func (w watched) Instances(ctx context.Context) (map[string]reconfigure.Instance, error) {
	*w.asked++
	return w.Provisioner.Instances(ctx)
}

// Somebody else has the turn with Terraform from the moment that it is free. A batch that goes well needs it no more; slurmd takes its time, and is looked at often.
func TestABatchThatIsMadeNeedsTerraformNoMore(t *testing.T) {
	test(t, func(one *lab) {
		asked, then := 0, 0
		deps := one.Deps()
		deps.Common = engine.NewCommon()
		deps.Provisioner = watched{deps.Provisioner, &asked}
		e := engine.New(declared(), deps)
		one.RegisterAfter(time.Minute)
		one.PowersUp("p3")
		one.wants(reconfigure.Create, "p3")
		done, err := deps.Common.Terraform(one.Context())
		if err != nil {
			one.Fatal(err)
		}
		seen, err := e.Observe(one.Context(), none)
		if err != nil {
			one.Fatal(err)
		}
		one.plan.Desired = desired(seen.Desired, one.plan.Changes)
		verdicts, err := e.Carry(one.Context(), 7, seen, one.plan, func() { then = asked }) // the turn is not over
		done()
		if err != nil || verdicts["p3"].Status != reconfigure.StatusDone || asked != then {
			one.Errorf("verdicts %+v, error %v; Terraform's state was read %d times, %d of them before it was made", verdicts, err, asked, then)
		}
	})
}

func TestATurnEndsOnceAndIsHandedOn(t *testing.T) {
	test(t, func(l *lab) {
		c := engine.NewCommon()
		first, err := c.Terraform(l.Context())
		if err != nil {
			l.Fatal(err)
		}
		var order []string
		ended := make(chan struct{})
		for _, name := range []string{"second", "third"} {
			go func() {
				done, err := c.Terraform(l.Context())
				if err != nil {
					l.Error(err)
				}
				order = append(order, name)
				done()
				done() // does nothing: it would end the next one's turn
				ended <- struct{}{}
			}()
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithTimeoutCause(l.Context(), time.Minute, errors.New("the lead is lost"))
		defer cancel()
		if _, err := c.Terraform(ctx); err == nil || err.Error() != "the lead is lost" {
			l.Errorf("error %v", err)
		}
		first()
		<-ended
		<-ended
		if !slices.Equal(order, []string{"second", "third"}) {
			l.Errorf("turns went to %v", order)
		}
	})
}
