package storm

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// TestStormOfTerraform ends Terraform and workers at any moment, while creations and removals take long or forever, and
// while Terraform fails although the instances exist.
func TestStormOfTerraform(t *testing.T) {
	kinds := []string{
		"jobs need", "jobs need", "jobs need", "jobs start on", "jobs end on", "Slurm gives up", "power_down_force", "update",
		"kill now", "kill now", "kill now", "stop", "lease is lost", "builds are slow", "builds are slow", "removals hang",
		"node fault", "node fault", "time passes", "time passes",
	}
	faults := []simulate.Fault{
		simulate.LateFailure, simulate.LateFailure, simulate.LostPoll, simulate.LostCreate, simulate.NotProven,
		simulate.NoPort,
		simulate.NoValidHost, simulate.NotReached, simulate.NotSent,
	}
	blow(t, func(t *rapid.T) []step { return drawStepsOf(t, kinds, faults) })
}

// TestStormOfShards divides the nodes of the cluster among several states.
func TestStormOfShards(t *testing.T) {
	blowWith(t, func(s *storm) { s.perState = 2 }, drawSteps)
}

// TestStormOfStops stops idle nodes and starts them again, while workers and Terraform die, and while instances are
// started and stopped by hand.
func TestStormOfStops(t *testing.T) {
	kinds := []string{
		"jobs need", "jobs need", "jobs need", "jobs need", "jobs start on", "jobs end on", "jobs end on", "jobs end on",
		"Slurm gives up", "Slurm gives up", "Slurm gives up", "power_down_force", "update", "declare", "image", "kill",
		"kill now", "kill now", "stop", "switches hang", "somebody stops", "somebody starts", "node fault",
		"cluster fault", "time passes", "time passes", "time passes",
	}
	faults := append(stopFaults(), simulate.NotProven, simulate.NoSSH, simulate.Unreadable, simulate.NeverRegisters,
		simulate.NeverRemoved, simulate.PlaybookFails)
	for _, way := range []reconfigure.WhenIdle{reconfigure.IdleStop, reconfigure.IdleShelve} {
		t.Run(string(way), func(t *testing.T) {
			blowWith(t, func(s *storm) { s.idle = way }, func(t *rapid.T) []step { return drawStepsOf(t, kinds, faults) })
		})
	}
}

// A job that runs on an instance when Terraform fails or is killed is not lost, and no second instance is made. The
// next run adopts the instance.
func TestAnInstanceInUseIsAdopted(t *testing.T) {
	for name, happens := range map[string]func(*play, *life){
		"Terraform is killed before it looks, and knows the port": func(_ *play, l *life) { l.killAs(simulate.Unwritten) },
		"Terraform is killed before it looks, and knows nothing":  func(_ *play, l *life) { l.killAs(simulate.Unknown) },
		"Terraform was interrupted, and its caller killed":        func(_ *play, l *life) { l.killAs(simulate.Tainted) },
		"the worker is stopped":                                   func(_ *play, l *life) { l.stop() },
		"the lease is lost": func(p *play, _ *life) {
			p.book.(*memory.Journal).LoseLease()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := declared(1, 4)
				c.Settings.Interrupt = false // so that Terraform waits while the node comes up
				s := scene{was: c, have: []string{"ctl", "p1"}, requests: []reconfigure.Request{ask(reconfigure.Resume, "p3")}}
				p := s.begin(t, memory.New())
				p.world.PowersUp("p3")
				l := newLife(p.world, p.book)
				time.AfterFunc(5*time.Second, func() {
					if n := p.world.Node("p3"); n.State != "ALLOCATED+CLOUD" || !n.Job {
						t.Errorf("the node is %+v, and no job runs on it", n)
					}
					happens(p, l)
				})
				_ = l.work(t.Context(), p.cluster)
				time.Sleep(time.Minute)
				if _, err := p.worker(0); err != nil {
					t.Error(err)
				}
				p.wantCode(1, reconfigure.CodeDone)
				n := p.world.Node("p3")
				if n.Instance.ID == "" || n.Instance.Tainted || n.State != "ALLOCATED+CLOUD" || n.Boots != 1 {
					t.Errorf("the node is %+v\ncalls %q\n%s", n, p.world.Calls(), p.outcomes())
				}
				p.nothingLost()
				time.Sleep(time.Hour)
			})
		})
	}
}

