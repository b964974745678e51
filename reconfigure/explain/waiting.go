package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// await says what a request without an outcome waits for at some of its nodes. The steps are those of its operations
// on these nodes, and of its submission.
func (s *Story) await(f Facts, r reconfigure.Request, nodes nodeset.NodeSet, steps []Step) {
	at, lasts := unended(steps)
	w := Waiting{Nodes: nodes, Since: r.Submitted}
	s.Deadline = f.deadline(r, Step{})
	id := r.ID.String()
	deferral, deferred := deferralOf(r, nodes)
	switch {
	case lasts && at.phase != reconfigure.PhasePlan:
		w.For, w.Nodes, w.Since = fmt.Sprintf(awaited[at.phase], text.Clip(at.Nodes.String(), 60)), at.Nodes, at.Begin
		if at.Reason != "" {
			w.For += "; it reported last: " + at.Reason
		}
		w.Usual = seconds(f.typical(f.groupOf(first(at.Nodes)))[partOf(at.phase)].P95)
		s.Deadline = f.deadline(r, at)
		s.advise("`reconfigure wait %s` follows it", id)
		if r.Mode == reconfigure.Resume {
			s.advise("`scontrol update nodename=%s state=power_down` gives the nodes up", at.Nodes)
		}
	case f.Pause != nil:
		w.For, w.Since = "the end of the pause"+by(f.Pause.By, f.Pause.Reason), f.Pause.Since
		s.advise("`reconfigure continue` ends the pause")
	case deferred:
		s.awaitDeferred(f, r, deferral, &w)
		if drained, ok := lastOf(steps, reconfigure.PhaseDrain); ok {
			w.Since = drained.Begin
		}
	case f.Worker == "":
		w.For = "a worker: none runs"
		if last, ok := lastOf(steps, ""); ok && last.Result == Interrupted {
			w.For, w.Since = "a worker: the one that "+last.What+" has ended, and none runs", last.Begin
		}
		s.advise("`reconfigure worker` starts one")
	default:
		w.For = "the worker, which begins a request when no earlier operation changes its nodes"
		if other, ok := f.before(r); ok {
			w.For = fmt.Sprintf("request %s (%s), which comes first", other.ID, other.Mode)
			s.advise("`reconfigure explain request %s` says what that one waits for", other.ID)
		}
		if !r.Touched {
			s.advise("`reconfigure cancel %s` cancels it", id)
		}
	}
	s.WaitsFor = &w
}

// awaited says for each phase what nodes wait for.
var awaited = map[reconfigure.Phase]string{
	reconfigure.PhaseDrain:     "Slurm to drain %s",
	reconfigure.PhaseClean:     "Ansible to clean the disk of %s",
	reconfigure.PhaseImage:     "the cloud to make the image of %s",
	reconfigure.PhaseApply:     "Terraform and the cloud to change the instance of %s",
	reconfigure.PhaseBoot:      "the instance of %s to boot: SSH does not answer yet",
	reconfigure.PhaseConfigure: "Ansible to configure %s",
	reconfigure.PhaseVerify:    "slurmd of %s to register with Slurm",
	reconfigure.PhaseReport:    "Slurm to accept the result of %s",
}

// awaitDeferred says what a deferred request waits for.
func (s *Story) awaitDeferred(f Facts, r reconfigure.Request, d reconfigure.Deferral, w *Waiting) {
	if d.Node != "" {
		w.Nodes = nodeset.Of(d.Node)
	}
	w.For = text.OneLine(d.Reason)
	switch d.Kind {
	case reconfigure.WaitsForJobs:
		w.For = "the jobs on the nodes to end: " + w.For
		s.Deadline = f.deadline(r, Step{phase: reconfigure.PhaseDrain})
		s.advise("`squeue -w %s` shows the jobs", w.Nodes)
	case reconfigure.SlurmUnreachable:
		w.For = "Slurm, which does not answer: " + w.For
		s.advise("start slurmctld on the control node; the request is planned again every ten seconds")
	case reconfigure.CloudUnreachable:
		w.For = "the cloud, which does not answer: " + w.For
		s.advise("look at the cloud; the request is planned again every ten seconds")
	default:
		w.For = "a plan, which cannot be made: " + w.For
		s.advise("fix what it names, and look with `reconfigure check`; the request is planned again every ten seconds")
	}
}

