package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// bubble is a test as rapid takes it that does not show its deadline, which a bubble of testing/synctest does not have.
type bubble struct{ rapid.TB }

// drawn is a world, a plan, and all that goes wrong and comes in between.
type drawn struct {
	*enginetest.World
	*rapid.T
	plan    reconfigure.Plan
	seen    reconfigure.Observation
	ordered map[enginetest.Fault]nodeset.NodeSet
	before  map[string]enginetest.Node
}

func TestWhateverGoesWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(t *rapid.T) {
			d := draw(t)
			cluster := declared()
			cluster.Slurm.ResumeTimeout = 5 * time.Second // rapid gives up after 24 hours, and they go by fast in here
			verdicts, err := engine.New(cluster, d.Deps()).Carry(t.Context(), 1, d.seen, d.plan, func() {})
			if err != nil {
				t.Fatal(err)
			}
			d.oneVerdictEach(verdicts)
			d.noJobIsLost()
			d.nobodyElseIsTouched()
			d.noneIsLeftBehind(verdicts)
			d.doneIsDone(verdicts)
		})
	})
}

func draw(t *rapid.T) *drawn {
	d := &drawn{World: enginetest.NewWorld(declared()), T: t, ordered: map[enginetest.Fault]nodeset.NodeSet{}, before: map[string]enginetest.Node{}}
	d.Have("ctl")
	nodes := declared().Nodes().Names()
	for _, node := range nodes {
		d.drawNode(node)
	}
	seen, err := engine.New(declared(), d.Deps()).Observe(t.Context(), none)
	if err != nil {
		t.Fatal(err)
	}
	d.seen = seen
	d.plan.Desired = desired(seen.Desired, d.plan.Changes)
	for _, fault := range []enginetest.Fault{
		enginetest.NoValidHost, enginetest.NoQuota, enginetest.NeverRemoved, enginetest.RebootFails, enginetest.NotActive, enginetest.NoSSH,
		enginetest.PlaybookFails, enginetest.NeverRegisters, enginetest.StartsByItself, enginetest.SlurmRefuses, enginetest.OtherImage,
	} {
		if rapid.IntRange(0, 3).Draw(t, string(fault)) == 0 {
			d.order(fault, rapid.SampledFrom(nodes).Draw(t, "whom"))
		}
	}
	for _, fault := range []enginetest.Fault{enginetest.StateLocked, enginetest.LostAnswer, enginetest.Killed, enginetest.CloudSilent, enginetest.BrokenPlaybook, enginetest.SlurmSilent} {
		if rapid.IntRange(0, 7).Draw(t, string(fault)) == 0 {
			d.order(fault)
		}
	}
	for _, call := range []enginetest.Call{enginetest.AfterPreview, enginetest.AfterApply, enginetest.AfterGreet, enginetest.AfterConfigure} {
		for range 2 { // the second one comes while what failed is cleaned up
			started := rapid.SliceOfN(rapid.SampledFrom(nodes), 0, 2).Draw(t, "jobs that start after "+string(call))
			silent := rapid.IntRange(0, 9).Draw(t, "Slurm falls silent after "+string(call)) == 0
			d.Then(call, func() {
				for _, node := range started {
					d.StartJob(node)
				}
				if silent {
					d.order(enginetest.SlurmSilent)
				}
			})
		}
	}
	for _, node := range append(nodes, "ctl") {
		d.before[node] = d.Node(node)
	}
	return d
}

func (d *drawn) order(f enginetest.Fault, nodes ...string) {
	d.ordered[f] = d.ordered[f].Union(nodeset.Of(nodes...))
	d.Order(f, nodes...)
}

// drawNode draws what there is of a node, and what is planned for it.
func (d *drawn) drawNode(node string) {
	actions := []reconfigure.Action{"", reconfigure.Create}
	switch rapid.SampledFrom([]string{"absent", "tainted", "idle", "busy", "suspended"}).Draw(d.T, node) {
	case "tainted":
		d.HaveTainted(node)
		if rapid.Bool().Draw(d.T, "tainted by hand") {
			d.Have(node)
			d.StartJob(node)
			d.Taint(node)
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
	change := reconfigure.Change{Node: node, Action: action, Requests: []reconfigure.RequestID{1}}
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

// noJobIsLost but by force, or where Slurm could not be asked about an instance that Terraform takes for half made.
func (d *drawn) noJobIsLost() {
	_, silent := d.ordered[enginetest.SlurmSilent]
	for _, node := range d.Lost() {
		if c, _ := d.plan.Of(node); !c.Force && !(silent && d.before[node].Instance.Tainted) {
			d.Errorf("%s lost its job: %q", node, d.Calls())
		}
	}
}

func (d *drawn) nobodyElseIsTouched() {
	for node, was := range d.before {
		if _, planned := d.plan.Of(node); planned {
			continue
		}
		now := d.Node(node)
		now.State, now.Job, was.State, was.Job = "", false, "", false // jobs start as they like
		if now != was {
			d.Errorf("%s, which is not in the plan, was %+v and is %+v: %q", node, was, now, d.Calls())
		}
	}
}

func (d *drawn) noneIsLeftBehind(verdicts map[string]reconfigure.Verdict) {
	was := func(f enginetest.Fault) bool { _, ok := d.ordered[f]; return ok }
	persistent := declared().Persistent()
	for node, v := range verdicts {
		n := d.Node(node)
		ours := strings.HasPrefix(n.State, "DOWN") && strings.HasPrefix(n.Reason, enginetest.ReasonPrefix)
		if ours && !persistent.Contains(node) && !was(enginetest.SlurmSilent) {
			d.Errorf("%s is left DOWN: %+v, %q", node, n, d.Calls())
		}
		stuck := d.ordered[enginetest.NeverRemoved].Contains(node) || was(enginetest.StateLocked) || was(enginetest.Killed) || was(enginetest.OtherImage) ||
			was(enginetest.CloudSilent) // nobody can tell whether the cloud has another one
		made := v.Action == reconfigure.Create || v.Action == reconfigure.Replace && !n.Job
		if n.Instance.Tainted && made && !stuck {
			d.Errorf("%s is left half made: %+v, %q", node, n, d.Calls())
		}
	}
}

func (d *drawn) doneIsDone(verdicts map[string]reconfigure.Verdict) {
	for node, v := range verdicts {
		n, was := d.Node(node), d.before[node]
		switch {
		case v.Status == reconfigure.StatusRefused && (n.Instance != was.Instance || n.Boots != was.Boots || n.Spec != was.Spec):
			d.Errorf("%s was refused, but was %+v and is %+v", node, was, n)
		case v.Status != reconfigure.StatusDone:
		case v.Action == reconfigure.Remove && (n.Instance.Node != "" || n.Spec != reconfigure.Spec{}):
			d.Errorf("%s is removed, but is %+v", node, n)
		case v.Action != reconfigure.Remove && (n.Instance.ID == "" || n.Instance.Tainted || n.Spec != d.Spec(node)):
			d.Errorf("%s is there, but is %+v", node, n)
		case v.Action == reconfigure.Replace && n.Instance.ID == was.Instance.ID:
			d.Errorf("%s is replaced, but is %+v", node, n)
		case v.Action == reconfigure.Reboot && n.Boots == was.Boots:
			d.Errorf("%s is rebooted, but is %+v", node, n)
		}
	}
}
