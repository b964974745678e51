package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// memory is a log that several workers of one process meet in.
type memory struct {
	lock          sync.Mutex
	requests      []reconfigure.Request
	finished      []reconfigure.Outcome
	told          []string
	batches       int64
	leads, stands bool
	paused        bool
}

func (m *memory) Paused(context.Context) (reconfigure.Pause, bool, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	return reconfigure.Pause{}, m.paused, nil
}

func (m *memory) pause(on bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.paused = on
}

func (m *memory) Pending(context.Context) ([]reconfigure.Request, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.requests), nil
}

func (m *memory) Begin(_ context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome) (int64, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	waiting := func(id reconfigure.RequestID) bool { return m.find(id) != nil }
	cannot := func(o reconfigure.Outcome) bool { return !waiting(o.Request) || m.find(o.Request).Touched }
	if m.paused || slices.ContainsFunc(ids, func(id reconfigure.RequestID) bool { return !waiting(id) }) || slices.ContainsFunc(undone, cannot) {
		return 0, fmt.Errorf("a batch cannot carry %v and undo %v, paused %t", ids, undone, m.paused)
	}
	for i := range m.requests {
		if m.requests[i].Passed.IsZero() {
			m.requests[i].Passed = time.Now()
		}
	}
	for _, id := range ids {
		m.find(id).Touched = true
	}
	for _, o := range undone {
		m.finish(o)
	}
	m.batches++
	return m.batches, nil
}

func (m *memory) find(id reconfigure.RequestID) *reconfigure.Request {
	i := slices.IndexFunc(m.requests, func(r reconfigure.Request) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return &m.requests[i]
}

func (m *memory) finish(o reconfigure.Outcome) {
	m.finished = append(m.finished, o)
	m.requests = slices.DeleteFunc(m.requests, func(r reconfigure.Request) bool { return r.ID == o.Request })
}

func (m *memory) Finish(_ context.Context, o reconfigure.Outcome) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.finish(o)
	return nil
}

func (m *memory) Hold(_ context.Context, o reconfigure.Outcome) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	r := m.find(o.Request)
	r.Held, r.Settled, r.Waits = true, o.Verdicts, o.Waiting
	r.Touched = r.Touched && slices.ContainsFunc(o.Waiting, func(w reconfigure.Wait) bool { return w.Node != "" })
	return nil
}

func (m *memory) Record(_ context.Context, events ...reconfigure.Event) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, e := range events {
		m.told = append(m.told, e.Message)
	}
	return nil
}

func (m *memory) WhileLeading(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (m *memory) Lead(context.Context) (func() error, bool, error)  { return m.take(&m.leads) }
func (m *memory) Watch(context.Context) (func() error, bool, error) { return m.take(&m.stands) }

func (m *memory) take(held *bool) (func() error, bool, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if *held {
		return nil, false, nil
	}
	*held = true
	return func() error {
		m.lock.Lock()
		defer m.lock.Unlock()
		*held = false
		return nil
	}, true, nil
}

func (m *memory) submit(r reconfigure.Request) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.requests = append(m.requests, r)
}

// waiter holds updates until their time has come.
type waiter struct {
	log  *memory
	free time.Time
	lock sync.Mutex
	said []string
}

func (w *waiter) Carry(_ context.Context, _ int64, requests []reconfigure.Request, _ func()) ([]reconfigure.Outcome, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	var outcomes []reconfigure.Outcome
	for _, r := range requests {
		o := reconfigure.Outcome{Request: r.ID}
		if r.Mode == reconfigure.Update && time.Now().Before(w.free) {
			o.Waiting = []reconfigure.Wait{{Node: "n1", Request: r.ID}}
		} else {
			w.said = append(w.said, string(r.Mode)+" "+r.Nodes.String())
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

func (w *waiter) Stirs(context.Context, []reconfigure.Request) (bool, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return !time.Now().Before(w.free), nil
}

// heard is what was carried out, so far.
func (w *waiter) heard() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.said)
}

func (m *memory) begun() int64 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.batches
}

