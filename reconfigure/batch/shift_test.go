package batch_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// relay makes every batch for a minute, and readies it for another nine. It notes when that begins and ends.
type relay struct {
	start time.Time
	lock  sync.Mutex
	diary []string
}

const making, readying = time.Minute, 9 * time.Minute

func (c *relay) Carry(ctx context.Context, _ int64, requests []reconfigure.Request, made func()) ([]reconfigure.Outcome, error) {
	c.note("%s begins after %s", requests)
	spend(ctx, making)
	if requests[0].Mode == reconfigure.Resume || requests[0].Mode == reconfigure.Suspend {
		made()
	}
	spend(ctx, readying)
	c.note("%s ends after %s", requests)
	var outcomes []reconfigure.Outcome
	for _, r := range requests {
		outcomes = append(outcomes, reconfigure.Outcome{Request: r.ID, Code: reconfigure.CodeDone})
	}
	return outcomes, nil
}

func (*relay) Stirs(context.Context, []reconfigure.Request) (bool, error) { return false, nil }

func (c *relay) note(format string, requests []reconfigure.Request) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.diary = append(c.diary, fmt.Sprintf(format, strings.Trim(fmt.Sprint(ids(requests)), "[]"), time.Since(c.start)))
}

func spend(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// led tells whether somebody leads.
func (m *memory) led() bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.leads
}

// arrival is a request that comes so long after the start.
type arrival struct {
	after time.Duration
	reconfigure.Request
}

func come(after time.Duration, id int, m reconfigure.Mode, nodes ...string) arrival {
	return arrival{after, request(id, m, nodes...)}
}

// arrive has requests come, each with a worker of its own, and returns when all workers have ended.
func arrive(ctx context.Context, t *testing.T, log *memory, c batch.Carrier, arrivals ...arrival) {
	t.Helper()
	var callers sync.WaitGroup
	for _, a := range arrivals {
		callers.Go(func() {
			time.Sleep(a.after)
			a.Submitted = time.Now().Add(-time.Minute) // nobody waits for others that may arrive with it
			log.submit(a.Request)
			if err := batch.Work(ctx, log, c, poll); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if log.led() {
		t.Error("somebody leads still")
	}
}

func TestTheNextBatchBeginsWhenTheOneBeforeIsMade(t *testing.T) {
	const resume, suspend, deploy, enlarge = reconfigure.Resume, reconfigure.Suspend, reconfigure.Deploy, reconfigure.Enlarge
	for name, tc := range map[string]struct {
		arrivals []arrival
		want     []string
	}{
		"another node": {
			[]arrival{come(0, 1, resume, "a"), come(time.Second, 2, resume, "b")},
			[]string{"1 begins after 0s", "2 begins after 1m0s", "1 ends after 10m0s", "2 ends after 11m0s"},
		},
		"it comes while the first one is readied": {
			[]arrival{come(0, 1, resume, "a"), come(5*time.Minute, 2, resume, "b")},
			[]string{"1 begins after 0s", "2 begins after 5m0s", "1 ends after 10m0s", "2 ends after 15m0s"},
		},
		"the same node waits, and holds up nobody else": {
			[]arrival{come(0, 1, resume, "a"), come(time.Second, 2, suspend, "a"), come(2*time.Second, 3, resume, "b")},
			[]string{"1 begins after 0s", "3 begins after 1m0s", "1 ends after 10m0s", "2 begins after 10m0s", "3 ends after 11m0s", "2 ends after 20m0s"},
		},
		"the same wish for the same node waits too": {
			[]arrival{come(0, 1, resume, "a"), come(time.Second, 2, resume, "a", "b")},
			[]string{"1 begins after 0s", "1 ends after 10m0s", "2 begins after 10m0s", "2 ends after 20m0s"},
		},
		"the whole cluster goes alone, and those behind it wait": {
			[]arrival{come(0, 1, resume, "a"), come(70*time.Second, 2, resume, "b"), come(80*time.Second, 3, deploy), come(90*time.Second, 4, resume, "c")},
			[]string{
				"1 begins after 0s", "2 begins after 1m10s", "1 ends after 10m0s", "2 ends after 11m10s", "3 begins after 11m10s", "3 ends after 21m10s",
				"4 begins after 21m10s", "4 ends after 31m10s",
			},
		},
		"so do those behind a change of size": {
			[]arrival{come(0, 1, resume, "a"), come(time.Second, 2, enlarge, "b"), come(2*time.Second, 3, resume, "c")},
			[]string{"1 begins after 0s", "1 ends after 10m0s", "2 3 begins after 10m0s", "2 3 ends after 20m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, c := &memory{}, &relay{start: time.Now()}
				arrive(t.Context(), t, log, c, tc.arrivals...)
				// A worker looks once a second.
				for i, line := range c.diary {
					c.diary[i] = strings.NewReplacer("m1s", "m0s", "m11s", "m10s").Replace(line)
				}
				if diff := cmp.Diff(tc.want, c.diary); diff != "" {
					t.Errorf("batches (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Small requests come without end, each for a node of its own.
func TestAStreamOfRequestsKeepsNoDeployWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, c := &memory{}, &relay{start: time.Now()}
		arrivals := []arrival{come(10*time.Minute, 100, reconfigure.Deploy)}
		for i := range 60 {
			arrivals = append(arrivals, come(time.Duration(i)*30*time.Second, i, reconfigure.Resume, fmt.Sprint("n", i)))
		}
		arrive(t.Context(), t, log, c, arrivals...)
		all := strings.Join(c.diary, "\n")
		if !strings.Contains(all, "100 begins after 20m") && !strings.Contains(all, "100 begins after 21m") { // the last one that came before it takes ten minutes
			t.Errorf("batches:\n%s", all)
		}
	})
}

func TestEachBatchIsSettledWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, c := &memory{}, &relay{start: time.Now()}
		go arrive(t.Context(), t, log, c, come(0, 1, reconfigure.Resume, "a"), come(5*time.Minute, 2, reconfigure.Resume, "b"))
		pass(10 * time.Minute)
		log.wantEnds(t, ends{1: reconfigure.CodeDone})
		if !log.led() {
			t.Error("nobody leads while a batch is under way")
		}
		pass(5*time.Minute + time.Second) // a worker looks once a second
		log.wantEnds(t, ends{1: reconfigure.CodeDone, 2: reconfigure.CodeDone})
	})
}

// Whatever ends the worker ends both batches, and the lead only after them.
func TestAWorkerThatIsToEndEndsAllThatItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		log, c := &memory{}, &relay{start: time.Now()}
		go arrive(ctx, t, log, c, come(0, 1, reconfigure.Resume, "a"), come(2*time.Minute, 2, reconfigure.Resume, "b"), come(3*time.Minute, 3, reconfigure.Suspend, "b"))
		pass(4 * time.Minute)
		end()
		synctest.Wait()
		if len(c.diary) != 4 || !strings.HasPrefix(c.diary[1], "2 begins") || log.led() {
			t.Errorf("it leads still: %t; batches %q", log.led(), c.diary)
		}
		log.wantEnds(t, ends{1: reconfigure.CodeDone, 2: reconfigure.CodeDone})
	})
}

