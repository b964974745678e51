package operation_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// wantHealth compares the health of the group, without times. The zero value stands for a group without failures.
func (l *lab) wantHealth(want reconfigure.Health) {
	l.Helper()
	known, err := l.World.Health(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	want.Group = known["group"].Group
	// Of several that fail at the same time, any may be the last.
	if diff := cmp.Diff(
		want, known["group"], cmpopts.IgnoreTypes(time.Time{}), cmpopts.IgnoreFields(reconfigure.Setback{}, "Node"),
	); diff != "" {
		l.Errorf("health (-want +got):\n%s", diff)
	}
}

// entirely makes the partition give jobs all of their nodes or none.
func (l *lab) entirely() {
	c := declared()
	c.Partitions = []reconfigure.Partition{{Name: "main", Groups: []string{"group"}, AllOrNothing: true}}
	l.cluster = c
}

// forJobs marks the changes as for jobs.
func (l *lab) forJobs() {
	for i := range l.plan.Changes {
		l.plan.Changes[i].ForJobs = true
	}
}

// later clears the plan, as if a moment had passed.
func (l *lab) later() {
	l.plan = reconfigure.Plan{}
	time.Sleep(time.Minute)
}

// A service is restarted while nodes come up.
func TestTheEndOfTheOperatorIsNoBootFailure(t *testing.T) {
	test(t, func(l *lab) {
		l.wants(reconfigure.Create, "p3", "p4")
		l.Order(simulate.NeverRegisters, "p3", "p4")
		round := l.start()
		time.Sleep(20 * time.Second)
		l.end(context.Canceled)
		l.want("verdicts", 0, len(round.wait()))
		l.operator().Wait()
		l.wantHealth(reconfigure.Health{})
	})
}

func TestResultsOfNodesChangeTheHealthOfTheirGroup(t *testing.T) {
	for fault, want := range map[simulate.Fault]reconfigure.Health{
		simulate.NoValidHost: {Full: reconfigure.Setback{
			Node: "p4", Class: reconfigure.ClassCapacity, Reason: "No valid host was found: its instance is in ERROR",
		}},
		simulate.NoQuota: {Full: reconfigure.Setback{
			Node: "p4", Class: reconfigure.ClassQuota, Reason: "quota exceeded",
		}},
		simulate.LostCreate: {},
		simulate.NoSSH: {
			Failures: 2,
			Last:     reconfigure.Setback{Node: "p4", Class: reconfigure.ClassSSH, Reason: "no SSH: it did not answer in time"},
		},
		simulate.PlaybookFails: {
			Failures: 2, Last: reconfigure.Setback{Node: "p4", Class: reconfigure.ClassPlaybook, Reason: "playbook fails"},
		},
		simulate.NotActive:      {},
		simulate.BrokenPlaybook: {},
		simulate.CloudSilent:    {},
	} {
		t.Run(string(fault), func(t *testing.T) {
			test(t, func(l *lab) {
				l.PowersUp("p3", "p4")
				l.Order(fault, "p3", "p4")
				l.wants(reconfigure.Create, "p3", "p4")
				l.carry()
				l.wantHealth(want)

				l.later()
				l.Clear(fault)
				l.PowersUp("p5")
				l.wants(reconfigure.Create, "p5")
				l.wantVerdicts(map[string]string{"p5": "done"})
				l.wantHealth(reconfigure.Health{})
			})
		})
	}
}

// Other nodes of the run that come up do not show that there is room: they may have taken the last.
func TestPreflightFindsThatThereIsNoRoom(t *testing.T) {
	test(t, func(l *lab) {
		l.Limit(instances(4))
		l.PowersUp("p3", "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		full := reconfigure.Health{Full: reconfigure.Setback{
			Node: "p4", Class: reconfigure.ClassQuota, Reason: "3 of 4 instances are in use besides 1 for nodes that come first",
		}}
		l.Takes(simulate.Registering, time.Minute)
		before := time.Now()
		l.Then(simulate.AfterWait, func() { l.wantHealth(full) }) // the playbooks take minutes
		l.want("p3", "done", l.carry()["p3"])
		l.wantHealth(full)
		if known, err := l.World.Health(l.Context()); err != nil || known["group"].Full.Node != "p4" ||
			known["group"].Full.Time.Sub(before) > time.Second {
			l.Errorf("there was no room at %v, and at %v known is %+v, error %v", before, time.Now(), known, err)
		}
	})
}

func TestRebootDoesNotCountForTheGroup(t *testing.T) {
	test(t, func(l *lab) {
		l.Reboots("p1", "p2")
		l.Order(simulate.NoSSH, "p1", "p2")
		l.wants(reconfigure.Reboot, "p1", "p2")
		l.want("p1", "failed boot: no SSH: it did not answer in time", l.carry()["p1"])
		l.wantHealth(reconfigure.Health{})
	})
}

// Another plan may be made as soon as this one has begun.
func TestProbeIsRecordedBeforeAnythingBegins(t *testing.T) {
	test(t, func(l *lab) {
		l.Order(simulate.NoSSH, "p3")
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.plan.Changes[0].Probe = true
		l.Then(simulate.AfterPreview, func() { l.wantHealth(reconfigure.Health{Probe: reconfigure.Probe{Node: "p3"}}) })
		l.carry()
		l.wantHealth(reconfigure.Health{
			Failures: 1,
			Last:     reconfigure.Setback{Node: "p3", Class: reconfigure.ClassSSH, Reason: "no SSH: it did not answer in time"},
		})
	})
}

