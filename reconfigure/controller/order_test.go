package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// A node that never boots, or that the cloud makes slowly, delays no other request.
func TestARequestBeginsAtOnceBesideOthersUnderWay(t *testing.T) {
	for name, bad := range map[string]func(*lab){
		"no SSH":                   func(l *lab) { l.Order(simulate.NoSSH, "p3") },
		"it takes long to be made": func(l *lab) { l.Takes(simulate.Building, 4*time.Minute, "p3") },
		"it is never made":         func(l *lab) { l.Takes(simulate.Building, simulate.Forever, "p3") },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, []string{"p5"}, func(l *lab) {
				l.PowersUp("p3", "p4")
				bad(l)
				l.calls(reconfigure.Resume, "p3")
				pass(30 * time.Second)
				l.calls(reconfigure.Resume, "p4")
				pass(time.Minute)
				l.PowersDown("p5")
				l.calls(reconfigure.Suspend, "p5")
				pass(2 * time.Minute)
				l.wantEnds(codes{2: done, 3: done})
				l.wantTook(2, 0, 30*time.Second)
				l.wantTook(3, 0, 30*time.Second)
				l.workers.Wait()
				l.Unstick()
			})
		})
	}
}

func TestRequestsForANodeKeepTheirOrder(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.Takes(simulate.Playing, time.Minute)
		l.PowersUp("p2", "p3", "p4")
		l.calls(reconfigure.Resume, "p2")
		pass(10 * time.Second)
		l.calls(reconfigure.Update, "p2", "p3") // waits for p2, and closes p3
		l.calls(reconfigure.Resume, "p3")
		l.calls(reconfigure.Resume, "p4")
		l.workers.Wait()
		var order [][]reconfigure.RequestID
		for _, p := range l.plans() {
			order = append(order, p.ids)
		}
		if len(order) < 4 || !slices.Equal(order[0], []reconfigure.RequestID{1}) ||
			!slices.Equal(order[1], []reconfigure.RequestID{4}) ||
			slices.IndexFunc(order, func(ids []reconfigure.RequestID) bool { return slices.Contains(ids, 3) }) <
				slices.IndexFunc(order, func(ids []reconfigure.RequestID) bool { return slices.Contains(ids, 2) }) {
			t.Errorf("plans %v", order)
		}
	})
}

// A plan that concerns every node waits for what is under way, and begins before later requests. That is so by its
// mode, or only by its plan.
func TestAPlanForEveryNodeRunsAloneAndInOrder(t *testing.T) {
	for name, m := range map[string]reconfigure.Mode{
		"by its mode": reconfigure.Deploy, "by its plan": reconfigure.Enlarge,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, nil, func(l *lab) {
				if m == reconfigure.Enlarge {
					l.declare(declared().WithMin("group", 2))
				}
				l.Takes(simulate.Playing, time.Minute)
				l.PowersUp("p5", "p6")
				l.calls(reconfigure.Resume, "p5")
				pass(10 * time.Second)
				if m == reconfigure.Deploy {
					l.calls(m)
				} else {
					l.calls(m, "p2")
				}
				pass(10 * time.Second)
				l.calls(reconfigure.Resume, "p6")
				l.workers.Wait()
				l.wantEnds(codes{1: done, 2: done, 3: done})
				var order []string
				for _, p := range l.plans() {
					order = append(order, strings.Trim(fmt.Sprint(p.ids), "[]"))
				}
				if diff := cmp.Diff([]string{"1", "2", "3"}, order); diff != "" {
					t.Errorf("plans (-want +got):\n%s", diff)
				}
				first, second := l.plans()[1].after, l.plans()[2].after
				if first < l.took(1) || second < 10*time.Second+l.took(2) {
					t.Errorf("plans at %v", l.plans())
				}
			})
		})
	}
}

// Small requests keep coming, each for another node.
func TestAStreamOfRequestsDoesNotDelayADeploy(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.Takes(simulate.Playing, time.Minute)
		last := reconfigure.RequestID(0)
		for i := range 40 {
			node := fmt.Sprint("p", 2+i%8)
			if l.Node(node).State == "IDLE+CLOUD+POWERED_DOWN" {
				l.PowersUp(node)
				l.calls(reconfigure.Resume, node)
			} else if strings.HasPrefix(l.Node(node).State, "ALLOCATED+CLOUD") &&
				!strings.Contains(l.Node(node).State, "POWERING") {
				l.EndJob(node)
				l.PowersDown(node)
				l.calls(reconfigure.Suspend, node)
			}
			if i == 10 {
				last = l.calls(reconfigure.Deploy)
			}
			pass(15 * time.Second)
		}
		l.workers.Wait()
		l.wantTook(last, time.Minute, 4*time.Minute)
	})
}

