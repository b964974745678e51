package operation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// keeping runs a test on a cloud that can set instances aside, with the first instance of p3 a lemon and one retry.
func keeping(t *testing.T, do func(*lab)) {
	t.Helper()
	empty(t, func(l *lab) {
		l.CanSetAside()
		l.deps = l.Deps()
		l.Have("ctl", "p1", "p2")
		l.resumes(9*time.Minute, 1, "p3")
		l.Order(simulate.Lemon, "p3")
		do(l)
	})
}

// aside returns the ids of the instances that are set aside.
func (l *lab) aside() (ids []string) {
	l.Helper()
	servers, err := l.World.Servers(l.Context(), nodeset.NodeSet{})
	if err != nil {
		l.Fatal(err)
	}
	for _, all := range servers {
		for _, s := range all {
			if s.Aside {
				ids = append(ids, s.ID)
			}
		}
	}
	return ids
}

// wantNoneLeft checks that all instances in the cloud are in Terraform's state.
func (l *lab) wantNoneLeft() {
	l.Helper()
	l.want("instances that Terraform does not know", []string(nil), l.Orphans())
	l.want("instances that are set aside", []string(nil), l.aside())
}

func TestFailedInstanceIsKeptUntilAnotherOneIsUp(t *testing.T) {
	keeping(t, func(l *lab) {
		var first string
		l.Then(simulate.AfterConfigure, func() { first = strings.Join(l.aside(), " ") })
		l.wantDone("p3")
		l.wantAttempts("p3", 2)
		l.want("the instance that was avoided", []string{first}, l.Avoided())
		l.wantOrder("apply create p3", "forget p3", "set aside p3", "apply create p3", "delete orphan p3")
		l.wantNote("its instance " + first + " is kept, stopped, until another one is up")
		l.wantNoneLeft()
		l.want("the map of nodes", l.Spec("p3"), l.Node("p3").Spec)
		l.want("two at once with a port", []string(nil), l.Doubled())
	})
}

func TestInstanceThatWasKeptIsRemovedAlsoIfTheNodeFails(t *testing.T) {
	keeping(t, func(l *lab) {
		l.Order(simulate.NoSSH, "p3")
		l.wantVerdicts(map[string]string{"p3": "failed boot: no SSH: it did not answer in time"})
		l.wantOrder("set aside p3", "apply create p3", "apply delete p3")
		l.wantNoneLeft()
		l.want("node", simulate.Node{State: back}, l.Node("p3"))
	})
}

// TestOnlyOneInstanceIsKept lets three attempts fail.
func TestOnlyOneInstanceIsKept(t *testing.T) {
	keeping(t, func(l *lab) {
		l.change("p3").Retries, l.change("p3").Deadline = 2, time.Now().Add(time.Hour)
		l.Order(simulate.NoSSH, "p3")
		l.carry()
		l.wantAttempts("p3", 3)
		l.wantOrder("set aside p3", "apply create p3", "delete orphan p3", "forget p3", "set aside p3", "apply create p3")
		l.want("instances that were avoided", 2, len(slices.Compact(l.Avoided())))
		l.wantNoneLeft()
	})
}

func TestNoInstanceIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		order func(*lab)
		note  string
	}{
		"without quota for two": {
			func(l *lab) { l.Limit(reconfigure.Use{Instances: 4, Cores: -1, RAM: -1}) }, "4 of 4 instances are in use",
		},
		"if the cloud refuses it": {
			func(l *lab) { l.Order(simulate.NeverAside, "p3") }, string(simulate.NeverAside),
		},
		"if it is not stopped in time": {
			func(l *lab) { l.Takes(simulate.Switching, simulate.Forever, "p3") }, "it is not done after 1m30s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			keeping(t, func(l *lab) {
				test.order(l)
				l.wantDone("p3")
				l.wantAttempts("p3", 2)
				l.wantNever("set aside")
				l.wantNote("its instance is not kept until another one is up: ")
				l.wantNote(test.note)
				l.want("instances that were avoided", 0, len(l.Avoided()))
				l.wantNoneLeft()
			})
		})
	}
}

// TestInstanceThatWasKeptGoesIfThereIsNoOtherRoom gives the cloud no room while the instance is kept. The job needs
// all of its nodes, and p4 must not be given up.
func TestInstanceThatWasKeptGoesIfThereIsNoOtherRoom(t *testing.T) {
	keeping(t, func(l *lab) {
		l.resumes(9*time.Minute, 1, "p4")
		l.cluster.Partitions = []reconfigure.Partition{{Name: "main", Groups: []string{"group"}, AllOrNothing: true}}
		l.plan.Jobs = []reconfigure.Job{{ID: 4, Nodes: nodeset.Of("p3", "p4")}}
		for _, node := range []string{"p3", "p4"} {
			l.change(node).ForJobs = true
		}
		l.Then(simulate.AfterAside, func() {
			l.Order(simulate.NoValidHost, "p3")
			l.Then(simulate.AfterApply, func() { l.Clear(simulate.NoValidHost) })
		})
		l.wantDone("p3", "p4")
		l.wantNote("tried again without the instance that was kept: capacity: No valid host")
		l.wantOrder("set aside p3", "apply create p3", "delete orphan p3", "apply create p3")
		l.wantNoneLeft()
	})
}

// TestInstanceWithAJobIsNotSetAside has an image whose slurmd starts at boot. The instance does not answer the control
// host, and its job runs.
func TestInstanceWithAJobIsNotSetAside(t *testing.T) {
	keeping(t, func(l *lab) {
		l.Clear(simulate.Lemon)
		l.Order(simulate.NoSSH, "p3")
		l.Order(simulate.StartsByItself, "p3")
		l.carry()
		l.wantNever("forget", "set aside", "apply delete")
		l.wantNote("it is not retried: its instance could not be removed: left alone: a job runs on it")
		l.want("lost jobs", []string(nil), l.Lost())
	})
}
