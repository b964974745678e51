package batch_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
)

func TestNothingBeginsDuringAPause(t *testing.T) {
	j := openJournal(t, t.TempDir())
	submit(t, j, request(0, reconfigure.Resume, "a"))
	submit(t, j, request(0, reconfigure.Update, "a"))
	// The pause comes in the middle of the first batch, which goes on to its end.
	c := &carrier{first: func() {
		if err := j.Pause(t.Context(), "a disk is swapped", "alice"); err != nil {
			t.Error(err)
		}
	}}
	work := func() {
		t.Helper()
		if err := batch.Work(t.Context(), j, c, poll); err != nil {
			t.Fatal(err)
		}
	}
	work()
	wantBatches(t, c, []reconfigure.RequestID{1})
	submit(t, j, request(0, reconfigure.Resume, "b"))
	work()
	if err := batch.WorkOnce(t.Context(), j, c); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, c, []reconfigure.RequestID{1})
	if err := j.Continue(t.Context()); err != nil {
		t.Fatal(err)
	}
	work()
	wantBatches(t, c, []reconfigure.RequestID{1}, []reconfigure.RequestID{2, 3})
	wantNothingWaits(t, j)
}

func TestWhoWatchesEndsAtAPauseAndTheNextWorkerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		log.submit(request(1, reconfigure.Update, "n1"))
		w := &waiter{log: log, free: time.Now().Add(time.Hour)}
		work := func() {
			if err := batch.Work(t.Context(), log, w, poll); err != nil {
				t.Error(err)
			}
		}
		var workers sync.WaitGroup
		workers.Go(work)
		pass(time.Minute)
		log.pause(true)
		workers.Wait()
		if log.leads || log.stands {
			t.Fatal("it leads or watches still")
		}
		pass(2 * time.Hour) // the jobs end meanwhile
		if said := w.heard(); said != nil {
			t.Fatalf("during the pause: %v", said)
		}
		log.pause(false)
		work()
		if diff := cmp.Diff([]string{"update n1"}, w.heard()); diff != "" {
			t.Errorf("carried out (-want +got):\n%s", diff)
		}
	})
}

// leaver is a log of a worker that takes long to give the watch up.
type leaver struct {
	*memory
	meanwhile func()
}

func (l *leaver) Watch(ctx context.Context) (func() error, bool, error) {
	release, ok, err := l.memory.Watch(ctx)
	return func() error {
		if meanwhile := l.meanwhile; meanwhile != nil {
			l.meanwhile = nil
			meanwhile()
		}
		return release()
	}, ok, err
}

func TestAPauseThatEndsWhileTheWatchIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		log.submit(request(1, reconfigure.Update, "n1"))
		w := &waiter{log: log, free: time.Now().Add(time.Hour)}
		leaves := &leaver{memory: log, meanwhile: func() {
			log.pause(false)
			if err := batch.Work(t.Context(), log, w, poll); err != nil { // it sees that somebody watches
				t.Error(err)
			}
		}}
		var worker sync.WaitGroup
		worker.Go(func() {
			if err := batch.Work(t.Context(), leaves, w, poll); err != nil {
				t.Error(err)
			}
		})
		pass(time.Minute)
		log.pause(true)
		worker.Wait()
		if diff := cmp.Diff([]string{"update n1"}, w.heard()); diff != "" {
			t.Errorf("carried out (-want +got):\n%s", diff)
		}
	})
}

// A pause that begins and ends at any moment, again and again, costs no request more than time, as long as a worker is started whenever it ends.
func TestNoRequestIsLostByPauses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		drawn := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 30).Draw(rt, "moves")
		gaps := rapid.SliceOfN(rapid.IntRange(0, 2*int(poll/time.Second)), len(drawn), len(drawn)).Draw(rt, "seconds between")
		delay := delays(rapid.Uint64().Draw(rt, "delays"))
		var left []reconfigure.Request
		synctest.Test(t, func(t *testing.T) {
			log := &memory{}
			w := &waiter{log: log, free: time.Now().Add(time.Minute)}
			var workers sync.WaitGroup
			start := func() {
				workers.Go(func() {
					if err := batch.Work(t.Context(), slowLog{log, delay}, w, poll); err != nil {
						t.Error(err)
					}
				})
			}
			for i, move := range drawn {
				switch id := i + 1; move {
				case 0:
					log.submit(request(id, reconfigure.Resume, "n2"))
					start()
				case 1:
					log.submit(request(id, reconfigure.Update, "n1"))
					start()
				case 2:
					log.pause(true)
				case 3:
					log.pause(false)
					start()
				}
				time.Sleep(time.Duration(gaps[i])*time.Second + time.Millisecond)
			}
			log.pause(false)
			start()
			workers.Wait()
			left = log.requests
		})
		if len(left) > 0 {
			rt.Fatalf("%v wait still, and no worker is there", left)
		}
	})
}

// slowLog takes its time for each answer, now more and now less, so that others get in between.
type slowLog struct {
	*memory
	delay func() time.Duration
}

func (l slowLog) Paused(ctx context.Context) (reconfigure.Pause, bool, error) {
	p, paused, err := l.memory.Paused(ctx)
	time.Sleep(l.delay())
	return p, paused, err
}

func (l slowLog) Pending(ctx context.Context) ([]reconfigure.Request, error) {
	requests, err := l.memory.Pending(ctx)
	time.Sleep(l.delay())
	return requests, err
}

// delays draws how long answers take, for several workers.
func delays(seed uint64) func() time.Duration {
	var lock sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	return func() time.Duration {
		lock.Lock()
		defer lock.Unlock()
		return []time.Duration{time.Millisecond, time.Second, 10 * time.Second}[random.IntN(3)]
	}
}

func TestWorkOnceDoesNotStayForHeldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		log.submit(request(1, reconfigure.Update, "n1"))
		log.submit(request(2, reconfigure.Resume, "n2"))
		w := &waiter{log: log, free: time.Now().Add(time.Hour)}
		once := func(said []string, batches int64) {
			t.Helper()
			began := time.Now()
			if err := batch.WorkOnce(t.Context(), log, w); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(said, w.heard()); diff != "" {
				t.Errorf("carried out (-want +got):\n%s", diff)
			}
			if time.Since(began) != 0 || log.begun() != batches {
				t.Errorf("it stayed for %v and began %d batches, want %d", time.Since(began), log.begun(), batches)
			}
		}
		once([]string{"resume n2"}, 1)
		once([]string{"resume n2"}, 1) // nothing has stirred
		pass(2 * time.Hour)
		once([]string{"resume n2", "update n1"}, 2)
		if log.leads || log.stands {
			t.Error("it leads or watches still")
		}
	})
}

func TestWorkOnceTakesWhatComesBeforeTheLeadEnds(t *testing.T) {
	dir := t.TempDir()
	j, other := openJournal(t, dir), openJournal(t, dir)
	submit(t, j, request(0, reconfigure.Resume, "a"))
	c := &carrier{}
	log := &lateComer{Journal: j, come: func() { submit(t, other, request(0, reconfigure.Resume, "b")) }}
	if err := batch.WorkOnce(t.Context(), log, c); err != nil {
		t.Fatal(err)
	}
	wantBatches(t, c, []reconfigure.RequestID{1}, []reconfigure.RequestID{2})
}
