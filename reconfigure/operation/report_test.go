package operation_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// waits adds jobs that wait for nodes.
func (l *lab) waits(jobs map[int64][]string) {
	for job, nodes := range jobs {
		l.Submits(job)
		l.PowersUp(nodes...)
		l.plan.Jobs = append(l.plan.Jobs, reconfigure.Job{ID: job, Nodes: nodeset.Of(nodes...)})
	}
}

const owner = "reconfigure: a node for this job did not come: "

func TestOwnersOfJobsLearnWhyTheirNodesDidNotCome(t *testing.T) {
	test(t, func(l *lab) {
		l.waits(map[int64][]string{10: {"p3"}, 11: {"p3", "p4"}, 12: {"p4"}, 13: {"p5"}})
		l.Remarks(12, "billed to physics")
		l.Order(simulate.NoValidHost, "p4")
		l.Order(simulate.PlaybookFails, "p5")
		l.wants(reconfigure.Create, "p3", "p4", "p5")
		l.carry()
		l.want("comments", map[int64]string{
			10: "",
			11: owner +
				"the cloud has no room for more machines of this kind at the moment. The job waits for its next turn. (capacity)",
			12: "billed to physics",
			13: owner + "the machine could not be set up. The job waits for its next turn. (playbook)",
		}, l.Comments())
		// Slurm requeues the job first, since the comment can wait.
		l.wantOrder("down p4: capacity", "comment [11 12]: a node", "configure", "down p5", "comment [13]: a node")
	})
}

func TestOwnerOfAJobThatRunsIsToldNothing(t *testing.T) {
	test(t, func(l *lab) {
		l.waits(map[int64][]string{10: {"p3"}})
		l.Order(simulate.NotActive, "p3")
		l.wants(reconfigure.Create, "p3")
		l.wantVerdicts(map[string]string{"p3": "failed verify: the cloud does not have its instance as running"})
		l.want("state", "ALLOCATED+CLOUD", l.Node("p3").State)
		l.want("comment", "", l.Comments()[10])
	})
}

func TestOwnersAreToldTogether(t *testing.T) {
	test(t, func(l *lab) {
		l.waits(map[int64][]string{10: {"p3"}, 11: {"p4"}, 12: {"p5"}})
		l.plan.Jobs = append(l.plan.Jobs, l.plan.Jobs...) // two requests name them
		l.Order(simulate.NoQuota, "p3", "p4", "p5")
		l.wants(reconfigure.Create, "p3", "p4", "p5")
		l.carry()
		l.wantOrder("comment [10 11 12]: a node")
		told := 0
		for _, call := range l.Calls() {
			if strings.HasPrefix(call, "comment") {
				told++
			}
		}
		l.want("calls", 1, told)
	})
}

func TestOwnersLearnOfANodeThatCannotBePlanned(t *testing.T) {
	test(t, func(l *lab) {
		l.waits(map[int64][]string{10: {"p3"}})
		l.plan.Rejected = []reconfigure.Rejection{{
			Node: "p3", Request: 1, Reason: `image "v9": not found`, Class: reconfigure.ClassMissing, Awaited: true,
		}}
		l.carry()
		l.want(
			"comment",
			owner+`the image, flavor or network of the machine does not exist; an administrator must fix it. `+
				`The job waits for its next turn. (missing)`,
			l.Comments()[10],
		)
		l.wantOrder(`down p3: missing: image "v9": not found`, "comment [10]", "power_down p3")
	})
}

// Slurm answers for the nodes' states and their changes, but refuses comments.
func TestCommentThatFailsIsOnlyNoted(t *testing.T) {
	test(t, func(l *lab) {
		l.waits(map[int64][]string{10: {"p4"}})
		l.Order(simulate.NoValidHost, "p4")
		l.Order(simulate.NoComments)
		l.wants(reconfigure.Create, "p3", "p4")
		l.wantVerdicts(map[string]string{
			"p3": "done", "p4": "failed apply: No valid host was found: its instance is in ERROR",
		})
		l.want("the bad node", simulate.Node{State: back}, l.Node("p4"))
		l.wantNote("the owners of the jobs that wait could not be told: no comments")
	})
}

func TestSlurmIsNotToldTheAddressesOfTheCloud(t *testing.T) {
	test(t, func(l *lab) {
		l.PowersUp("p3")
		l.plan.Rejected = []reconfigure.Rejection{{
			Node: "p3", Request: 1, Reason: `Get "http://192.0.2.20/images": dial tcp 192.0.2.20:80: connection refused`,
			Awaited: true,
		}}
		l.carry()
		l.want("calls", []string{"down p3: Get the API: dial tcp: connection refused", "power_down p3"}, l.Calls())
	})
}