// unended returns the step that lasts; of several, the one in the earliest phase, which decides when all are done.
func unended(steps []Step) (at Step, lasts bool) {
	for _, s := range steps {
		if s.Result == Lasts && s.phase != "" && (!lasts || rank(s.phase) < rank(at.phase) ||
			rank(s.phase) == rank(at.phase) && s.Begin.Before(at.Begin)) {
			at, lasts = s, true
		}
	}
	return at, lasts
}

// rank is the place of a phase in an operation.
func rank(p reconfigure.Phase) int {
	return slices.Index([]reconfigure.Phase{
		reconfigure.PhaseRequested, reconfigure.PhasePlan, reconfigure.PhaseDrain, reconfigure.PhaseClean,
		reconfigure.PhaseImage, reconfigure.PhaseApply, reconfigure.PhaseBoot, reconfigure.PhaseConfigure,
		reconfigure.PhaseVerify, reconfigure.PhaseReport,
	}, p)
}

// lastOf returns the last step in a phase; in any phase if it is empty.
func lastOf(steps []Step, phase reconfigure.Phase) (Step, bool) {
	for _, s := range slices.Backward(steps) {
		if s.phase != "" && (phase == "" || s.phase == phase) {
			return s, true
		}
	}
	return Step{}, false
}

// partOf returns the part of a job's wait that a phase is.
func partOf(p reconfigure.Phase) usage.Part {
	return map[reconfigure.Phase]usage.Part{
		reconfigure.PhasePlan: usage.PartQueue, reconfigure.PhaseApply: usage.PartCloud,
		reconfigure.PhaseBoot: usage.PartBoot, reconfigure.PhaseConfigure: usage.PartAnsible,
		reconfigure.PhaseVerify: usage.PartRegister,
	}[p]
}

// deferralOf returns why a request is deferred at one of the nodes, or as a whole.
func deferralOf(r reconfigure.Request, nodes nodeset.NodeSet) (reconfigure.Deferral, bool) {
	for _, d := range r.Deferred {
		if d.Node == "" || nodes.Empty() || nodes.Contains(d.Node) {
			return d, true
		}
	}
	return reconfigure.Deferral{}, false
}

// before returns an earlier request without an outcome that has a node in common, or is for the whole cluster.
func (f Facts) before(r reconfigure.Request) (reconfigure.Request, bool) {
	for _, other := range f.Pending {
		common := other.Nodes.Empty() || r.Nodes.Empty() || !other.Nodes.Intersect(r.Nodes).Empty()
		if other.ID < r.ID && common {
			return other, true
		}
	}
	return reconfigure.Request{}, false
}

// deadline returns when a step of a request ends at the latest; zero if that is unknown, or there is no limit.
func (f Facts) deadline(r reconfigure.Request, at Step) time.Time {
	var limit time.Time
	switch {
	case at.phase == reconfigure.PhaseDrain && r.DrainTimeout > 0:
		limit = r.Submitted.Add(r.DrainTimeout)
	case r.Mode == reconfigure.Resume && f.Cluster.Slurm.ResumeTimeout > 0 && f.slurmWaits(r):
		limit = r.Submitted.Add(plan.Usable(f.Cluster.Slurm.ResumeTimeout))
	}
	if boot := f.Cluster.Settings.BootTimeout; at.phase == reconfigure.PhaseBoot && boot > 0 {
		if ends := at.Begin.Add(boot); limit.IsZero() || ends.Before(limit) {
			limit = ends
		}
	}
	return limit
}

