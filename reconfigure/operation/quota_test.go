package operation_test

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// instances returns a limit of instances; the control node and both persistent nodes take three.
func instances(n int) reconfigure.Use { return reconfigure.Use{Instances: n, Cores: -1, RAM: -1} }

func TestNodesThatDoNotFitFailBeforeTheOthersAreMade(t *testing.T) {
	test(t, func(l *lab) {
		l.Limit(instances(5))
		l.waits(map[int64][]string{10: {"p6"}, 11: {"p6", "p5"}, 12: {"p5", "p4"}, 13: {"p3"}})
		l.wants(reconfigure.Create, "p3", "p4", "p5", "p6")
		const reason = "3 of 5 instances are in use besides 2 for nodes that come first"
		l.wantVerdicts(map[string]string{
			"p3": "failed apply: " + reason, "p4": "failed apply: " + reason, "p5": "done", "p6": "done",
		})
		l.want("classes", map[string]reconfigure.Class{"p3": reconfigure.ClassQuota, "p4": reconfigure.ClassQuota}, l.classes)
		l.wantOrder("down p[3-4]: quota: "+reason,
			"comment [12 13]: a node for this job did not come: the cluster may not have more machines", "power_down p[3-4]")
		l.wantOrder("apply create p[5-6]")
		l.want("a node that did not fit", simulate.Node{State: back}, l.Node("p3"))
		l.want("a node that did", "ALLOCATED+CLOUD", l.Node("p6").State)
	})
}

func TestTerraformDoesNotRunIfNothingFits(t *testing.T) {
	test(t, func(l *lab) {
		l.Limit(instances(3))
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.wantVerdicts(map[string]string{"p3": "failed apply: 3 of 3 instances are in use"})
		l.want("calls", []string{"down p3: quota: 3 of 3 instances are in use", "power_down p3"}, l.Calls())
	})
}

// A rebuild and a removal need no room.
func TestWhatIsThereAlreadyNeedsNoRoom(t *testing.T) {
	test(t, func(l *lab) {
		l.Have("p3", "p4")
		l.PowersUp("p3")
		l.PowersDown("p4")
		l.Limit(instances(5)) // as many as there are
		l.wants(reconfigure.Replace, "p3")
		l.wants(reconfigure.Remove, "p4")
		l.wantVerdicts(map[string]string{"p3": "done", "p4": "done"})
	})
}

func TestNodesAreMadeIfTheCloudDoesNotReportItsQuota(t *testing.T) {
	test(t, func(l *lab) {
		l.Limit(instances(4))
		l.Order(simulate.LimitsHidden)
		l.PowersUp("p3", "p4")
		l.wants(reconfigure.Create, "p3", "p4")
		l.wantVerdicts(map[string]string{"p3": "done", "p4": "failed apply: quota exceeded"})
		l.want("classes", map[string]reconfigure.Class{"p4": reconfigure.ClassQuota}, l.classes)
		l.wantNote("the cloud does not say how much room there is: limits hidden")
	})
}

// If it counted before its removal, it would take the room of its own node for ever.
func TestInstanceThatTerraformDoesNotKnowTakesNoRoomOfItsNode(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.Order(simulate.LostCreate, "p3")
		l.wants(reconfigure.Create, "p3")
		l.Then(simulate.AfterApply, func() { l.Order(simulate.CloudSilent) }) // so that it cannot be removed at once
		l.carry()
		l.Clear(simulate.LostCreate)
		l.Clear(simulate.CloudSilent)
		l.Limit(instances(4))
		l.plan = reconfigure.Plan{}
		l.PowersUp("p3")
		l.wants(reconfigure.Create, "p3")
		l.wantVerdicts(map[string]string{"p3": "done"})
	})
}