// pass lets time pass. Whoever looks every so often does so at the very moment at which it ends, too: that is over then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Nobody leads while jobs are waited for, so others are served; of all the workers that they start one stays.
func TestOthersAreServedWhileARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		w := &waiter{log: log, free: time.Now().Add(20 * time.Hour)}
		log.submit(request(1, reconfigure.Update, "n1"))
		var ended atomic.Int32
		work := func() {
			if err := batch.Work(t.Context(), log, w, poll); err != nil {
				t.Error(err)
			}
			ended.Add(1)
		}
		go work()
		pass(time.Hour)
		for i, r := range []reconfigure.Request{request(2, reconfigure.Resume, "n2"), request(3, reconfigure.Deploy), request(4, reconfigure.Suspend, "n1")} {
			log.submit(r)
			go work()
			pass(time.Hour)
			if n := int(ended.Load()); n != i+1 {
				t.Errorf("%d workers have ended, want %d", n, i+1)
			}
		}
		if diff := cmp.Diff([]string{"resume n2", "deploy "}, w.heard()); diff != "" {
			t.Errorf("before the jobs have ended (-want +got):\n%s", diff)
		}
		if n := log.begun(); n > 5 {
			t.Errorf("%d batches, although there was nothing to do for most of the time", n)
		}
		pass(20 * time.Hour)
		// What came later for the same node had to wait.
		if diff := cmp.Diff([]string{"resume n2", "deploy ", "update n1", "suspend n1"}, w.heard()); diff != "" || ended.Load() != 4 {
			t.Errorf("%d workers ended (-want +got):\n%s", ended.Load(), diff)
		}
	})
}

func TestAnotherWorkerTakesTheWatchOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		w := &waiter{log: log, free: time.Now().Add(time.Hour)}
		log.submit(request(1, reconfigure.Update, "n1"))
		ctx, kill := context.WithCancel(t.Context())
		go func() { _ = batch.Work(ctx, log, w, poll) }()
		time.Sleep(time.Minute)
		kill()
		synctest.Wait()
		if err := batch.Work(t.Context(), log, w, poll); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"update n1"}, w.said); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// witness is a log whose watch, when it ends with nothing left to wait for, ends in the presence of somebody else.
type witness struct {
	*memory
	come func()
}

func (l *witness) Watch(ctx context.Context) (func() error, bool, error) {
	release, ok, err := l.memory.Watch(ctx)
	return func() error {
		if waiting, _ := l.Pending(ctx); len(waiting) == 0 && l.come != nil {
			come := l.come
			l.come = nil
			come()
		}
		return release()
	}, ok, err
}