// slurmWaits reports whether Slurm waits for nodes of a resume, or may wait for them: else a person does, without a
// limit.
func (f Facts) slurmWaits(r reconfigure.Request) bool {
	return len(r.Jobs) > 0 || !f.Seen.Asked(snapshot.Slurm) ||
		!r.Nodes.Where(func(node string) bool { return f.Seen.States[node].PoweringUp() }).Empty()
}

func (s *Story) advise(format string, args ...any) {
	if advice := fmt.Sprintf(format, args...); !slices.Contains(s.Advice, advice) {
		s.Advice = append(s.Advice, advice)
	}
}

// adviseOnFailure says what a person can do after the failure of a step.
func (s *Story) adviseOnFailure(f Facts, at Step) {
	node := first(at.Nodes)
	if at.Link.Evidence != "" {
		s.advise("`%s` shows the console log and the output of the task", at.Link.Evidence)
	}
	if advice := classAdvice[at.Class]; advice != "" {
		s.advise("%s", strings.ReplaceAll(advice, "NODE", cmp.Or(node, "NODE")))
	}
	h, failing := f.Health[f.groupOf(node)]
	until, cools := plan.CoolsDown(h, f.Now, f.Cluster.Settings)
	switch {
	case failing && cools:
		s.advise("group %s gets no new nodes until %s; `reconfigure continue %s` ends that", h.Group, clock(until), h.Group)
	case failing && plan.Broken(h, f.Cluster.Settings):
		s.advise("group %s has failed %d times in a row, and gets one new node at a time; `reconfigure continue %s` ends "+
			"that", h.Group, h.Failures, h.Group)
	}
}

// classAdvice has for each class what a person can do. docs/guides/failures.md says more.
var classAdvice = map[reconfigure.Class]string{
	reconfigure.ClassQuota:     "raise the quota of the project, or free some of it; `reconfigure check` shows the quota",
	reconfigure.ClassCapacity:  "wait until the cloud has room, or declare another flavor in all.yml",
	reconfigure.ClassRateLimit: "wait; a lower `parallelism` in all.yml asks for less at a time",
	reconfigure.ClassCloud:     "look at the cloud's API; a later request is made as soon as it answers",
	reconfigure.ClassMissing: "correct the image, flavor or network in all.yml, or restore it; " +
		"`reconfigure image list` shows the images",
	reconfigure.ClassBoot: "look at the end of its console log; if it is only slow, raise `boot_timeout` in " +
		"all.yml",
	reconfigure.ClassSSH: "look at the network, the security group and the image's `login_user`; " +
		"`reconfigure image check` tests the image",
	reconfigure.ClassPlaybook: "look at the task's output, and at state/log/ansible.log",
	reconfigure.ClassAnsible:  "restore what the reason names; `state/log/ansible.log` has the whole run",
	reconfigure.ClassUnhealthy: "look at the output of the check, and at the host of the instance: `reconfigure hosts`; " +
		"docs/guides/health.md has more",
	reconfigure.ClassUnregistered: "look at slurmd's log on a node of the image, at its clock, and at the group's CPUs " +
		"and RealMemory in all.yml",
	reconfigure.ClassLocked: "wait for the process that the reason names, or release its lock with " +
		"`terraform force-unlock`",
	reconfigure.ClassRefused: "read in the reason what would have happened; `reconfigure status NODE` shows the node",
	reconfigure.ClassUnknown: "nothing: it is tried again; `reconfigure reconcile` shows what is left",
	reconfigure.ClassBusy:    "`squeue -w NODE` shows the jobs; ask again, or with a longer --drain-timeout",
	reconfigure.ClassOther:   "read the reason; state/log/worker.log has more",
}

// by names the person who did something, and the reason.
func by(who, why string) string {
	words := ""
	if who != "" {
		words += " by " + text.OneLine(who)
	}
	if why != "" {
		words += ": " + text.OneLine(why)
	}
	return words
}

// first returns the first node; empty if there is none.
func first(nodes nodeset.NodeSet) string {
	for node := range nodes.All() {
		return node
	}
	return ""
}

// clock returns a time for people, in the zone of this host.
func clock(t time.Time) string { return t.Local().Format(time.DateTime) }