// narrow is a log that does not take the first request's outcome at once.
type narrow struct {
	*memory
	refused bool
}

func (n *narrow) Finish(ctx context.Context, o reconfigure.Outcome) error {
	if o.Request == 1 && !n.refused {
		n.refused = true
		return errAway
	}
	return n.memory.Finish(ctx, o)
}

func TestABrokenJournalDoesNotLoseTheOutcomeOfAnotherBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, c := &narrow{memory: &memory{}}, &relay{start: time.Now()}
		log.submit(request(1, reconfigure.Resume, "a"))
		go func() {
			time.Sleep(time.Minute)
			log.submit(request(2, reconfigure.Resume, "b"))
			time.Sleep(9*time.Minute + 30*time.Second)
			log.submit(request(3, reconfigure.Resume, "c"))
		}()
		if err := batch.Work(t.Context(), log, c, poll); err != nil {
			t.Error(err)
		}
		log.wantEnds(t, ends{1: reconfigure.CodeDone, 2: reconfigure.CodeDone, 3: reconfigure.CodeDone})
		// The other batch keeps the request from nothing: it is carried once more while that one is under way.
		if len(c.diary) != 8 || !strings.HasPrefix(c.diary[3], "1 begins") {
			t.Errorf("batches %q", c.diary)
		}
	})
}

// overlapping is the product's pipeline as a worker has it, over a cluster whose instances take two minutes to be made, and half a minute to be configured; where one
// does not answer it is waited for.
func overlapping(w *enginetest.World) batch.Pipeline {
	common := engine.NewCommon()
	w.Takes(enginetest.Planning, time.Minute)
	w.Takes(enginetest.Applying, time.Minute)
	w.Takes(enginetest.Playing, 30*time.Second)
	return batch.Pipeline{Turn: common.Terraform, Open: func(context.Context) (reconfigure.Cluster, batch.Engine, error) {
		deps := w.Deps()
		deps.Common = common
		return lasting(), engine.New(lasting(), deps), nil
	}}
}

// lasting is declared with real times.
func lasting() reconfigure.Cluster {
	c := timed()
	c.Settings.BootTimeout = 5 * time.Minute
	return c
}

// newLasting has the control node and p1.
func newLasting() *enginetest.World {
	w := enginetest.NewWorld(lasting())
	w.Have("ctl", "p1")
	return w
}

