package batch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// notice is how soon a process that watches notices a new request. One look into the journal is cheap.
const notice = time.Second

// Tender looks after the cluster while nobody asks for anything of it.
type Tender struct {
	// Tend is called again and again by the one process that watches, while no batch of its own is at work. It looks when it is time for that, and may write requests
	// down, which are carried out next. It answers whether the process is to stay for the sake of the next look.
	Tend func(context.Context) (stay bool)
	// Always has the process stay in any case, as a service does: also behind another one that watches, whose place it then takes.
	Always bool
}

// Stay is Work that does not end when no request waits, as long as the tender has it stay: it keeps the watch, notices new requests within a second, and carries
// them out. The tender is at work while requests are held, too; a pause does not end the process.
func Stay(ctx context.Context, log Log, carrier Carrier, tender Tender, poll time.Duration, options ...Option) error {
	w := newWorker(log, carrier, poll, options)
	for {
		if err := Work(ctx, log, tended{carrier, tender}, poll, options...); err != nil {
			return err
		}
		again, err := tender.idle(ctx, w)
		if err == nil {
			w.trouble.over()
		} else if err = w.endure(ctx, err); err == nil {
			continue
		}
		if err != nil || !again {
			return err
		}
	}
}

// tended is a carrier whose process tends while it watches requests that are held.
type tended struct {
	Carrier
	tender Tender
}

func (t tended) Stirs(ctx context.Context, held []reconfigure.Request) (bool, error) {
	const patience = time.Minute // meanwhile nobody notices a new request
	tending, stop := context.WithTimeout(ctx, patience)
	defer stop()
	t.tender.Tend(tending)
	return t.Carrier.Stirs(ctx, held)
}

// idle watches while no request waits; false when there is nothing to stay for.
func (t Tender) idle(ctx context.Context, w *worker) (again bool, err error) {
	for {
		release, ok, err := w.log.Watch(ctx)
		switch {
		case err != nil, !ok && !t.Always:
			return false, err // the other one tends
		case ok:
			stay, err := t.watch(ctx, w)
			if err := errors.Join(err, release()); err != nil || stay {
				return stay, err
			}
			// Who held a request just now, and saw that somebody watches, has gone.
			waiting, err := w.waiting(ctx)
			return len(waiting) > 0, err
		}
		if err := rest(ctx); err != nil {
			return false, err
		}
		// The one that watches may be busy, or not know that its caller counts on this service.
		if waiting, err := w.waiting(ctx); err != nil || slices.ContainsFunc(waiting, fresh) {
			return true, err
		}
	}
}

// watch tends until a request waits; false when there is nothing to stay for. A look may take minutes, which nobody is to wait for.
func (t Tender) watch(ctx context.Context, w *worker) (stay bool, err error) {
	for {
		tending, stop := context.WithCancel(ctx)
		stays := make(chan bool, 1)
		go func() { stays <- t.Tend(tending) }()
		for looking := true; looking; {
			select {
			case stay = <-stays:
				looking = false
			case <-time.After(notice):
				if waiting, err := w.waiting(ctx); err != nil || len(waiting) > 0 {
					stop()
					<-stays
					return true, err
				}
			}
		}
		stop()
		if !stay && !t.Always {
			return false, nil
		}
		// Also before the first look: what waits may be in the hands of another process that leads.
		if err := rest(ctx); err != nil {
			return false, err
		}
		if waiting, err := w.waiting(ctx); err != nil || len(waiting) > 0 {
			return true, err
		}
	}
}

func rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(notice):
		return nil
	}
}
