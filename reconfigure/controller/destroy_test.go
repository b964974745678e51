package controller_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// wantDestroyed checks that nothing is left, and that requests were cancelled by a destroy.
func (l *lab) wantDestroyed(by reconfigure.RequestID, superseded ...reconfigure.RequestID) {
	l.Helper()
	left, err := l.World.Servers(context.WithoutCancel(l.Context()), nodeset.NodeSet{})
	if err != nil || len(left) > 0 {
		l.Errorf("left are %v (%v)", left, err)
	}
	for _, id := range superseded {
		o, _ := l.outcome(id)
		if want := "request " + by.String() + " destroys the cluster"; o.Code != cancelled || o.Error != want {
			l.Errorf("request %s: %s, %q", id, o.Code, o.Error)
		}
	}
}

// A destroy does not wait for a boot whose node will not be used, for an instance that is never made, for playbooks, or
// for requests that have not begun.
func TestADestroySupersedesWhatIsUnderWay(t *testing.T) {
	for name, slow := range map[string]func(*lab){
		"an instance does not boot": func(l *lab) { l.Order(simulate.NoSSH, "p3") },
		"an instance is never made": func(l *lab) { l.Takes(simulate.Building, simulate.Forever, "p3") },
		"the playbooks take long":   func(l *lab) { l.Takes(simulate.Playing, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, []string{"p2"}, func(l *lab) {
				slow(l)
				l.PowersUp("p3")
				l.PowersDown("p2")
				l.calls(reconfigure.Suspend, "p2")
				l.calls(reconfigure.Resume, "p3")
				pass(time.Minute)
				l.calls(reconfigure.Update, "p3") // waits for the resume
				destroy := l.calls(reconfigure.Destroy)
				pass(5 * time.Minute)
				if o, ok := l.outcome(destroy); !ok {
					t.Errorf("after %s it has not ended", time.Since(l.start))
				} else if o.Code != done {
					t.Errorf("%+v", o)
				}
				l.workers.Wait()
				l.wantDestroyed(destroy, 2, 3)
				l.Unstick()
			})
		})
	}
}

// An image outlives the cluster, so a destroy waits for it. Nothing else begins meanwhile.
func TestADestroyWaitsForAnImage(t *testing.T) {
	test(t, []string{"p2"}, func(l *lab) {
		l.Takes(simulate.Saving, 30*time.Minute)
		image := ask(reconfigure.MakeImage, "p2")
		image.Image = "site-v2"
		l.submit(image)
		l.workers.Go(l.work)
		pass(time.Minute)
		l.PowersUp("p3")
		resume := l.calls(reconfigure.Resume, "p4") // waits for nothing, and begins
		pass(time.Second)
		destroy := l.calls(reconfigure.Destroy)
		l.PowersUp("p5")
		later := l.calls(reconfigure.Resume, "p5")
		pass(20 * time.Minute)
		if _, ok := l.outcome(destroy); ok {
			t.Error("the destroy has ended before the image")
		}
		l.workers.Wait()
		l.wantEnds(codes{1: done, resume: done, destroy: done, later: failed})
		l.wantDestroyed(destroy)
		if images := l.World.Images(); len(images) != 1 {
			t.Errorf("images %v", images)
		}
	})
}

// A destroy that cannot begin fails at once. What was under way has ended by then, and goes on.
func TestADestroyThatCannotBeginSupersedesNothing(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.Takes(simulate.Playing, 5*time.Minute)
		l.PowersUp("p3")
		l.calls(reconfigure.Resume, "p3")
		pass(time.Minute)
		l.fails(noState, time.Second, "the state is locked")
		destroy := l.calls(reconfigure.Destroy)
		l.workers.Wait()
		l.wantEnds(codes{1: done, destroy: failed})
	})
}

// A worker dies at any moment of a destroy: the next one ends the same requests.
func TestADestroyGoesOnAfterAWorkersDeath(t *testing.T) {
	for after := time.Duration(0); after < 10*time.Second; after += 250 * time.Millisecond {
		t.Run(after.String(), func(t *testing.T) {
			test(t, []string{"p2"}, func(l *lab) {
				l.Order(simulate.NoSSH, "p3")
				l.PowersUp("p3")
				l.submit(ask(reconfigure.Resume, "p3"))
				stop, ended := l.spawn()
				pass(time.Minute)
				l.PowersDown("p2")
				l.submit(ask(reconfigure.Update, "p3"), ask(reconfigure.Destroy))
				pass(after)
				stop()
				<-ended
				l.workers.Go(l.work)
				l.workers.Wait()
				l.wantEnds(codes{1: cancelled, 2: cancelled, 3: done})
				l.wantDestroyed(3, 1, 2)
			})
		})
	}
}

// A worker that compares the sources ends soon after a destroy. One that a supervisor keeps compares again after the
// next deploy.
func TestAWorkerComparesNothingAfterADestroy(t *testing.T) {
	for name, stay := range map[string]bool{"a worker of a call": false, "a service": true} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(l *lab) {
				var compared atomic.Int32
				l.config = func(c *controller.Config, _ *memory.Journal) {
					c.Stay = stay
					c.Reconcile = func(ctx context.Context) (time.Duration, bool) {
						servers, err := l.World.Servers(ctx, nodeset.NodeSet{})
						if err != nil || len(servers) == 0 {
							return 0, false
						}
						compared.Add(1)
						return time.Hour, true
					}
				}
				stop, ended := l.spawn()
				l.config = nil
				pass(time.Minute)
				l.submit(ask(reconfigure.Destroy))
				pass(3 * time.Minute)
				l.wantEnds(codes{1: done})
				if n := compared.Load(); n != 1 || hasEnded(ended) == stay {
					t.Errorf("after the destroy: compared %d times, ended: %t", n, hasEnded(ended))
				}
				if !stay {
					return
				}
				l.submit(ask(reconfigure.Deploy))
				pass(3 * time.Hour)
				if n := compared.Load(); n < 2 {
					t.Errorf("after the deploy it compared %d times", n)
				}
				stop()
				<-ended
			})
		})
	}
}
