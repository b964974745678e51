// Package batch is group commit for requests: many callers write down what they wish, one worker takes all that waits, has it planned and carried out
// once, and each caller gets its own outcome. What comes meanwhile is the next batch; it begins as soon as the one before leaves Terraform to it.
package batch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Log is the part of the journal that a worker and its callers meet in.
type Log interface {
	// Pending is the requests without an outcome, oldest first, with what batches have left of them.
	Pending(ctx context.Context) ([]reconfigure.Request, error)
	// Begin opens a batch that carries the requests, and undoes others, which get their outcomes with it. It MUST be an error, and nothing begun, where one of them
	// has its outcome already, where one that is to be undone has begun, and during a pause.
	Begin(ctx context.Context, ids []reconfigure.RequestID, undone ...reconfigure.Outcome) (int64, error)
	// Finish writes a request's outcome; it MUST refuse a second one.
	Finish(ctx context.Context, o reconfigure.Outcome) error
	// Hold notes what a request waits for, in the place of what it noted before, and the verdicts that there are. It stays pending, as one that is held.
	Hold(ctx context.Context, o reconfigure.Outcome) error
	// Record writes events of a batch that has begun.
	Record(ctx context.Context, events ...reconfigure.Event) error
	// Lead answers false while another process leads. The lead MUST end with the process that holds it.
	Lead(ctx context.Context) (release func() error, ok bool, err error)
	// WhileLeading is ctx until the lead is lost, which may happen to a process that lives where the lock is not on this host.
	WhileLeading(ctx context.Context) (context.Context, context.CancelFunc)
	// Watch answers false while another process keeps an eye on the requests that are held. It hinders nobody, and MUST end with the process.
	Watch(ctx context.Context) (release func() error, ok bool, err error)
	// Paused is an administrator's word that nothing is to be begun; false where there is none.
	Paused(ctx context.Context) (reconfigure.Pause, bool, error)
}

// Carrier carries out the requests of one batch.
type Carrier interface {
	// Carry gives an outcome for each request but those that it did not come to the end with, because ctx has ended, or with the error, of the journal: they stay as
	// they are, and are tried again. It MUST leave the world as it is from the moment on at which ctx ends for ErrLeadLost. It calls made, once at most, when the next
	// batch may begin, beside what is left to do of this one; that it returns tells the same.
	Carry(ctx context.Context, batch int64, requests []reconfigure.Request, made func()) ([]reconfigure.Outcome, error)
	// Stirs tells whether a batch of nothing but held requests would do anything, or would have anything new to say of them. It MUST NOT change anything. An error
	// is that nobody can look now; even then a batch may have something to say, for instance that the time for a request is over.
	Stirs(ctx context.Context, held []reconfigure.Request) (bool, error)
}

// Work leads, and carries out batches until no request waits, and all that began has ended. It returns at once where another process leads: that one looks for new requests after it
// has given up the lead, so that none which was written down before is overlooked.
//
// Requests that are held may be so for a day: until jobs have ended, or the cloud answers again. Nobody leads meanwhile: one process stays and looks, after each
// pause of poll, and after longer and longer ones while nobody can look, whether they can go on. When it dies, the next call's worker takes its place.
//
// While there is a pause, no batch begins, and Work returns as if no request waited. Whoever ends the pause MUST start a worker afterwards.
//
// An error of the journal, the loss of the lead among them, ends it only when it lasts.
func Work(ctx context.Context, log Log, carrier Carrier, poll time.Duration, options ...Option) error {
	w := newWorker(log, carrier, poll, options)
	for stirred := false; ; {
		goesOn, err := w.lead(ctx, stirred)
		stirred = false
		if goesOn && err == nil {
			goesOn, err = w.watch(ctx)
			stirred = goesOn
		}
		if err != nil {
			err = w.endure(ctx, err)
			goesOn = true
		}
		if err != nil || !goesOn {
			return err
		}
	}
}

// WorkOnce is Work that does not stay, neither for held requests nor for the journal: it carries out those that can go on by now, together with the others, and returns.
func WorkOnce(ctx context.Context, log Log, carrier Carrier, options ...Option) error {
	w := newWorker(log, carrier, time.Second, options)
	held, err := w.waiting(ctx)
	if err != nil {
		return err
	}
	for stirred := len(held) > 0 && w.stirs(ctx, together(held)); ; stirred = false {
		led, err := w.lead(ctx, stirred)
		if err != nil || !led {
			return err
		}
		if waiting, err := w.waiting(ctx); err != nil || !slices.ContainsFunc(together(waiting), fresh) {
			return err
		}
	}
}

// DefaultWindow is how long a worker waits for requests that arrive together where nobody says otherwise.
const DefaultWindow = time.Second

// Option is something that a worker can do without.
type Option func(*worker)

// Window is how long the worker waits for requests that arrive together. It is asked whenever there are some.
func Window(of func() time.Duration) Option { return func(w *worker) { w.window = of } }

// Trouble hears of errors that the worker outlives, and how long it pauses for each.
func Trouble(tell func(err error, pause time.Duration)) Option {
	return func(w *worker) { w.tell = tell }
}

// worker is one process's part in it.
type worker struct {
	log     Log
	carrier Carrier
	poll    time.Duration
	window  func() time.Duration
	tell    func(err error, pause time.Duration)
	pauses  *backoff.ExponentialBackOff
	next    time.Time // when the next look at held requests is due
	trouble trouble
}

