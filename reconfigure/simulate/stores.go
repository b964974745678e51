package simulate

import (
	"context"
	"maps"
	"slices"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
)

// Health returns the health of the node groups with failures.
func (w *World) Health(ctx context.Context) (map[string]reconfigure.Health, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return maps.Clone(w.journal.health), nil
}

// UpdateHealth stores it in memory.
func (w *World) UpdateHealth(
	ctx context.Context, group string, update func(reconfigure.Health) reconfigure.Health,
) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.ordered(JournalFull) {
		return failure{JournalFull}
	}
	memory.UpdateHealth(w.journal.health, group, update)
	return nil
}

// Sum returns the stored checksum of a node.
func (w *World) Sum(ctx context.Context, node string) (string, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.journal.sums[node], ctx.Err()
}

// KeepSums stores them in memory.
func (w *World) KeepSums(ctx context.Context, sums map[string]string) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return memory.KeepSums(w.journal.sums, sums)
}

// Flush has nothing to do, since Record stores events at once.
func (w *World) Flush(context.Context) error { return nil }

// Record stores the events in memory; while the fault JournalFull lasts, they are lost.
func (w *World) Record(events ...reconfigure.Event) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, e := range events {
		switch {
		case w.ordered(JournalFull):
		case e.Phase == "":
			w.journal.lives.Record(*e.Life)
		default:
			w.journal.events = append(w.journal.events, e)
		}
	}
}

// Lives returns the lives of the instances, in the order in which they were recorded first.
func (w *World) Lives() []reconfigure.Life {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.journal.lives)
}

// Events returns the recorded events, in order.
func (w *World) Events() []reconfigure.Event {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.journal.events)
}

// Keep stores the evidence in memory.
func (w *World) Keep(ctx context.Context, evidence ...reconfigure.Evidence) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.ordered(JournalFull) {
		return failure{JournalFull}
	}
	w.journal.evidence = append(w.journal.evidence, evidence...)
	return nil
}

// Evidence returns the stored evidence, in order.
func (w *World) Evidence() []reconfigure.Evidence {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.Clone(w.journal.evidence)
}
