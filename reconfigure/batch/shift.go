package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// shift is what a worker does while it leads. One batch at a time is being made; those before it, which need Terraform no more, are on their way beside it. The shift
// alone talks to the journal about requests; the flights only tell it how far they are.
type shift struct {
	*worker
	flights  []*flight // the newest one last
	stirred  bool      // a batch of nothing but held requests is worth its while
	gathered time.Time // when those that arrive together are there; zero: nobody waits for them
	problem  error     // why nothing begins any more
	pause    time.Time // until when nothing begins, since the journal has failed

	lock   sync.Mutex
	landed []*flight
	signal chan struct{} // some flight is further than it was
}

// flight is a batch on its way. What becomes of it, and whether it is made, is told under the shift's lock.
type flight struct {
	number   int64
	requests []reconfigure.Request
	made     bool
	outcomes []reconfigure.Outcome
	err      error
}

func newShift(w *worker, stirred bool) *shift {
	return &shift{worker: w, stirred: stirred, signal: make(chan struct{}, 1)}
}

// work carries out batches until only held requests are left, and every batch has ended. Held requests go along with others; a batch of their own is worth its
// while when they have stirred.
func (s *shift) work(ctx context.Context) error {
	for {
		s.land(ctx)
		pause := s.begin(ctx)
		if len(s.flights) == 0 && pause == 0 {
			return s.problem
		}
		s.attend(ctx, pause)
	}
}

// begin begins the next batch if there is one, and it may begin. It answers how long to wait until the next look, unless a flight gives a sign before; 0: for as
// long as that takes.
func (s *shift) begin(ctx context.Context) (pause time.Duration) {
	if s.problem == nil {
		s.problem = context.Cause(ctx)
	}
	if s.problem != nil || s.making() {
		return 0
	}
	if rest := time.Until(s.pause); rest > 0 {
		return rest
	}
	waiting, err := s.waiting(ctx)
	if err != nil {
		return s.suffer(ctx, err)
	}
	const look = time.Second // callers whose workers see that somebody leads leave their requests to us
	if len(s.flights) > 0 {
		pause = look
	}
	next := Next(waiting, s.flying(), time.Now())
	if len(next.Together) == 0 || !s.stirred && !slices.ContainsFunc(next.Together, fresh) {
		s.gathered = time.Time{}
		return pause
	}
	if rest := s.rest(next.Together); rest > 0 {
		return rest
	}
	number, err := s.log.Begin(ctx, ids(next.Together), next.Undone...)
	switch {
	case err != nil && s.overtaken(ctx, next):
		return s.begin(ctx)
	case err != nil:
		return s.suffer(ctx, err)
	}
	s.stirred, s.gathered = false, time.Time{}
	s.launch(ctx, &flight{number: number, requests: next.Together})
	return 0
}

// suffer has an error of the journal keep new batches from beginning: for a while, as long as others are under way, since they may be so for long and the error not;
// else it is up to the worker. It answers how long that is.
func (s *shift) suffer(ctx context.Context, err error) (pause time.Duration) {
	if len(s.flights) == 0 || ctx.Err() != nil || !s.trouble.bearable(time.Now()) {
		s.problem = errors.Join(s.problem, err)
		return 0
	}
	pause = s.trouble.pauses.NextBackOff()
	s.pause = time.Now().Add(pause)
	s.worker.tell(err, pause)
	return pause
}

// rest is how long to wait still for requests that go along with these. Once that is over it does not begin again for those that came last.
func (s *shift) rest(requests []reconfigure.Request) time.Duration {
	now := time.Now()
	rest := lull(requests, s.window(), now)
	switch {
	case rest <= 0:
		return 0
	case s.gathered.IsZero():
		s.gathered = now.Add(rest)
	}
	return s.gathered.Sub(now)
}

// launch has a batch carried out beside those that are under way.
func (s *shift) launch(ctx context.Context, f *flight) {
	s.flights = append(s.flights, f)
	go func() {
		var (
			outcomes []reconfigure.Outcome
			err      error
		)
		defer func() { // whatever becomes of it: who waits for its end must not wait for ever
			s.tell(func() { f.made, f.outcomes, f.err, s.landed = true, outcomes, err, append(s.landed, f) })
		}()
		outcomes, err = s.carrier.Carry(ctx, f.number, f.requests, func() { s.tell(func() { f.made = true }) })
	}()
}

// tell notes how far a flight is. It never waits for the shift.
func (s *shift) tell(note func()) {
	s.lock.Lock()
	note()
	s.lock.Unlock()
	select {
	case s.signal <- struct{}{}:
	default: // there is a sign already
	}
}

// attend waits until a flight gives a sign, the pause is over, where there is one, or nothing is to begin any more.
func (s *shift) attend(ctx context.Context, pause time.Duration) {
	var over <-chan time.Time
	if pause > 0 {
		over = time.After(pause)
	}
	var ended <-chan struct{}
	if s.problem == nil {
		ended = ctx.Done()
	}
	select {
	case <-s.signal:
	case <-over:
	case <-ended:
	}
}

// land settles what has come to its end, also when the worker is to end: what is done must be told.
func (s *shift) land(ctx context.Context) {
	s.lock.Lock()
	landed := s.landed
	s.landed = nil
	s.lock.Unlock()
	for _, f := range landed {
		s.flights = slices.DeleteFunc(s.flights, func(other *flight) bool { return other == f })
		err := errors.Join(f.err, s.settle(context.WithoutCancel(ctx), f.number, f.requests, f.outcomes))
		if err == nil {
			s.trouble.over()
		} else {
			s.suffer(ctx, err)
		}
		s.stirred = s.stirred || triesAgain(f.requests, f.outcomes)
	}
}

// making tells whether a batch needs to be alone still.
func (s *shift) making() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.ContainsFunc(s.flights, func(f *flight) bool { return !f.made })
}

// flying is the requests that are under way.
func (s *shift) flying() []reconfigure.Request {
	var all []reconfigure.Request
	for _, f := range s.flights {
		all = append(all, f.requests...)
	}
	return all
}