// Terraform fails late, although slurmd has registered and a job runs.
func TestALateFailureOfTerraformCostsNoJob(t *testing.T) {
	for name, interrupt := range map[string]bool{"Terraform sleeps": false, "it is interrupted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := declared(1, 4)
				c.Settings.Interrupt = interrupt
				s := scene{was: c, have: []string{"ctl", "p1"}, requests: []reconfigure.Request{ask(reconfigure.Resume, "p3")}}
				p := s.begin(t, memory.New())
				p.world.PowersUp("p3")
				p.world.Order(simulate.LateFailure, "p3")
				if _, err := p.worker(0); err != nil {
					t.Error(err)
				}
				p.wantCode(1, reconfigure.CodeDone)
				if n := p.world.Node("p3"); n.State != "ALLOCATED+CLOUD" || n.Boots != 1 || n.Instance.ID == "" {
					t.Errorf("the node is %+v", n)
				}
				// The job is not lost either when Slurm requests the node again.
				p.world.Clear(simulate.LateFailure)
				if _, err := p.book.Submit(t.Context(), ask(reconfigure.Resume, "p3")); err != nil {
					t.Fatal(err)
				}
				if _, err := p.worker(0); err != nil {
					t.Error(err)
				}
				if n := p.world.Node("p3"); n.State != "ALLOCATED+CLOUD" || n.Instance.Tainted || n.Boots != 1 {
					t.Errorf("the node is %+v", n)
				}
				p.nothingLost()
				time.Sleep(time.Hour)
			})
		})
	}
}

// nothingLost checks that no job was lost, that no instance is doubled or an orphan, and that no tool had two users.
func (p *play) nothingLost() {
	p.Helper()
	w := p.world
	if len(w.Lost())+len(w.Doubled())+len(w.Orphans())+len(w.Clashes()) > 0 {
		p.Errorf(
			"lost jobs of %v, doubled %v, orphans %v, clashes %v; calls %q", w.Lost(), w.Doubled(), w.Orphans(), w.Clashes(),
			w.Calls(),
		)
	}
}

// A straggler delays neither the other nodes of its run nor other runs. It comes late, or is given up at its own
// deadline.
func TestStragglersDelayNoOtherNode(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		code  reconfigure.Code
	}{
		"it comes late":  {3 * time.Minute, reconfigure.CodeDone},
		"it never comes": {simulate.Forever, reconfigure.CodeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scene{was: declared(1, 9), have: []string{"ctl", "p1", "p8", "p9"}}
				p := s.begin(t, memory.New())
				start := time.Now()
				w := p.world
				w.Takes(simulate.Building, c.takes, "p3")
				w.Takes(simulate.Removing, simulate.Forever, "p9")
				steps := []reconfigure.Request{
					ask(reconfigure.Resume, "p3", "p4"), ask(reconfigure.Suspend, "p8", "p9"), ask(reconfigure.Resume, "p5"),
					ask(reconfigure.Resume, "p6"), ask(reconfigure.Resume, "p7"),
				}
				for i, r := range steps {
					w.PowersUp(r.Nodes.Difference(ask("", "p8", "p9").Nodes).Names()...)
					if r.Mode == reconfigure.Suspend {
						w.PowersDown("p8", "p9")
					}
					if _, err := p.book.Submit(t.Context(), r); err != nil {
						t.Fatal(err)
					}
					p.callers.Go(func() {
						if _, err := (&play{T: p.T, scene: s, world: w, book: p.book.(*memory.Journal).Open()}).worker(0); err != nil {
							t.Error(err)
						}
					})
					time.Sleep(time.Duration(i+1) * 3 * time.Second)
				}
				time.Sleep(time.Minute)
				for id := range reconfigure.RequestID(len(steps)) {
					if id++; id > 2 {
						p.wantCode(id, reconfigure.CodeDone)
						if o, _, _ := p.book.Outcome(t.Context(), id); o.Finished.Sub(start) > 2*time.Minute {
							t.Errorf("request %s ended after %s", id, o.Finished.Sub(start))
						}
					}
				}
				if n := w.Node("p4"); n.State != "ALLOCATED+CLOUD" {
					t.Errorf("p4 is %+v", n)
				}
				time.Sleep(time.Hour)
				if n := w.Node("p8"); n.Instance.Node != "" {
					t.Errorf("p8 is %+v", n)
				}
				p.callers.Wait()
				if o, _, _ := p.book.Outcome(t.Context(), 1); (o.Code == reconfigure.CodeDone) != (c.code == reconfigure.CodeDone) {
					t.Errorf("the straggler's request ended as %+v", o)
				}
				if len(w.Doubled())+len(w.Clashes()) > 0 {
					t.Errorf("doubled %v, clashes %v", w.Doubled(), w.Clashes())
				}
			})
		})
	}
}
