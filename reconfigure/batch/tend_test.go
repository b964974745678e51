package batch_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
)

// tending is a tender of a log, which looks once a minute until it is told to let the process go.
type tending struct {
	log   *memory
	looks atomic.Int32
	next  time.Time
	left  atomic.Bool
	find  func() // at each look
}

func (d *tending) tend(t *testing.T) batch.Tender {
	return batch.Tender{Tend: func(context.Context) bool {
		d.log.lock.Lock()
		stands := d.log.stands
		d.log.lock.Unlock()
		if !stands {
			t.Error("it tends, and does not watch")
		}
		if !time.Now().Before(d.next) {
			d.next = time.Now().Add(time.Minute)
			d.looks.Add(1)
			if d.find != nil {
				d.find()
			}
		}
		return !d.left.Load()
	}}
}

// stay starts a process that stays, and gives how to kill it and how to wait for its end.
func stay(t *testing.T, log batch.Log, w batch.Carrier, tender batch.Tender) (kill context.CancelFunc, ended func() bool, wait func()) {
	ctx, kill := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var over atomic.Bool
	group.Go(func() {
		if err := batch.Stay(ctx, log, w, tender, poll); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		over.Store(true)
	})
	return kill, over.Load, group.Wait
}

func TestAWorkerThatStaysNoticesRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		w, d := &waiter{log: log}, &tending{log: log}
		_, ended, wait := stay(t, log, w, d.tend(t))
		pass(time.Hour)
		if n := d.looks.Load(); n < 59 || n > 61 || ended() || log.begun() != 0 {
			t.Fatalf("after an hour: %d looks, ended %t, %d batches", n, ended(), log.begun())
		}
		log.submit(request(1, reconfigure.Resume, "n1"))
		pass(3 * time.Second) // a second to notice it, and one in which others may arrive
		if diff := cmp.Diff([]string{"resume n1"}, w.heard()); diff != "" || ended() {
			t.Errorf("ended %t; carried out (-want +got):\n%s", ended(), diff)
		}
		d.left.Store(true)
		wait()
		if log.leads || log.stands {
			t.Error("it leads or watches still")
		}
	})
}

// A look that takes long, since a server does not go for instance, is broken off.
func TestALookHoldsNoRequestUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		w := &waiter{log: log}
		tender := batch.Tender{Always: true, Tend: func(ctx context.Context) bool {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Minute):
			}
			return true
		}}
		kill, _, wait := stay(t, log, w, tender)
		pass(2 * time.Minute)
		log.submit(request(1, reconfigure.Resume, "n1"))
		pass(3 * time.Second)
		if diff := cmp.Diff([]string{"resume n1"}, w.heard()); diff != "" {
			t.Errorf("carried out (-want +got):\n%s", diff)
		}
		kill()
		wait()
	})
}

func TestWhatIsTendedIsARequestLikeAnyOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		w, d := &waiter{log: log}, &tending{log: log}
		d.find = func() {
			if n := d.looks.Load(); n == 2 {
				log.submit(request(1, reconfigure.Suspend, "n1"))
			}
		}
		kill, _, wait := stay(t, log, w, d.tend(t))
		pass(10 * time.Minute)
		if diff := cmp.Diff([]string{"suspend n1"}, w.heard()); diff != "" {
			t.Errorf("carried out (-want +got):\n%s", diff)
		}
		if n := d.looks.Load(); n < 9 {
			t.Errorf("%d looks in ten minutes", n)
		}
		kill()
		wait()
	})
}

func TestItTendsWhileARequestIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		w, d := &waiter{log: log, free: time.Now().Add(time.Hour)}, &tending{log: log}
		log.submit(request(1, reconfigure.Update, "n1"))
		kill, _, wait := stay(t, log, w, d.tend(t))
		pass(30 * time.Minute)
		if n := d.looks.Load(); n < 25 || len(w.heard()) > 0 {
			t.Errorf("%d looks within half an hour; carried out: %v", n, w.heard())
		}
		log.submit(request(2, reconfigure.Resume, "n2"))
		pass(3 * time.Second)
		if diff := cmp.Diff([]string{"resume n2"}, w.heard()); diff != "" {
			t.Errorf("carried out (-want +got):\n%s", diff)
		}
		kill()
		wait()
	})
}

func TestOneProcessStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		w, first, second, third := &waiter{log: log}, &tending{log: log}, &tending{log: log}, &tending{log: log}
		kill, _, wait := stay(t, log, w, first.tend(t))
		pass(time.Minute)
		_, ended, _ := stay(t, log, w, second.tend(t))
		always := third.tend(t)
		always.Always = true
		killThird, endedThird, waitThird := stay(t, log, w, always)
		pass(time.Hour)
		if !ended() || endedThird() || second.looks.Load()+third.looks.Load() > 0 {
			t.Errorf("the second process has ended: %t, with %d looks; the one that is always to stay: %t, %d", ended(), second.looks.Load(), endedThird(), third.looks.Load())
		}
		if n := log.begun(); n > 0 {
			t.Errorf("%d batches for nothing", n)
		}
		kill()
		wait()
		third.left.Store(true) // it stays all the same
		pass(10 * time.Minute)
		if n := third.looks.Load(); endedThird() || n < 9 {
			t.Errorf("the one that is always to stay has ended: %t, with %d looks", endedThird(), n)
		}
		killThird()
		waitThird()
	})
}

// leads counts how often the lead is asked for: each time it is written down.
type leads struct {
	*memory
	asked atomic.Int32
}

func (l *leads) Lead(ctx context.Context) (func() error, bool, error) {
	l.asked.Add(1)
	return l.memory.Lead(ctx)
}

func TestAWorkerThatStaysBeginsNothingDuringAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &leads{memory: &memory{}}
		w, d := &waiter{log: log.memory}, &tending{log: log.memory}
		log.pause(true)
		kill, ended, wait := stay(t, log, w, d.tend(t))
		log.submit(request(1, reconfigure.Resume, "n1"))
		pass(time.Hour)
		if n := log.asked.Load(); ended() || len(w.heard()) > 0 || n > 1 {
			t.Fatalf("ended: %t; the lead was asked for %d times; carried out: %v", ended(), n, w.heard())
		}
		log.pause(false)
		pass(3 * time.Second)
		if diff := cmp.Diff([]string{"resume n1"}, w.heard()); diff != "" {
			t.Errorf("carried out (-want +got):\n%s", diff)
		}
		kill()
		wait()
	})
}

func TestWhatIsLeftToOneThatEndsIsNotOverlooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		w, d := &waiter{log: log}, &tending{log: log}
		d.left.Store(true)
		held := request(1, reconfigure.Update, "n1")
		held.Held = true
		_, _, wait := stay(t, &leaver{memory: log, meanwhile: func() { log.submit(held) }}, w, d.tend(t))
		wait()
		if diff := cmp.Diff([]string{"update n1"}, w.heard()); diff != "" {
			t.Errorf("carried out (-want +got):\n%s", diff)
		}
		if waiting, _ := log.Pending(t.Context()); len(waiting) > 0 {
			t.Errorf("%v wait still", waiting)
		}
	})
}

// TestWhoeverElseLeadsIsLeftToIt has another process lead for an hour: the one that stays does not get into its way, and takes what comes later.
func TestWhoeverElseLeadsIsLeftToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memory{}
		w, d := &waiter{log: log}, &tending{log: log}
		release, _, err := log.Lead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		log.submit(request(1, reconfigure.Resume, "n1"))
		kill, ended, wait := stay(t, log, w, d.tend(t))
		pass(time.Hour)
		if ended() || len(w.heard()) > 0 || d.looks.Load() < 59 {
			t.Fatalf("ended: %t; carried out: %v; %d looks", ended(), w.heard(), d.looks.Load())
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		if diff := cmp.Diff([]string{"resume n1"}, w.heard()); diff != "" {
			t.Errorf("carried out (-want +got):\n%s", diff)
		}
		kill()
		wait()
	})
}