func TestANodeThatNeverBootsDoesNotHoldUpALaterRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := newLasting(), &memory{}
		w.PowersUp("p3", "p4")
		w.Order(enginetest.NoSSH, "p3")
		start := time.Now()
		arrive(t.Context(), t, log, overlapping(w), come(0, 1, reconfigure.Resume, "p3"), come(130*time.Second, 2, reconfigure.Resume, "p4"))
		log.wantEnds(t, ends{1: reconfigure.CodeFailed, 2: reconfigure.CodeDone})
		if first, second := log.outcome(1).Finished.Sub(start), log.outcome(2).Finished.Sub(start); second > first || second > 5*time.Minute {
			t.Errorf("the second request ended after %s, the first one after %s", second, first)
		}
		if clashes := w.Clashes(); len(clashes) > 0 {
			t.Error(clashes)
		}
	})
}

// The first batch ends, and cleans up, while the second one has planned and is about to apply.
func TestWhatOneBatchRemovesAnotherDoesNotBringBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := newLasting(), &memory{}
		w.PowersUp("p3", "p4")
		w.Order(enginetest.NoSSH, "p3")
		arrive(t.Context(), t, log, overlapping(w), come(0, 1, reconfigure.Resume, "p3"), come(400*time.Second, 2, reconfigure.Resume, "p4"))
		log.wantEnds(t, ends{1: reconfigure.CodeFailed, 2: reconfigure.CodeDone})
		if clashes := w.Clashes(); len(clashes) > 0 {
			t.Error(clashes)
		}
		if gone, made := w.Node("p3"), w.Node("p4"); gone.Instance.Node != "" || gone.Spec != (reconfigure.Spec{}) || made.State != "ALLOCATED+CLOUD" {
			t.Errorf("p3 is %+v, p4 is %+v", gone, made)
		}
	})
}

// Nothing begins beside a batch that gives every node another slurm.conf.
func TestAnotherSlurmConfGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grown := lasting().WithMin("group", 2)
		w, log := newLasting(), &memory{}
		w.Declare(grown)
		w.PowersUp("p5")
		p := overlapping(w)
		w.Takes(enginetest.Planning, 5*time.Second)
		w.Takes(enginetest.Applying, 5*time.Second)
		w.Takes(enginetest.Playing, 3*time.Minute)
		open := p.Open
		p.Open = func(ctx context.Context) (reconfigure.Cluster, batch.Engine, error) {
			_, _, err := open(ctx)
			return grown, engine.New(grown, w.Deps()), err
		}
		arrive(t.Context(), t, log, p, come(0, 1, reconfigure.Enlarge, "p2"), come(20*time.Second, 2, reconfigure.Resume, "p5"))
		log.wantEnds(t, ends{1: reconfigure.CodeDone, 2: reconfigure.CodeDone})
		want := []string{"apply create p2", "slurm.conf everywhere, configure ctl,p2 of ctl,p[1-2]", "apply create p5", "configure p5 of ctl,p[1-2,5]"}
		if diff := cmp.Diff(want, w.Calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// stream is eight jobs that come half a minute apart, each for a node of its own, and how long the last one waits for its node.
func stream(t *testing.T, carrier func(batch.Pipeline) batch.Carrier) (last time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, log := newLasting(), &memory{}
		w.Order(enginetest.NoSSH, "p4")
		p := overlapping(w)
		w.Takes(enginetest.Planning, 10*time.Second)
		w.Takes(enginetest.Applying, 10*time.Second)
		start := time.Now()
		var arrivals []arrival
		for i := range 8 {
			node := fmt.Sprint("p", i+2)
			w.PowersUp(node)
			arrivals = append(arrivals, come(time.Duration(i)*30*time.Second, i+1, reconfigure.Resume, node))
		}
		arrive(t.Context(), t, log, carrier(p), arrivals...)
		for i := range 8 {
			if id := reconfigure.RequestID(i + 1); i != 2 {
				last = max(last, log.outcome(id).Finished.Sub(start.Add(arrivals[i].after)))
			}
		}
		if clashes := w.Clashes(); len(clashes) > 0 {
			t.Error(clashes)
		}
	})
	return last
}

// oneByOne never lets the next batch begin before one has ended.
type oneByOne struct{ batch.Pipeline }

func (o oneByOne) Carry(ctx context.Context, number int64, requests []reconfigure.Request, _ func()) ([]reconfigure.Outcome, error) {
	return o.Pipeline.Carry(ctx, number, requests, func() {})
}

func TestOverlapPays(t *testing.T) {
	beside := stream(t, func(p batch.Pipeline) batch.Carrier { return p })
	after := stream(t, func(p batch.Pipeline) batch.Carrier { return oneByOne{p} })
	t.Logf("eight jobs half a minute apart, one node of which never boots: the longest wait of the others is %s, and %s where batches go one after another", beside, after)
	if beside*2 > after {
		t.Errorf("batches that overlap make the others wait for %s, those that do not for %s", beside, after)
	}
}
