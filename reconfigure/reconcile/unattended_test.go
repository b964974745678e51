package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// reasoned sets Slurm's reason for the state of a node.
func (o *observation) reasoned(node, reason string) {
	s := o.States[node]
	s.Reason = reason
	o.States[node] = s
}

func TestWhatTheWorkerFixesByItself(t *testing.T) {
	leaked := func(o *observation) { o.has("n2", "standard") }
	drained := func(reason string) func(*observation) {
		return func(o *observation) {
			leaked(o)
			o.slurm("n2", "IDLE CLOUD POWERED_DOWN DRAIN")
			o.reasoned("n2", reason)
		}
	}
	down := func(states, reason string) func(*observation) {
		return func(o *observation) {
			o.slurm("n2", states)
			o.reasoned("n2", reason)
		}
	}
	for name, test := range map[string]struct {
		see  func(*observation)
		want Fix
	}{
		"an instance of a node that Slurm has powered down": {leaked, Suspend},
		"one that somebody has drained":                     {drained("memory errors, root looks into it"), None},
		"one that we have drained":                          {drained("reconfigure: update"), Suspend},
		"one in maintenance": {
			func(o *observation) { leaked(o); o.slurm("n2", "IDLE CLOUD POWERED_DOWN MAINTENANCE") }, None,
		},
		"one after ResumeTimeout": {func(o *observation) {
			leaked(o)
			o.slurm("n2", "DOWN CLOUD POWERED_DOWN")
			o.reasoned("n2", "ResumeTimeout reached")
		}, Suspend},
		"one that Slurm does not know": {func(o *observation) { leaked(o); delete(o.States, "n2") }, None},
		"an orphan":                    {func(o *observation) { o.serve("n2", "stray", time.Hour) }, Delete},
		"a leaked port":                {func(o *observation) { o.port("n2", "p", time.Hour) }, Delete},
		"a persistent node's port": {func(o *observation) {
			o.StatePorts = map[string]string{"n1": "kept"}
			o.port("n1", "p", time.Hour)
		}, None},
		"an orphan that is young": {
			func(o *observation) { o.serve("n2", "stray", minAge-time.Second) }, None,
		},
		"an orphan with a persistent node's name": {
			func(o *observation) { o.gone("n1"); o.slurm("n1", "DOWN"); o.serve("n1", "stray", time.Hour) }, None,
		},
		"a persistent node that is missing": {func(o *observation) { o.gone("n1"); o.slurm("n1", "DOWN") }, None},
		"a persistent node that is tainted": {func(o *observation) { o.taint("n1"); o.slurm("n1", "DOWN") }, None},
		"a node that nobody declares any more": {
			func(o *observation) { o.has("old1", "retired"); o.slurm("old1", "IDLE CLOUD POWERED_DOWN") }, None,
		},
		"another image than Terraform was told": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "IDLE CLOUD")
			o.Servers["n2"][0].ImageID = "image-v0"
		}, None},
		"another address": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "IDLE CLOUD")
			o.Servers["n2"][0].Address = "192.0.2.9"
		}, None},
		"a node that Slurm waits for": {down("ALLOCATED CLOUD POWERING_UP", ""), Resume},
		"a node that Slurm waits for to go": {
			func(o *observation) { leaked(o); o.slurm("n2", "IDLE CLOUD POWERING_DOWN") }, Suspend,
		},
		"tainted, and powered down": {func(o *observation) { leaked(o); o.taint("n2") }, Suspend},
		"tainted, and set DOWN by somebody": {
			func(o *observation) { leaked(o); o.taint("n2"); down("DOWN CLOUD", "fan broken")(o) }, None,
		},
		"tainted, and set DOWN by us": {
			func(o *observation) { leaked(o); o.taint("n2"); down("DOWN CLOUD", "reconfigure: boot: no SSH")(o) }, Suspend,
		},
		"tainted, and waited for": {
			func(o *observation) { leaked(o); o.taint("n2"); o.slurm("n2", "ALLOCATED CLOUD POWERING_UP") }, Resume,
		},
		"tainted, and in use": {
			func(o *observation) { leaked(o); o.taint("n2"); o.slurm("n2", "ALLOCATED CLOUD") }, Resume,
		},
		"tainted, in use, and persistent": {func(o *observation) { o.taint("n1") }, Resume},
		"tainted, in use, and shut off": {func(o *observation) {
			leaked(o)
			o.taint("n2")
			o.slurm("n2", "ALLOCATED CLOUD")
			o.Servers["n2"][0].Status = "SHUTOFF"
		}, None},
		"gone from the cloud":    {func(o *observation) { leaked(o); delete(o.Servers, "n2") }, Suspend},
		"told only":              {func(o *observation) { o.Desired["n2"] = o.Desired["n1"] }, Suspend},
		"up without an instance": {down("IDLE CLOUD NOT_RESPONDING", ""), None},
		"set DOWN by us":         {down("DOWN CLOUD", "reconfigure: quota: no room"), HandBack},
		"forgotten":              {down("IDLE CLOUD POWERED_DOWN NOT_RESPONDING", ""), HandBack},
		"DOWN in mid-boot":       {down("DOWN CLOUD POWERED_DOWN", "ResumeTimeout reached"), HandBack},
		"set DOWN by somebody":   {down("DOWN CLOUD", "fan broken"), None},
		"set DOWN, as the control host refused the request": {
			down("DOWN CLOUD", "reconfigure: control host 192.0.2.10 refused the request"), HandBack,
		},
		"set DOWN by us, with an instance": {
			func(o *observation) { leaked(o); down("DOWN CLOUD", "reconfigure: configure: failed")(o) }, None,
		},
		"set DOWN by us, and powered down since": {
			down("DOWN CLOUD POWERED_DOWN", "reconfigure: quota: no room"), HandBack,
		},
		"set DOWN by us, a persistent node": {
			func(o *observation) { o.slurm("n1", "DOWN"); o.reasoned("n1", "reconfigure: boot: no SSH") }, None,
		},
		"a persistent node whose slurmd does not answer": {func(o *observation) {
			o.slurm("n1", "DOWN NOT_RESPONDING")
			o.reasoned("n1", "Not responding")
		}, Resume},
		"one that somebody has set DOWN": {func(o *observation) {
			o.slurm("n1", "DOWN NOT_RESPONDING")
			o.reasoned("n1", "fan broken")
		}, None},
		"one that failed": {func(o *observation) {
			o.slurm("n1", "DOWN NOT_RESPONDING")
			o.reasoned("n1", "reconfigure: no-ssh: no route to host")
		}, None},
		"one whose slurmd does not answer in maintenance": {func(o *observation) {
			o.slurm("n1", "DOWN NOT_RESPONDING MAINTENANCE")
			o.reasoned("n1", "Not responding")
		}, None},
		"a persistent node that an update left drained": {func(o *observation) {
			o.slurm("n1", "IDLE DRAIN")
			o.reasoned("n1", "reconfigure: update")
		}, Update},
		"one in maintenance that an update left drained": {func(o *observation) {
			o.slurm("n1", "IDLE DRAIN MAINTENANCE")
			o.reasoned("n1", "reconfigure: update")
		}, None},
		"a reboot that no control host accepted": {func(o *observation) {
			o.has("n2", "standard")
			o.slurm("n2", "IDLE CLOUD DRAIN")
			o.reasoned("n2", "reconfigure: control host 192.0.2.10 refused the request")
		}, Update},
		"a persistent node whose update failed": {func(o *observation) {
			o.slurm("n1", "DOWN DRAIN")
			o.reasoned("n1", "reconfigure: playbook: no munge")
		}, None},
		"the cloud is unreachable": {
			func(o *observation) { leaked(o); o.unreachable(snapshot.Cloud) }, None,
		},
		"at work": {func(o *observation) { leaked(o); o.busy.Whole = true }, None},
	} {
		t.Run(name, func(t *testing.T) {
			seen := healthy()
			test.see(&seen)
			var want []Fix
			if test.want != None {
				want = []Fix{test.want}
			}
			var got []Fix
			for _, f := range Unattended(example(), seen.Snapshot, seen.compare(example())) {
				got = append(got, f.Fix)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoFixByTheWorkerCostsAJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster, seen := drawn(t)
		found := seen.compare(cluster)
		for _, f := range Unattended(cluster, seen.Snapshot, found) {
			state := seen.States[f.Node]
			own := seen.Instances[f.Node].ID
			switch {
			case f.Kind == Unadopted && f.Fix == Resume && cluster.Nodes().Contains(f.Node): // the node stays as it is
			case f.Kind == Silent && f.Fix == Resume && state.Down() && !state.Drained(): // slurmd is started
			case f.Kind == Drained && f.Fix == Update && state.Ours() && !state.Usable(): // waits for its jobs
			case f.Kind == Aged && (f.Fix == Retire || f.Fix == Renew) && state.Usable(): // waits for its jobs
			case !slices.Contains(found, f) || f.Fix == None || f.Fix == Enlarge:
				t.Fatalf("this is no harmless fix: %+v", f)
			case !cluster.Nodes().Contains(f.Node) || cluster.Persistent().Contains(f.Node):
				t.Fatalf("this is no cloud node: %+v", f)
			case f.Fix != Delete && own != "" && (state.Running() || state.Usable()):
				t.Fatalf("a job runs or may start on it: %+v", f)
			case state.Drained() && !state.Ours():
				t.Fatalf("somebody has drained it: %+v", f)
			}
		}
	})
}

func TestAFindingIsFixedWhenItWasThereTwice(t *testing.T) {
	const interval = 5 * time.Minute
	look := func(l Look, at time.Duration, see func(*observation)) ([]Finding, Look) {
		seen := healthy()
		seen.Time = now.Add(at)
		see(&seen)
		return l.Next(example(), seen.Snapshot, seen.compare(example()), 3*interval)
	}
	leaked := func(o *observation) { o.has("n2", "standard") }
	want := []Finding{{Node: "n2", Kind: Leaked, Fix: Suspend}}
	demand := func(what string, got, want []Finding) {
		t.Helper()
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Finding{}, "Detail")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}

	fix, first := look(Look{}, 0, leaked)
	demand("the first look", fix, nil)
	fix, second := look(first, interval, leaked)
	demand("the second one", fix, want)
	if len(first.Tried) > 0 {
		t.Error("the look that was given is another one now")
	}
	fix, third := look(second, 2*interval, leaked)
	demand("it was tried just now", fix, nil)
	_, healed := look(third, 3*interval, func(*observation) {})
	fix, back := look(healed, 4*interval, leaked)
	demand("it is back, and that is new", fix, nil)
	fix, _ = look(back, 5*interval, leaked)
	demand("it was tried within the hour", fix, nil)

	later := second
	for at := 2 * interval; at < interval+again; at += interval {
		fix, later = look(later, at, leaked)
		demand("within the hour", fix, nil)
	}
	fix, _ = look(later, interval+again, leaked)
	demand("it is tried again", fix, want)

	fix, _ = look(first, 3*interval, leaked)
	demand("a look that is not stale", fix, want)
	fix, _ = look(first, 3*interval+1, leaked)
	demand("a stale one", fix, nil)
	fix, _ = look(first, -time.Second, leaked)
	demand("one of a clock that was set back", fix, nil)
	fix, _ = look(first, interval, func(o *observation) { o.serve("n3", "stray", 2*time.Hour) })
	demand("something else than at the first look", fix, nil)
}