// Whoever holds a request while another process watches leaves it to that one, which may be about to leave itself.
func TestWhatIsHeldInTheMomentInWhichAWatchEndsIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		w := &waiter{log: log, free: time.Now().Add(time.Hour)}
		log.submit(request(1, reconfigure.Update, "n1"))
		var others sync.WaitGroup
		watcher := &witness{memory: log, come: func() {
			w.lock.Lock()
			w.free = time.Now().Add(time.Hour)
			w.lock.Unlock()
			log.submit(request(3, reconfigure.Update, "n3"))
			if err := batch.Work(t.Context(), log, w, poll); err != nil {
				t.Error(err)
			}
		}}
		others.Go(func() {
			time.Sleep(time.Hour + 500*time.Millisecond) // between two looks
			log.submit(request(2, reconfigure.Resume, "n2"))
			if err := batch.Work(t.Context(), log, w, poll); err != nil {
				t.Error(err)
			}
		})
		if err := batch.Work(t.Context(), watcher, &slow{w}, poll); err != nil {
			t.Fatal(err)
		}
		others.Wait() // one of them may have taken the watch over
		if diff := cmp.Diff([]string{"update n1", "resume n2", "update n3"}, w.heard()); diff != "" || watcher.come != nil {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// slow is a carrier that does not stir before somebody else has had the time to carry out what it watches.
type slow struct{ *waiter }

func (s *slow) Stirs(context.Context, []reconfigure.Request) (bool, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return time.Now().After(s.free.Add(time.Minute)), nil
}

// fickle is a log in which a request is taken back after it was seen, and before it was begun.
type fickle struct{ *memory }

func (l fickle) Begin(ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome) (int64, error) {
	if slices.Contains(ids, 1) {
		return 0, errors.Join(errors.New("request 1 was taken back"), l.Finish(ctx, reconfigure.Outcome{Request: 1}))
	}
	return l.memory.Begin(ctx, ids, undone...)
}

func TestARequestThatIsTakenBackHoldsNobodyUp(t *testing.T) {
	log := &memory{}
	w := &waiter{log: log}
	log.submit(request(1, reconfigure.Resume, "n1"))
	log.submit(request(2, reconfigure.Resume, "n2"))
	if err := batch.Work(t.Context(), fickle{log}, w, poll); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"resume n2"}, w.said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Slurm's patience with the node goes on, and that of a request which waits for jobs may be a day.
func TestASecondTryGoesBeforeTheWholeCluster(t *testing.T) {
	tried, drained := request(1, reconfigure.Resume, "n1"), request(1, reconfigure.Update, "n1")
	tried.Held, tried.Waits = true, []reconfigure.Wait{{Node: "n1", Request: 1, Tries: 1}}
	drained.Held, drained.Waits = true, []reconfigure.Wait{{Node: "n1", Request: 1}}
	for first, r := range map[reconfigure.RequestID]reconfigure.Request{1: tried, 2: drained} {
		if got := batch.Gather([]reconfigure.Request{r, request(2, reconfigure.Deploy)}, nil); len(got) != 1 || got[0].ID != first {
			t.Errorf("first comes %+v, want request %s", got, first)
		}
	}
}

func TestRequestsThatWantDifferentThingsOfANodeAreKeptApart(t *testing.T) {
	plain, forced := request(1, reconfigure.Update, "n1"), request(2, reconfigure.Update, "n1", "n2")
	forced.Reimage = true
	got := batch.Gather([]reconfigure.Request{plain, forced, request(3, reconfigure.Update, "n1")}, nil)
	if len(got) != 1 || got[0].ID != 1 {
		t.Errorf("together: %+v", got)
	}
}

// TestUpdateOfNodesInUse has the product's own pipeline, over a simulated cluster, update one node that is idle and one that has a job for two hours.
func TestUpdateOfNodesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := enginetest.NewWorld(declared())
		w.Have("ctl", "p1", "p2")
		w.StartJob("p2")
		time.Sleep(time.Hour)
		go func() {
			time.Sleep(2 * time.Hour)
			w.EndJob("p2")
		}()
		log := &memory{}
		r := request(1, reconfigure.Update, "p1", "p2")
		r.Submitted, r.DrainTimeout = time.Now(), 24*time.Hour
		log.submit(r)
		if err := batch.Work(t.Context(), log, pipeline(w), poll); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"drain p[1-2]: update", "reboot p1", "configure p1 of ctl,p[1-2]", "undrain p1",
			"reboot p2", "configure p2 of ctl,p[1-2]", "undrain p2",
		}
		if diff := cmp.Diff(want, w.Calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		o := log.finished[0]
		if o.Code != reconfigure.CodeDone || len(o.Verdicts) != 2 || o.Verdicts[0].Action != reconfigure.Reboot || o.Verdicts[1].Action != reconfigure.Reboot {
			t.Errorf("outcome %+v", o)
		}
		if took := time.Since(r.Submitted); took < 2*time.Hour || took > 2*time.Hour+time.Minute {
			t.Errorf("it took %s", took)
		}
		if len(w.Lost()) > 0 || log.batches > 4 {
			t.Errorf("lost jobs on %v, in %d batches", w.Lost(), log.batches)
		}
	})
}

func TestUpdateGivesUpOnAJobThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := enginetest.NewWorld(declared())
		w.Have("ctl", "p1")
		w.StartJob("p1")
		time.Sleep(time.Hour)
		log := &memory{}
		r := request(1, reconfigure.Update, "p1")
		r.Submitted, r.DrainTimeout = time.Now(), time.Hour
		log.submit(r)
		if err := batch.Work(t.Context(), log, pipeline(w), poll); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"drain p1: update", "undrain p1"}, w.Calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if o := log.finished[0]; o.Code != reconfigure.CodeFailed || o.Verdicts[0].Status != reconfigure.StatusRejected || len(w.Lost()) > 0 {
			t.Errorf("outcome %+v, lost %v", o, w.Lost())
		}
	})
}
