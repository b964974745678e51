package batch_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
)

var errAway = errors.New("the database is away")

// shaky is a journal that is away at times, as a database server is that is started anew: its locks are gone then, too.
type shaky struct {
	*memory
	lock  sync.Mutex
	until time.Time
	lose  context.CancelCauseFunc
	epoch int // of its locks
}

// fails has the journal fail for a while, from now on.
func (s *shaky) fails(d time.Duration) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.until = time.Now().Add(d)
}

// away has it fail, and its locks be lost.
func (s *shaky) away(d time.Duration) {
	s.fails(d)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.epoch++
	s.memory.lock.Lock()
	s.leads, s.stands = false, false
	s.memory.lock.Unlock()
	if s.lose != nil {
		s.lose(reconfigure.ErrLeadLost)
	}
}

func (s *shaky) failing() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if time.Now().Before(s.until) {
		return errAway
	}
	return nil
}

func (s *shaky) Paused(ctx context.Context) (reconfigure.Pause, bool, error) {
	if err := s.failing(); err != nil {
		return reconfigure.Pause{}, false, err
	}
	return s.memory.Paused(ctx)
}

func (s *shaky) Lead(ctx context.Context) (func() error, bool, error) {
	return s.take(func() (func() error, bool, error) { return s.memory.Lead(ctx) })
}

func (s *shaky) Watch(ctx context.Context) (func() error, bool, error) {
	return s.take(func() (func() error, bool, error) { return s.memory.Watch(ctx) })
}

// take takes a lock, which nobody can release who has lost it.
func (s *shaky) take(take func() (func() error, bool, error)) (func() error, bool, error) {
	if err := s.failing(); err != nil {
		return nil, false, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	release, ok, err := take()
	epoch := s.epoch
	return func() error {
		s.lock.Lock()
		defer s.lock.Unlock()
		if s.epoch != epoch {
			return reconfigure.ErrLeadLost
		}
		return release()
	}, ok, err
}

func (s *shaky) WhileLeading(ctx context.Context) (context.Context, context.CancelFunc) {
	leading, lose := context.WithCancelCause(ctx)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.lose = lose
	return leading, func() { lose(nil) }
}

func (s *shaky) Finish(ctx context.Context, o reconfigure.Outcome) error {
	if err := s.failing(); err != nil {
		return err
	}
	return s.memory.Finish(ctx, o)
}

// work has one worker be at work from now on.
func (s *shaky) work(t *testing.T, c batch.Carrier, options ...batch.Option) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- batch.Work(t.Context(), s, c, poll, options...) }()
	return ended
}

func TestOneWhoWatchesOutlivesTheJournalsAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &shaky{memory: &memory{}}
		w := &waiter{log: log.memory, free: time.Now().Add(3 * time.Hour)}
		log.submit(request(1, reconfigure.Update, "n1"))
		var told []error
		ended := log.work(t, w, batch.Trouble(func(err error, _ time.Duration) { told = append(told, err) }))
		for range 3 { // each is a trouble of its own
			pass(30 * time.Minute)
			log.away(9 * time.Minute)
		}
		pass(3 * time.Hour)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"update n1"}, w.heard()); diff != "" {
			t.Errorf("carried out (-want +got):\n%s", diff)
		}
		if len(told) == 0 || !errors.Is(told[0], errAway) {
			t.Errorf("told: %v", told)
		}
	})
}

func TestAWorkerEndsWhenTheJournalStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &shaky{memory: &memory{}}
		log.submit(request(1, reconfigure.Update, "n1"))
		ended := log.work(t, &waiter{log: log.memory, free: time.Now().Add(9 * time.Hour)})
		pass(time.Hour)
		log.away(5 * time.Hour)
		began := time.Now()
		if err := <-ended; !errors.Is(err, errAway) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took < 10*time.Minute || took > 12*time.Minute {
			t.Errorf("it ended after %s", took)
		}
	})
}

// lost is a carrier whose batch ends with the lead, as the engine's does.
type lost struct {
	*waiter
	causes []error
}

func (l *lost) Carry(ctx context.Context, number int64, requests []reconfigure.Request) ([]reconfigure.Outcome, error) {
	select {
	case <-ctx.Done():
		l.causes = append(l.causes, context.Cause(ctx))
		return nil, context.Cause(ctx)
	case <-time.After(10 * time.Minute):
		return l.waiter.Carry(ctx, number, requests)
	}
}

func TestALeaderThatLosesTheLeadTakesItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &shaky{memory: &memory{}}
		log.submit(request(1, reconfigure.Resume, "n1"))
		c := &lost{waiter: &waiter{log: log.memory}}
		ended := log.work(t, c)
		pass(5 * time.Minute)
		log.away(time.Minute)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(c.causes) != 1 || !errors.Is(c.causes[0], reconfigure.ErrLeadLost) {
			t.Errorf("batches cut short: %v", c.causes)
		}
		if diff := cmp.Diff([]string{"resume n1"}, c.heard()); diff != "" || log.begun() != 2 || log.leads {
			t.Errorf("%d batches, leads still: %t; carried out (-want +got):\n%s", log.begun(), log.leads, diff)
		}
	})
}

func TestALeaderLeavesTheRestToWhoeverTookTheLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &shaky{memory: &memory{}}
		log.submit(request(1, reconfigure.Resume, "n1"))
		ended := log.work(t, &lost{waiter: &waiter{log: log.memory}})
		pass(5 * time.Minute)
		log.away(0)
		release, ok, err := log.Lead(t.Context())
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := <-ended; err != nil || log.begun() != 1 {
			t.Errorf("%d batches, error %v", log.begun(), err)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	})
}

