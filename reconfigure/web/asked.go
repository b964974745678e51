package web

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

const (
	// fresh is the time for which the answers of the sources are used again. While a page is open, they are asked again
	// after it.
	fresh = 30 * time.Second
	// patience is how long the first page waits for the sources. Later ones show the last answers.
	patience = 300 * time.Millisecond
)

// asked has the last answers of the sources. They are asked in the background, while pages are open.
type asked struct {
	ctx context.Context
	ask func(ctx context.Context) (Answers, error)
	log *slog.Logger

	lock    sync.Mutex
	answers Answers
	at      time.Time     // of the answers; zero: there are none
	busy    chan struct{} // closed when the sources have answered; nil: they are not being asked
}

// last returns the last answers, and when they came.
func (a *asked) last() (Answers, time.Time) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.at.IsZero() {
		return Answers{Seen: unasked("it has not answered yet")}, a.at
	}
	return a.answers, a.at
}

// renew asks again in the background if the last answers are old. It returns whether there are any, and a channel that
// is closed when the sources have answered; nil if they are not being asked.
func (a *asked) renew() (known bool, busy chan struct{}) {
	a.lock.Lock()
	defer a.lock.Unlock()
	known = !a.at.IsZero()
	if a.busy == nil && (!known || time.Since(a.at) >= fresh) && a.ctx.Err() == nil {
		a.busy = make(chan struct{})
		go a.again(a.busy)
	}
	return known, a.busy
}

// get returns the last answers. If they are old, it asks again in the background.
func (a *asked) get(ctx context.Context) Answers {
	if known, busy := a.renew(); !known && busy != nil {
		select {
		case <-busy:
		case <-time.After(patience):
		case <-ctx.Done():
		}
	}
	answers, _ := a.last()
	return answers
}

func (a *asked) again(done chan struct{}) {
	answers, err := a.ask(a.ctx)
	if err != nil && a.ctx.Err() == nil {
		a.log.WarnContext(a.ctx, "the sources could not be asked", "reason", err.Error())
		answers = Answers{Seen: unasked(err.Error())}
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	a.answers, a.at, a.busy = answers, time.Now(), nil
	close(done)
}

// unasked returns a snapshot without any answer.
func unasked(why string) snapshot.Snapshot {
	missing := map[snapshot.System]string{}
	for _, source := range []snapshot.System{snapshot.Cloud, snapshot.Terraform, snapshot.Slurm} {
		missing[source] = why
	}
	return snapshot.Snapshot{Missing: missing}
}

// cached keeps a value that takes long to compute for a minute.
type cached[T any] struct {
	lock  sync.Mutex
	at    time.Time
	value T
}

// get returns the value, and computes it if it is old. An error is not kept.
func (c *cached[T]) get(compute func() (T, error)) (T, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if !c.at.IsZero() && time.Since(c.at) < time.Minute {
		return c.value, nil
	}
	value, err := compute()
	if err == nil {
		c.value, c.at = value, time.Now()
	}
	return value, err
}
