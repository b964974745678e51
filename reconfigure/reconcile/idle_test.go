package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// rests stops a node because it was idle.
func (o *observation) rests(node string) {
	delete(o.Servers, node)
	o.has(node, "standard")
	spec := o.Desired[node]
	spec.Power = reconfigure.PowerOff
	o.Desired[node] = spec
	o.Servers[node][0].Status = "SHUTOFF"
	o.slurm(node, "IDLE CLOUD POWERED_DOWN")
}

// A stopped instance is a finding unless we have stopped it, and its group keeps it.
func TestStoppedNodes(t *testing.T) {
	one := func(node string, kind Kind, fix Fix, command string) []Finding {
		return []Finding{{Node: node, Kind: kind, Fix: fix, Command: command}}
	}
	for name, test := range map[string]struct {
		see  func(*observation)
		want []Finding
	}{
		"as asked":         {func(o *observation) { o.rests("n2") }, nil},
		"on its way there": {func(o *observation) { o.rests("n2"); o.slurm("n2", "IDLE CLOUD POWERING_DOWN") }, nil},
		"not asked for": {func(o *observation) {
			o.rests("n2")
			o.Desired["n2"] = o.Desired["n2"].Running()
			o.slurm("n2", "IDLE CLOUD")
		}, one("n2", Stopped, None, updating)},
		"paused": {func(o *observation) {
			o.rests("n2")
			o.Servers["n2"][0].Status = "PAUSED"
		}, append(one("n2", Leaked, Suspend, ""), one("n2", Stopped, None, poweringDown)...)},
		"Slurm waits": {func(o *observation) {
			o.rests("n2")
			o.slurm("n2", "ALLOCATED CLOUD POWERING_UP")
		}, one("n2", PowersUp, Resume, "")},
		"Slurm has it up": {func(o *observation) {
			o.rests("n2")
			o.slurm("n2", "IDLE CLOUD")
		}, one("n2", Stopped, None, poweringDown)},
		"it runs": {func(o *observation) {
			o.rests("n2")
			o.Servers["n2"][0].Status = "ACTIVE"
		}, one("n2", Leaked, Suspend, "")},
		"it is gone": {func(o *observation) {
			o.rests("n2")
			delete(o.Servers, "n2")
		}, one("n2", Lost, Suspend, "")},
		"too many": {func(o *observation) {
			o.rests("n2")
			o.rests("n3")
		}, append(one("n2", Leaked, Suspend, ""), one("n3", Leaked, Suspend, "")...)},
		"a persistent node": {func(o *observation) { o.rests("n1") },
			append(one("n1", GivenUp, None, resizing), one("n1", Stopped, None, updating)...)},
	} {
		t.Run(name, func(t *testing.T) {
			c, o := example(), healthy()
			c.Groups[0].WhenIdle, c.Groups[0].MaxStopped = reconfigure.IdleStop, 1
			test.see(&o)
			if diff := cmp.Diff(test.want, o.compare(c), cmpopts.IgnoreFields(Finding{}, "Detail")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("its group deletes idle nodes by now", func(t *testing.T) {
		o := healthy()
		o.rests("n2")
		if got := o.compare(example()); len(got) != 1 || got[0].Kind != Leaked || got[0].Fix != Suspend {
			t.Errorf("%+v", got)
		}
	})
}
