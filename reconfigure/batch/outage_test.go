package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
)

// kind is a way in which nothing can be planned.
type kind int

const (
	typo  kind = iota // the declaration cannot be read
	login             // it can, but the cloud takes nobody in
	state             // Terraform's state cannot be read
)

// outage is the product's pipeline over a simulated cluster, at times without a way to look.
type outage struct {
	world *enginetest.World
	kind  kind
	lock  sync.Mutex
	until time.Time
	why   string
	tries int
}

// blind is an engine that cannot look.
type blind struct {
	*engine.Engine
	err error
}

func (b blind) Observe(context.Context, func(map[string]reconfigure.NodeState) []reconfigure.Source) (reconfigure.Observation, error) {
	return reconfigure.Observation{}, b.err
}

// timed is declared with a real ResumeTimeout.
func timed() reconfigure.Cluster {
	c := declared()
	c.Slurm.ResumeTimeout = 15 * time.Minute
	return c
}

func (o *outage) pipeline() batch.Pipeline {
	return batch.Pipeline{Open: func(context.Context) (reconfigure.Cluster, batch.Engine, error) {
		o.lock.Lock()
		defer o.lock.Unlock()
		e := engine.New(timed(), o.world.Deps())
		if !time.Now().Before(o.until) {
			return timed(), e, nil
		}
		o.tries++
		switch err := errors.New(o.why); o.kind {
		case typo:
			return reconfigure.Cluster{}, nil, err
		case login:
			return timed(), nil, err
		default:
			return timed(), blind{e, err}, nil
		}
	}}
}

func (o *outage) set(d time.Duration, why string) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.until, o.why = time.Now().Add(d), why
}

func (o *outage) tried() int {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.tries
}

// newOutage has a cluster whose nodes p2 to p4 have instances, p2 and p3 of which Slurm gives up, and powers p5 up.
func newOutage(k kind, d time.Duration) *outage {
	w := enginetest.NewWorld(timed())
	w.Have("ctl", "p1", "p2", "p3", "p4")
	w.PowersDown("p2", "p3")
	w.PowersUp("p5")
	time.Sleep(time.Hour) // else the instances are newer than what is asked of them
	o := &outage{world: w, kind: k}
	o.set(d, "the cloud is away")
	return o
}

// now is a request that is made now.
func now(id int, m reconfigure.Mode, nodes ...string) reconfigure.Request {
	r := request(id, m, nodes...)
	r.Submitted = time.Now()
	if m == reconfigure.Update {
		r.DrainTimeout = 2 * time.Hour
	}
	return r
}

// heard is what callers are told.
func (m *memory) heard() []string {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.told)
}

// ends is the codes of the requests that have ended.
func (m *memory) ends() map[reconfigure.RequestID]reconfigure.Code {
	m.lock.Lock()
	defer m.lock.Unlock()
	codes := map[reconfigure.RequestID]reconfigure.Code{}
	for _, o := range m.finished {
		codes[o.Request] = o.Code
	}
	return codes
}

func (m *memory) outcome(id reconfigure.RequestID) reconfigure.Outcome {
	m.lock.Lock()
	defer m.lock.Unlock()
	i := slices.IndexFunc(m.finished, func(o reconfigure.Outcome) bool { return o.Request == id })
	if i < 0 {
		return reconfigure.Outcome{}
	}
	return m.finished[i]
}

func (m *memory) wantEnds(t *testing.T, want map[reconfigure.RequestID]reconfigure.Code) {
	t.Helper()
	if diff := cmp.Diff(want, m.ends()); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
}

type ends = map[reconfigure.RequestID]reconfigure.Code

func TestRequestsSurviveAnOutage(t *testing.T) {
	for name, k := range map[string]kind{"a slip in the declaration": typo, "the cloud": login, "Terraform's state": state} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, log := newOutage(k, 10*time.Minute), &memory{}
				for _, r := range []reconfigure.Request{now(1, reconfigure.Suspend, "p2"), now(2, reconfigure.Resume, "p5"), now(3, reconfigure.Update, "p4")} {
					log.submit(r)
				}
				go func() {
					if err := batch.Work(t.Context(), log, o.pipeline(), poll); err != nil {
						t.Error(err)
					}
				}()
				pass(9 * time.Minute)
				log.wantEnds(t, ends{})
				if release, free, _ := log.Lead(t.Context()); !free {
					t.Error("somebody leads, and only waits")
				} else if err := release(); err != nil {
					t.Error(err)
				}
				waiting, _ := log.Pending(t.Context())
				for _, r := range waiting {
					if diff := cmp.Diff([]reconfigure.Wait{{Request: r.ID, Reason: "the cloud is away"}}, r.Waits); diff != "" || !r.Held {
						t.Errorf("request %s (-want +got):\n%s", r.ID, diff)
					}
				}
				want := []string{
					"request 2, 3 cannot be planned now, and is tried again: the cloud is away", // the suspend had given way to the resume
					"request 1 cannot be planned now, and is tried again: the cloud is away",
				}
				if diff := cmp.Diff(want, log.heard()); diff != "" || log.begun() != 2 {
					t.Errorf("%d batches; told (-want +got):\n%s", log.begun(), diff)
				}
				if n := o.tried(); n < 5 || n > 40 {
					t.Errorf("it was tried %d times in 9 minutes", n)
				}
				pass(5 * time.Minute)
				log.wantEnds(t, ends{1: reconfigure.CodeDone, 2: reconfigure.CodeDone, 3: reconfigure.CodeDone})
			})
		})
	}
}

func TestEachRequestHasItsOwnPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, log := newOutage(login, 30*time.Hour), &memory{}
		for _, r := range []reconfigure.Request{
			now(1, reconfigure.Suspend, "p2"), now(2, reconfigure.Resume, "p5"), now(3, reconfigure.Update, "p4"), now(4, reconfigure.Shrink, "p3"), now(5, reconfigure.Deploy),
		} {
			log.submit(r)
		}
		go func() {
			if err := batch.Work(t.Context(), log, o.pipeline(), poll); err != nil {
				t.Error(err)
			}
		}()
		pass(time.Second)
		log.wantEnds(t, ends{4: reconfigure.CodeFailed, 5: reconfigure.CodeFailed})
		pass(14 * time.Minute)
		log.wantEnds(t, ends{4: reconfigure.CodeFailed, 5: reconfigure.CodeFailed})
		o.set(29*time.Hour, "the cloud is on fire")
		pass(5 * time.Minute)
		log.wantEnds(t, ends{2: reconfigure.CodeFailed, 4: reconfigure.CodeFailed, 5: reconfigure.CodeFailed})
		if got := log.outcome(2).Error; got != "tried again and again for 15m0s, and at last: the cloud is on fire" {
			t.Errorf("error %q", got)
		}
		pass(2 * time.Hour)
		log.wantEnds(t, ends{2: reconfigure.CodeFailed, 3: reconfigure.CodeFailed, 4: reconfigure.CodeFailed, 5: reconfigure.CodeFailed})
		// Slurm goes on calling; a deploy fails as fast as before, and nothing is given up for it.
		log.submit(now(6, reconfigure.Suspend, "p3"))
		log.submit(now(7, reconfigure.Deploy))
		if err := batch.Work(t.Context(), log, o.pipeline(), poll); err != nil {
			t.Error(err)
		}
		if got := log.ends()[7]; got != reconfigure.CodeFailed {
			t.Errorf("the deploy ended as %q", got)
		}
		pass(29 * time.Hour)
		if all := log.ends(); all[1] != reconfigure.CodeDone || all[6] != reconfigure.CodeDone || len(all) != 7 {
			t.Errorf("ends %v", all)
		}
		if n := log.begun(); n > 12 {
			t.Errorf("%d batches", n)
		}
	})
}

func TestWithoutADeclarationAResumeHasAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, log := newOutage(typo, 3*time.Hour), &memory{}
		log.submit(now(1, reconfigure.Resume, "p5"))
		start := time.Now()
		if err := batch.Work(t.Context(), log, o.pipeline(), poll); err != nil {
			t.Fatal(err)
		}
		log.wantEnds(t, ends{1: reconfigure.CodeFailed})
		if took := time.Since(start); took < time.Hour || took > time.Hour+4*time.Minute {
			t.Errorf("it was given up after %s", took)
		}
	})
}