func TestHealthThatCannotBeWrittenIsNoFailure(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.deps.Health = forgetful{l.World}
		l.wantVerdicts(map[string]string{"p3": "done"})
		l.wantNote("the health of group group could not be kept: journal full")
	})
}

// forgetful fails to store health.
type forgetful struct{ *simulate.World }

func (f forgetful) UpdateHealth(
	ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health,
) error {
	f.Order(simulate.JournalFull)
	defer f.Clear(simulate.JournalFull)
	return f.World.UpdateHealth(ctx, group, update)
}

func TestNodesOfAJobThatCannotBeginAreGivenUp(t *testing.T) {
	test(t, func(l *lab) {
		l.entirely()
		l.waits(map[int64][]string{10: {"p3", "p4", "p5", "p7"}})
		l.waits(map[int64][]string{11: {"p5", "p6"}})
		l.Takes(simulate.Booting, 5*time.Second, "p3")
		l.Order(simulate.NoValidHost, "p4")
		l.wants(reconfigure.Create, "p3", "p4", "p5", "p6")
		l.forJobs()
		l.wants(reconfigure.Create, "p7") // by hand
		const refused = "No valid host was found: its instance is in ERROR"
		const given = "given up: job 10 gets all of its nodes or none, and not p4: " + refused
		l.wantVerdicts(map[string]string{
			"p3": "failed boot: " + given, "p4": "failed apply: " + refused, "p5": "done", "p6": "done", "p7": "done",
		})
		l.want(
			"classes", map[string]reconfigure.Class{"p3": reconfigure.ClassCapacity, "p4": reconfigure.ClassCapacity}, l.classes,
		)
		l.wantOrder("apply create p[3-7]", "down p4: capacity", "apply delete p[3-4]", "power_down p[3-4]")
		l.wantOrder("down p3: capacity: "+given, "comment [10]")
		l.wantOrder("configure p[5-7]")
		l.want("a node that was given up", simulate.Node{State: back}, l.Node("p3"))
		l.wantHealth(reconfigure.Health{Full: reconfigure.Setback{
			Node: "p4", Class: reconfigure.ClassCapacity, Reason: refused,
		}})
	})
}

// A failure that is not a lack of room leaves no room to others.
func TestNoJobIsGivenUpForAnotherFailure(t *testing.T) {
	for _, fault := range []simulate.Fault{simulate.LostCreate, simulate.NoSSH, simulate.PlaybookFails} {
		t.Run(string(fault), func(t *testing.T) {
			test(t, func(l *lab) {
				l.entirely()
				l.waits(map[int64][]string{10: {"p3", "p4"}})
				l.Order(fault, "p4")
				l.wants(reconfigure.Create, "p3", "p4")
				l.forJobs()
				l.want("p3", "done", l.carry()["p3"])
			})
		})
	}
}

// A group has room although one of its nodes was given up because of another group's node.
func TestGivenUpNodeDoesNotCountForItsGroup(t *testing.T) {
	test(t, func(l *lab) {
		c := declared()
		c.Groups[0].Max = 5
		c.Groups = append(c.Groups, reconfigure.NodeGroup{
			Name: "other", Prefix: "p", Width: 1, Source: c.Groups[0].Source, Max: 8,
		})
		c.Partitions = []reconfigure.Partition{{Name: "main", Groups: []string{"group", "other"}, AllOrNothing: true}}
		l.cluster = c
		l.waits(map[int64][]string{10: {"p3", "p6"}})
		l.Order(simulate.NoValidHost, "p6")
		l.wants(reconfigure.Create, "p3", "p6")
		l.forJobs()
		l.carry()
		l.wantHealth(reconfigure.Health{})
		if known, err := l.World.Health(l.Context()); err != nil || known["other"].Full.Node != "p6" {
			l.Errorf("the other group: %+v, error %v", known, err)
		}
	})
}

func TestGivenUpNodeIsRemovedInTheEnd(t *testing.T) {
	test(t, func(l *lab) {
		l.entirely()
		l.waits(map[int64][]string{10: {"p3", "p4"}})
		l.Order(simulate.NoValidHost, "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.forJobs()
		l.Then(simulate.AfterApply, func() { l.Order(simulate.StateLocked) })
		time.AfterFunc(20*time.Second, func() { l.Clear(simulate.StateLocked) })
		l.carry()
		l.wantNote("could not be removed, tried again in 2s: state-locked: state locked")
		l.want("a node that was given up", simulate.Node{State: back}, l.Node("p3"))
	})
}

func TestRoomThatAJobCannotUseGoesToTheNextOne(t *testing.T) {
	test(t, func(l *lab) {
		l.entirely()
		l.Limit(instances(5))
		l.waits(map[int64][]string{10: {"p3", "p4", "p5"}})
		l.waits(map[int64][]string{11: {"p6", "p7"}})
		l.wants(reconfigure.Create, "p3", "p4", "p5", "p6", "p7")
		l.forJobs()
		const short = "3 of 5 instances are in use besides 2 for nodes that come first"
		const given = "failed apply: given up: job 10 gets all of its nodes or none, and not p5: " + short
		l.wantVerdicts(map[string]string{
			"p3": given, "p4": given, "p5": "failed apply: " + short, "p6": "done", "p7": "done",
		})
		l.wantOrder("down p5", "power_down p[3-5]")
		l.wantOrder("apply create p[6-7]")
		l.wantHealth(reconfigure.Health{Full: reconfigure.Setback{Node: "p5", Class: reconfigure.ClassQuota, Reason: short}})
	})
}