// An image takes hours. A plan for every node waits for it, but does not delay nodes that Slurm waits for. When the
// image is made, the plan gets its turn, although small requests keep coming.
func TestAPlanForEveryNodeThatWaitsForAnImageDelaysNoResume(t *testing.T) {
	for name, m := range map[string]reconfigure.Mode{
		"by its mode": reconfigure.Deploy, "by its plan": reconfigure.Enlarge,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, []string{"p9"}, func(l *lab) {
				image := ask(reconfigure.MakeImage, "p9")
				image.Image = "site-v2"
				l.Takes(simulate.Saving, time.Hour)
				l.Takes(simulate.Playing, time.Minute)
				l.submit(image)
				l.workers.Go(l.work)
				pass(10 * time.Second)
				var waits reconfigure.RequestID
				if m == reconfigure.Enlarge {
					l.declare(declared().WithMin("group", 2))
					waits = l.calls(m, "p2")
				} else {
					waits = l.calls(m)
				}
				pass(10 * time.Second)
				for i := range 100 {
					node := fmt.Sprint("p", 3+i%6)
					switch state := l.Node(node).State; {
					case state == "IDLE+CLOUD+POWERED_DOWN":
						l.PowersUp(node)
						last := l.calls(reconfigure.Resume, node)
						pass(3 * time.Minute)
						if o, _ := l.outcome(last); o.Code != done {
							t.Errorf("after %s: %s did not come within 3 minutes: %+v", time.Since(l.start), node, o)
						}
					case strings.HasPrefix(state, "ALLOCATED+CLOUD") && !strings.Contains(state, "POWERING"):
						l.EndJob(node)
						l.PowersDown(node)
						l.calls(reconfigure.Suspend, node)
					}
					pass(30 * time.Second)
				}
				l.workers.Wait()
				if l.took(1) < time.Hour {
					t.Errorf("the image took %s", l.took(1))
				}
				l.wantTook(waits, l.took(1), l.took(1)+5*time.Minute)
			})
		})
	}
}

func TestADeferredChangeOfSizeDelaysNoOtherRequest(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.declare(declared().WithMin("group", 2))
		l.submit(ask(reconfigure.Enlarge, "p2"))
		l.work()
		l.StartJob("p2")
		l.declare(declared())
		l.PowersUp("p5")
		l.calls(reconfigure.Shrink, "p2")
		pass(time.Minute)
		if waiting := l.pending(); len(waiting) != 1 || !waiting[0].IsDeferred() ||
			waiting[0].Deferred[0].Kind != reconfigure.WaitsForJobs {
			t.Fatalf("waiting: %+v", waiting)
		}
		l.calls(reconfigure.Resume, "p5")
		pass(time.Minute)
		l.wantEnds(codes{1: done, 3: done})
		l.calls(reconfigure.Deploy)
		pass(2 * time.Minute)
		if _, ended := l.outcome(4); !ended {
			t.Error("the deploy waits for a deferred request")
		}
		l.EndJob("p2")
		pass(2 * time.Minute)
		if o, _ := l.outcome(2); o.Code != done {
			t.Errorf("the shrink ended as %+v", o)
		}
	})
}

// Each outcome is written when its own nodes have their verdicts.
func TestOutcomesAreWrittenAsTheyCome(t *testing.T) {
	test(t, nil, func(l *lab) {
		l.Takes(simulate.Playing, time.Minute, "p2")
		l.Takes(simulate.Playing, 3*time.Minute, "p3")
		l.PowersUp("p2", "p3")
		l.submit(ask(reconfigure.Resume, "p2"), ask(reconfigure.Resume, "p2", "p3"))
		l.spawn()
		pass(2 * time.Minute)
		l.wantEnds(codes{1: done})
		if waiting := l.pending(); len(waiting) != 1 || len(waiting[0].Verdicts) != 1 || waiting[0].Verdicts[0].Node != "p2" {
			t.Errorf("what is known of the other one: %+v", waiting)
		}
		if !l.leased() {
			t.Error("nobody holds the lease while an operation is under way")
		}
		pass(2 * time.Minute)
		l.wantEnds(codes{1: done, 2: done})
		if l.leased() {
			t.Error("somebody holds the lease still")
		}
	})
}