func newWorker(log Log, carrier Carrier, poll time.Duration, options []Option) *worker {
	w := &worker{
		log: log, carrier: carrier, poll: poll, pauses: pauses(poll), trouble: newTrouble(),
		window: func() time.Duration { return DefaultWindow }, tell: func(error, time.Duration) {},
	}
	for _, set := range options {
		set(w)
	}
	return w
}

// lead takes the lead, carries out what waits, and gives it up; false where another process leads.
func (w *worker) lead(ctx context.Context, stirred bool) (led bool, err error) {
	release, led, err := w.log.Lead(ctx)
	if err != nil || !led {
		return false, err
	}
	leading, stop := w.log.WhileLeading(ctx)
	err = newShift(w, stirred).work(leading)
	stop()
	return true, errors.Join(err, release())
}

// waiting is the requests that something could be begun for: those without an outcome, and none of them during a pause. Whoever ends a pause starts a worker; where
// that finds another one leading or watching still, it leaves the requests to it. So both look here once more after they have given that up.
func (w *worker) waiting(ctx context.Context) ([]reconfigure.Request, error) {
	if _, paused, err := w.log.Paused(ctx); err != nil || paused {
		return nil, err
	}
	return w.log.Pending(ctx)
}

// pauses is how long to wait after each failed look at the world. It is one process a cluster that looks, so what grows is not for the cloud's sake, but for that
// of logs and locks; an administrator who has mended something does not want to wait for long. The jitter is for clouds with many clusters.
func pauses(poll time.Duration) *backoff.ExponentialBackOff {
	p := backoff.NewExponentialBackOff()
	p.InitialInterval, p.MaxInterval = poll, max(poll, 2*time.Minute)
	return p
}

// watch stays while requests are held. It returns true when there may be something to do, or somebody who knows that this process watched may have left something
// to it; false where another process watches, and when no request waits.
func (w *worker) watch(ctx context.Context) (again bool, err error) {
	waiting, err := w.waiting(ctx)
	if err != nil || len(waiting) == 0 {
		return false, err
	}
	release, ok, err := w.log.Watch(ctx)
	if err != nil || !ok {
		// The one that watches may have looked before the newest request came.
		return err == nil && slices.ContainsFunc(together(waiting), fresh), err
	}
	defer func() { err = errors.Join(err, release()) }()
	for began := time.Now(); ; {
		waiting, err := w.waiting(ctx)
		// After the last one there is another look without the watch: who held a request just now, and saw that somebody watches, has gone.
		if err != nil || len(waiting) == 0 {
			return err == nil, err
		}
		requests := together(waiting)
		if slices.ContainsFunc(requests, fresh) || w.stirs(ctx, requests) {
			return true, nil
		}
		if time.Since(began) > calm {
			w.trouble.over()
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(min(notice, w.poll, time.Until(w.next))): // a new request comes at any time
		}
	}
}

// stirs looks, when it is time for it.
func (w *worker) stirs(ctx context.Context, held []reconfigure.Request) bool {
	if time.Now().Before(w.next) {
		return false
	}
	stirs, err := w.carrier.Stirs(ctx, held)
	if err != nil {
		w.next = time.Now().Add(w.pauses.NextBackOff())
		return stirs
	}
	w.pauses.Reset()
	w.next = time.Now().Add(w.poll)
	return stirs
}

// fresh tells that a request was in no batch yet that would have held it.
func fresh(r reconfigure.Request) bool { return !r.Held }

func ids(requests []reconfigure.Request) []reconfigure.RequestID {
	all := make([]reconfigure.RequestID, len(requests))
	for i, r := range requests {
		all[i] = r.ID
	}
	return all
}

// together is the requests that would go into the next batch.
func together(waiting []reconfigure.Request) []reconfigure.Request {
	return Next(waiting, nil, time.Now()).Together
}

// overtaken tells that what was to begin has changed: somebody has paused, or a request waits no more, since its caller has thought better of it. The others must not
// suffer from that.
func (w *worker) overtaken(ctx context.Context, next Selection) bool {
	if _, paused, err := w.log.Paused(ctx); err != nil || paused {
		return err == nil
	}
	waiting, err := w.log.Pending(ctx)
	if err != nil {
		return false
	}
	chosen := ids(next.Together)
	for _, o := range next.Undone {
		chosen = append(chosen, o.Request)
	}
	left := ids(waiting)
	return slices.ContainsFunc(chosen, func(id reconfigure.RequestID) bool { return !slices.Contains(left, id) })
}

// settle writes down what became of the requests of a batch, and then tells what is new about those that wait.
func (w *worker) settle(ctx context.Context, batch int64, requests []reconfigure.Request, outcomes []reconfigure.Outcome) error {
	for _, o := range outcomes {
		write := w.log.Finish
		if len(o.Waiting) > 0 {
			write = w.log.Hold
		}
		o.Finished = time.Now()
		if err := write(ctx, o); err != nil {
			return err
		}
	}
	// It was looked just now, in vain: there is no need to look again at once.
	if slices.ContainsFunc(outcomes, func(o reconfigure.Outcome) bool { return slices.ContainsFunc(o.Waiting, unplannable) }) {
		w.next = time.Now().Add(w.pauses.NextBackOff())
	}
	if told := notes(batch, requests, outcomes); len(told) > 0 {
		return w.log.Record(ctx, told...)
	}
	return nil
}
