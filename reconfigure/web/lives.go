package web

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

const (
	// known is how far back lives are kept in memory: a story looks back a week.
	known = 8 * 24 * time.Hour
	// settled is the time after its end at which a life no longer changes, nor comes to the journal late.
	settled = 30 * time.Minute
	// reread is the age at which the settled lives are read again.
	reread = 30 * time.Minute
)

// recent is a journal that keeps the settled lives of a week in memory: a large cluster has tens of thousands, and each
// story reads them.
type recent struct {
	Journal
	now func() time.Time

	lock   sync.Mutex
	ended  []reconfigure.Life // that ended before the cut
	cut    time.Time
	filled bool
}

// Lives returns the lives of instances that had not ended by that time, in the order of their creation.
func (r *recent) Lives(ctx context.Context, since time.Time) ([]reconfigure.Life, error) {
	now := r.now()
	if since.Before(now.Add(-known+reread)) || since.After(now.Add(-settled-reread)) {
		return r.Journal.Lives(ctx, since)
	}
	ended, cut, err := r.settled(ctx, now)
	if err != nil {
		return nil, err
	}
	lives, err := r.Journal.Lives(ctx, cut)
	for _, l := range ended {
		if !l.Removed.Before(since) {
			lives = append(lives, l)
		}
	}
	slices.SortFunc(lives, func(a, b reconfigure.Life) int {
		return cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Plan, b.Plan))
	})
	return lives, err
}

// settled returns the lives that ended before a cut, which it also returns.
func (r *recent) settled(ctx context.Context, now time.Time) ([]reconfigure.Life, time.Time, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.filled && now.Sub(r.cut) < settled+reread && !now.Before(r.cut) {
		return r.ended, r.cut, nil
	}
	cut := now.Add(-settled)
	lives, err := r.Journal.Lives(ctx, now.Add(-known))
	if err != nil {
		return nil, cut, err
	}
	r.ended = slices.DeleteFunc(lives, func(l reconfigure.Life) bool { return !l.Ended() || !l.Removed.Before(cut) })
	r.cut, r.filled = cut, true
	return r.ended, r.cut, nil
}