// Slurm asks once, and may fall silent then.
func TestASuspendWaitsUntilSlurmAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, log := newOutage(login, 0), &memory{}
		o.world.Order(enginetest.SlurmSilent)
		log.submit(now(1, reconfigure.Suspend, "p2", "p3", "p9"))
		go func() {
			if err := batch.Work(t.Context(), log, o.pipeline(), poll); err != nil {
				t.Error(err)
			}
		}()
		pass(30 * time.Hour)
		log.wantEnds(t, ends{})
		if n := log.begun(); n != 1 {
			t.Errorf("%d batches, although nothing could be done", n)
		}
		o.world.Clear(enginetest.SlurmSilent)
		pass(time.Minute)
		log.wantEnds(t, ends{1: reconfigure.CodeDone})
		if diff := cmp.Diff([]string{"apply delete p[2-3]"}, o.world.Calls()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// Only a plan can give back what was drained, so an outage does not end such a request, however long it lasts.
func TestWhatWasDrainedIsUndrainedAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, log := newOutage(login, 0), &memory{}
		o.world.StartJob("p4")
		r := now(1, reconfigure.Update, "p4")
		log.submit(r)
		go func() {
			if err := batch.Work(t.Context(), log, o.pipeline(), poll); err != nil {
				t.Error(err)
			}
		}()
		pass(time.Hour)
		o.set(9*time.Hour, "the cloud is away")
		pass(8 * time.Hour)
		log.wantEnds(t, ends{})
		waiting, _ := log.Pending(t.Context())
		want := []reconfigure.Wait{{Node: "p4", Request: 1, Reason: "its jobs have to end first"}, {Request: 1, Reason: "the cloud is away"}}
		if diff := cmp.Diff(want, waiting[0].Waits); diff != "" {
			t.Errorf("waits (-want +got):\n%s", diff)
		}
		pass(2 * time.Hour)
		log.wantEnds(t, ends{1: reconfigure.CodeFailed})
		if diff := cmp.Diff([]string{"drain p4: update", "undrain p4"}, o.world.Calls()); diff != "" || len(o.world.Lost()) > 0 {
			t.Errorf("lost %v; calls (-want +got):\n%s", o.world.Lost(), diff)
		}
	})
}

func TestAWorkerThatIsToEndWhileItLooksLeavesTheRequestAsItIs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	log := &memory{}
	log.submit(request(1, reconfigure.Deploy))
	p := batch.Pipeline{Open: func(ctx context.Context) (reconfigure.Cluster, batch.Engine, error) {
		cancel()
		return reconfigure.Cluster{}, nil, fmt.Errorf("log in: %w", ctx.Err())
	}}
	if err := batch.Work(ctx, log, p, poll); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if waiting, _ := log.Pending(t.Context()); len(waiting) != 1 || waiting[0].Held {
		t.Errorf("waiting %+v, ended %+v", waiting, log.finished)
	}
}

// storm is a random sequence of calls, outages and deaths of workers.
type storm struct {
	kind  kind
	steps []step
}

type step struct {
	mode    reconfigure.Mode
	node    string
	outage  time.Duration // begins before the call; 0: none
	kills   bool          // the workers that there are die before the call
	seconds int           // until the next one
}

func drawStorm(t *rapid.T) storm {
	s := storm{kind: kind(rapid.IntRange(0, 2).Draw(t, "kind"))}
	modes := []reconfigure.Mode{reconfigure.Suspend, reconfigure.Resume, reconfigure.Update, reconfigure.Deploy}
	for range rapid.IntRange(1, 8).Draw(t, "requests") {
		s.steps = append(s.steps, step{
			mode: rapid.SampledFrom(modes).Draw(t, "mode"), node: rapid.SampledFrom([]string{"p2", "p3", "p4", "p5"}).Draw(t, "node"),
			outage: time.Duration(max(0, rapid.IntRange(-240, 240).Draw(t, "minutes"))) * time.Minute,
			kills:  rapid.IntRange(0, 3).Draw(t, "kills") == 3, seconds: rapid.IntRange(0, 5400).Draw(t, "seconds"),
		})
	}
	return s
}

// blow has a storm pass over a cluster, until nobody is at work any more.
func (s storm) blow(t *testing.T, log *memory) {
	o := newOutage(s.kind, 0)
	var workers sync.WaitGroup
	ctx, kill := context.WithCancel(t.Context())
	for i, next := range s.steps {
		if next.outage > 0 {
			o.set(next.outage, fmt.Sprintf("outage %d", i))
		}
		if next.kills {
			kill()
			synctest.Wait()
			ctx, kill = context.WithCancel(t.Context())
		}
		r := now(i+1, next.mode, next.node)
		if next.mode == reconfigure.Deploy {
			r.Nodes = reconfigure.Request{}.Nodes
		}
		log.submit(r)
		workers.Go(func() {
			if err := batch.Work(ctx, log, o.pipeline(), poll); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
		pass(time.Duration(next.seconds) * time.Second)
	}
	workers.Wait()
	kill()
}

func TestNoRequestIsLostInOutages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, log := drawStorm(rt), &memory{}
		synctest.Test(t, func(t *testing.T) { s.blow(t, log) })
		seen := map[reconfigure.RequestID]bool{}
		for _, o := range log.finished {
			if seen[o.Request] {
				rt.Errorf("request %s has two outcomes", o.Request)
			}
			seen[o.Request] = true
			if s.steps[o.Request-1].mode == reconfigure.Suspend && o.Error != "" {
				rt.Errorf("suspend %s was given up: %s", o.Request, o.Error)
			}
		}
		if len(seen) != len(s.steps) || log.leads || log.stands {
			rt.Errorf("%d of %d requests have ended; lead %t, watch %t", len(seen), len(s.steps), log.leads, log.stands)
		}
	})
}
