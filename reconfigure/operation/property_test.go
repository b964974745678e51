package operation_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// bubble hides a test's deadline from rapid, since it is not in the time of the synctest bubble.
type bubble struct{ rapid.TB }

// drawn is a world, a plan, and faults and events.
type drawn struct {
	*simulate.World
	*rapid.T
	cluster reconfigure.Cluster
	plan    reconfigure.Plan
	seen    snapshot.Snapshot
	lock    sync.Mutex // for ordered
	ordered map[simulate.Fault]nodeset.NodeSet
	before  map[string]simulate.Node
	slow    bool // something takes long, or does not end
}

func TestWhateverGoesWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(r *rapid.T) {
			d := draw(r)
			verdicts := d.carry(t)
			d.oneVerdictEach(verdicts)
			d.noJobIsLost()
			d.nobodyElseIsTouched()
			d.noneIsLeftBehind(verdicts)
			d.doneIsDone(verdicts)
			d.nothingClashes()
		})
	})
}

// carry carries out the plan, and waits until nothing is under way.
func (d *drawn) carry(t *testing.T) map[string]reconfigure.Verdict {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	timing := operation.DefaultTiming()
	// Short, since rapid gives up after 24 hours.
	timing.Register, timing.Remove, timing.Build = 5*time.Second, 30*time.Second, time.Minute
	o := operation.New(ctx, d.cluster, d.Deps(), timing)
	came := make(chan reconfigure.Verdict, 100)
	o.Start(operation.Round{Number: 1, Cluster: d.cluster, Seen: d.seen, Plan: d.plan}, func(v reconfigure.Verdict) {
		came <- v
	})
	o.Wait()
	close(came)
	verdicts := map[string]reconfigure.Verdict{}
	for v := range came {
		verdicts[v.Node] = v
	}
	return verdicts
}

func draw(t *rapid.T) *drawn {
	cluster := declared()
	cluster.Slurm.ResumeTimeout = 5 * time.Second
	cluster.Settings.BootTimeout = 10 * time.Second
	cluster.Settings.Interrupt = rapid.Bool().Draw(t, "Terraform is interrupted")
	d := &drawn{
		World: simulate.NewWorld(cluster), T: t, cluster: cluster, ordered: map[simulate.Fault]nodeset.NodeSet{},
		before: map[string]simulate.Node{},
	}
	d.Have("ctl")
	nodes := declared().Nodes().Names()
	for _, node := range nodes {
		d.drawNode(node)
	}
	time.Sleep(time.Second)
	d.seen = observe(t, d.World)
	d.plan.Desired = desired(d.seen.Desired, d.plan.Changes)
	for _, fault := range []simulate.Fault{
		simulate.NoValidHost, simulate.NoQuota, simulate.NeverRemoved, simulate.RebootFails, simulate.NotActive,
		simulate.NoSSH,
		simulate.PlaybookFails, simulate.NeverRegisters, simulate.StartsByItself, simulate.SlurmRefuses,
		simulate.OtherImage, simulate.LateFailure, simulate.LostPoll, simulate.LostCreate, simulate.NotProven,
		simulate.NoPort, simulate.NotReached, simulate.NotSent,
	} {
		if rapid.IntRange(0, 3).Draw(t, string(fault)) == 0 {
			d.order(fault, rapid.SampledFrom(nodes).Draw(t, "whom"))
		}
	}
	for _, fault := range []simulate.Fault{
		simulate.StateLocked, simulate.LostAnswer, simulate.Killed, simulate.CloudSilent, simulate.BrokenPlaybook,
		simulate.SlurmSilent,
	} {
		if rapid.IntRange(0, 7).Draw(t, string(fault)) == 0 {
			d.order(fault)
		}
	}
	for _, slow := range []simulate.Doing{simulate.Building, simulate.Removing, simulate.Booting} {
		if rapid.IntRange(0, 3).Draw(t, string(slow)) == 0 {
			takes := rapid.SampledFrom([]time.Duration{20 * time.Second, simulate.Forever}).Draw(t, "how long")
			d.slow = true
			d.Takes(slow, takes, rapid.SampledFrom(nodes).Draw(t, "whom"))
		}
	}
	for _, call := range []simulate.Call{
		simulate.AfterPreview, simulate.AfterApply, simulate.AfterAdopt, simulate.AfterWait, simulate.AfterConfigure,
	} {
		for range 2 { // the second one comes during the removal of failed nodes
			started := rapid.SliceOfN(rapid.SampledFrom(nodes), 0, 2).Draw(t, "jobs that start after "+string(call))
			silent := rapid.IntRange(0, 9).Draw(t, "Slurm falls silent after "+string(call)) == 0
			d.Then(call, func() {
				for _, node := range started {
					d.StartJob(node)
				}
				if silent {
					d.order(simulate.SlurmSilent)
				}
			})
		}
	}
	for _, node := range append(nodes, "ctl") {
		d.before[node] = d.Node(node)
	}
	return d
}

func (d *drawn) order(f simulate.Fault, nodes ...string) {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.ordered[f] = d.ordered[f].Union(nodeset.Of(nodes...))
	d.Order(f, nodes...)
}