// cut is a carrier whose batches the journal cuts short, after a while, one way or the other.
type cut struct {
	*waiter
	takes time.Duration
	err   error
	tries int
}

func (c *cut) Carry(ctx context.Context, number int64, requests []reconfigure.Request) ([]reconfigure.Outcome, error) {
	c.tries++
	time.Sleep(c.takes)
	if c.err != nil {
		return nil, c.err
	}
	return c.waiter.Carry(ctx, number, requests)
}

// TestABatchThatTheJournalCutsShortIsTriedAgainButNotForEver has it fail in the middle, where it takes no events, or at the end, where it takes no outcome.
func TestABatchThatTheJournalCutsShortIsTriedAgainButNotForEver(t *testing.T) {
	for name, mode := range map[string]reconfigure.Mode{"fresh": reconfigure.Resume, "held": reconfigure.Update} {
		for _, takes := range []time.Duration{0, time.Second, 15 * time.Minute} {
			t.Run(name+" "+takes.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := &shaky{memory: &memory{}}
					r := request(1, mode, "n1")
					r.Held = mode == reconfigure.Update
					log.submit(r)
					c := &cut{waiter: &waiter{log: log.memory}, takes: takes, err: errAway}
					began := time.Now()
					if err := <-log.work(t, c); !errors.Is(err, errAway) {
						t.Errorf("error %v", err)
					}
					if took := time.Since(began); took > time.Hour || c.tries < 2 || c.tries > 40 {
						t.Errorf("it ended after %s and %d tries", took, c.tries)
					}
					if waiting, _ := log.Pending(t.Context()); len(waiting) != 1 || log.leads || log.stands {
						t.Fatalf("waiting %+v, ended %+v, leads %t, watches %t", waiting, log.finished, log.leads, log.stands)
					}
					c.err = nil // the next call's worker
					if err := <-log.work(t, c); err != nil || len(log.finished) != 1 {
						t.Errorf("error %v, ended %+v", err, log.finished)
					}
				})
			})
		}
	}
}

func TestAnOutcomeThatCannotBeWrittenIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &shaky{memory: &memory{}}
		log.submit(request(1, reconfigure.Resume, "n1"))
		c := &cut{waiter: &waiter{log: log.memory}, takes: time.Minute}
		ended := log.work(t, c)
		pass(30 * time.Second)
		log.fails(time.Minute)
		if err := <-ended; err != nil || c.tries != 2 || len(log.finished) != 1 {
			t.Errorf("error %v, %d tries, ended %+v", err, c.tries, log.finished)
		}
	})
}

func TestWorkOnceDoesNotWaitForTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &shaky{memory: &memory{}}
		log.away(time.Minute)
		began := time.Now()
		if err := batch.WorkOnce(t.Context(), log, &waiter{log: log.memory}); !errors.Is(err, errAway) || time.Since(began) != 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestTwoTroublesWithABatchBetweenAreTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &shaky{memory: &memory{}}
		w := &waiter{log: log.memory, free: time.Now().Add(2 * time.Hour)}
		log.submit(request(1, reconfigure.Update, "n1"))
		ended := log.work(t, w)
		pass(time.Hour)
		for i := range 3 {
			log.away(6 * time.Minute)
			pass(7 * time.Minute)
			log.submit(request(2+i, reconfigure.Resume, "n2"))
			pass(20 * time.Second)
		}
		pass(2 * time.Hour)
		if err := <-ended; err != nil || len(log.finished) != 4 {
			t.Errorf("error %v, ended %+v", err, log.finished)
		}
	})
}

// quick is a log in which somebody does something after the look at what waits, and before the batch begins.
type quick struct {
	*memory
	meanwhile func()
}

func (q *quick) Begin(ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome) (int64, error) {
	if meanwhile := q.meanwhile; meanwhile != nil {
		q.meanwhile = nil
		meanwhile()
	}
	return q.memory.Begin(ctx, ids, undone...)
}

// That others come in between is none of the journal's troubles.
func TestWhatChangesJustBeforeABatchBeginsIsNoTrouble(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(*memory, context.CancelFunc)
		want      []string
		err       error
	}{
		"a pause":                            {func(m *memory, _ context.CancelFunc) { m.pause(true) }, nil, nil},
		"what would be undone is taken back": {func(m *memory, _ context.CancelFunc) { m.take1() }, []string{"suspend n1"}, nil},
		"the worker is to end":               {func(m *memory, end context.CancelFunc) { m.pause(true); end() }, nil, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				log := &memory{}
				log.submit(request(1, reconfigure.Resume, "n1"))
				log.submit(request(2, reconfigure.Suspend, "n1"))
				w := &waiter{log: log}
				told := batch.Trouble(func(err error, _ time.Duration) { t.Errorf("trouble: %v", err) })
				err := batch.Work(ctx, &quick{log, func() { tc.meanwhile(log, end) }}, w, poll, told)
				if err != nil && !errors.Is(err, tc.err) {
					t.Errorf("error %v", err)
				}
				if diff := cmp.Diff(tc.want, w.heard()); diff != "" {
					t.Errorf("carried out (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// take1 has the first request be taken back.
func (m *memory) take1() {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.finish(reconfigure.Outcome{Request: 1, Code: reconfigure.CodeCancelled})
}