// drawNode draws the state of a node, and its change.
func (d *drawn) drawNode(node string) {
	actions := []reconfigure.Action{"", reconfigure.Create}
	switch rapid.SampledFrom([]string{"absent", "tainted", "idle", "busy", "suspended"}).Draw(d.T, node) {
	case "tainted":
		if rapid.Bool().Draw(d.T, "tainted by hand") {
			d.Have(node)
			d.StartJob(node)
			d.Taint(node)
		} else {
			d.HaveTainted(node)
		}
		actions = []reconfigure.Action{"", reconfigure.Replace, reconfigure.Remove}
	case "idle":
		d.Have(node)
		actions = []reconfigure.Action{"", reconfigure.Replace, reconfigure.Reboot, reconfigure.Remove, reconfigure.Configure}
	case "busy":
		d.Have(node)
		d.StartJob(node)
		actions = []reconfigure.Action{"", reconfigure.Configure, reconfigure.Replace, reconfigure.Reboot, reconfigure.Remove}
	case "suspended":
		d.Have(node)
		d.PowersDown(node)
		actions = []reconfigure.Action{"", reconfigure.Remove}
	}
	action := rapid.SampledFrom(actions).Draw(d.T, "action on "+node)
	if action == "" {
		return
	}
	change := reconfigure.Change{Node: node, Action: action, Requests: []reconfigure.RequestID{1}, Since: time.Now()}
	if action != reconfigure.Remove {
		change.Spec = d.Spec(node)
	} else {
		change.Force = rapid.IntRange(0, 4).Draw(d.T, "force") == 0
	}
	if action == reconfigure.Create && rapid.Bool().Draw(d.T, "Slurm waits for "+node) {
		d.PowersUp(node)
	}
	d.plan.Changes = append(d.plan.Changes, change)
}

func (d *drawn) oneVerdictEach(verdicts map[string]reconfigure.Verdict) {
	if len(verdicts) != len(d.plan.Changes) {
		d.Errorf("%d verdicts on %d changes: %+v", len(verdicts), len(d.plan.Changes), verdicts)
	}
	for _, c := range d.plan.Changes {
		v := verdicts[c.Node]
		told := v.Status == reconfigure.StatusDone || v.Reason != "" && v.Phase != ""
		if v.Node != c.Node || v.Action != c.Action || v.Status == "" || !told {
			d.Errorf("the verdict on %+v is %+v", c, v)
		}
	}
}

// noJobIsLost checks that only force ends jobs.
func (d *drawn) noJobIsLost() {
	for _, node := range d.Lost() {
		if c, _ := d.plan.Of(node); !c.Force {
			d.Errorf("%s lost its job: %q", node, d.Calls())
		}
	}
}

func (d *drawn) nothingClashes() {
	if clashes := d.Clashes(); len(clashes) > 0 {
		d.Errorf("%q", clashes)
	}
	if doubled := d.Doubled(); len(doubled) > 0 {
		d.Errorf("doubled: %q, calls %q", doubled, d.Calls())
	}
}

func (d *drawn) nobodyElseIsTouched() {
	for node, was := range d.before {
		if _, planned := d.plan.Of(node); planned {
			continue
		}
		now := d.Node(node)
		now.State, now.Job, was.State, was.Job = "", false, "", false // jobs start at any time
		if now != was {
			d.Errorf("%s, which is not in the plan, was %+v and is %+v: %q", node, was, now, d.Calls())
		}
	}
}

func (d *drawn) noneIsLeftBehind(verdicts map[string]reconfigure.Verdict) {
	was := func(f simulate.Fault) bool { _, ok := d.ordered[f]; return ok }
	persistent := declared().Persistent()
	for node, v := range verdicts {
		n := d.Node(node)
		ours := strings.HasPrefix(n.State, "DOWN") && strings.HasPrefix(n.Reason, simulate.ReasonPrefix)
		if ours && !persistent.Contains(node) && !was(simulate.SlurmSilent) {
			d.Errorf("%s is left DOWN: %+v, %q", node, n, d.Calls())
		}
		stuck := d.ordered[simulate.NeverRemoved].Contains(node) || d.ordered[simulate.NotActive].Contains(node) ||
			d.ordered[simulate.NotProven].Contains(node) || was(simulate.StateLocked) || was(simulate.Killed) ||
			was(simulate.OtherImage) ||
			was(simulate.CloudSilent) || d.slow // it is unknown what the cloud has
		made := v.Action == reconfigure.Create || v.Action == reconfigure.Replace && !n.Job
		if n.Instance.Tainted && made && !stuck {
			d.Errorf("%s is left unfinished: %+v, %q", node, n, d.Calls())
		}
	}
}

func (d *drawn) doneIsDone(verdicts map[string]reconfigure.Verdict) {
	for node, v := range verdicts {
		n, was := d.Node(node), d.before[node]
		switch {
		case v.Status == reconfigure.StatusRefused &&
			(n.Instance != was.Instance || n.Boots != was.Boots || n.Spec != was.Spec):
			d.Errorf("%s was refused, but was %+v and is %+v: %q", node, was, n, d.Calls())
		case v.Status != reconfigure.StatusDone:
		case v.Action == reconfigure.Remove && (n.Instance.Node != "" || n.Spec != reconfigure.Spec{}):
			d.Errorf("%s is removed, but is %+v", node, n)
		case v.Action != reconfigure.Remove &&
			((n.Instance.ID == "" || n.Instance.Tainted) && !d.ordered[simulate.NotProven].Contains(node) ||
				n.Spec != d.Spec(node)):
			d.Errorf("%s is there, but is %+v: %q", node, n, d.Calls())
		case v.Action == reconfigure.Replace && n.Instance.ID == was.Instance.ID:
			d.Errorf("%s is replaced, but is %+v", node, n)
		case v.Action == reconfigure.Reboot && n.Boots == was.Boots:
			d.Errorf("%s is rebooted, but is %+v", node, n)
		}
	}
}
