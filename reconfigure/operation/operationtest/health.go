package operationtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// HealthStore is an operation.HealthStore that can be read.
type HealthStore interface {
	operation.HealthStore
	// Health returns the health of the node groups with failures.
	Health(ctx context.Context) (map[string]reconfigure.Health, error)
}

// TestHealthStore checks the contract of HealthStore. New makes an empty store.
func TestHealthStore(t *testing.T, new func(*testing.T) HealthStore) {
	for name, rule := range map[string]func(healthRule){
		"what is written down comes back":   healthRule.comesBack,
		"no update comes between another's": healthRule.isWhole,
		"a context that is done":            healthRule.done,
		"what is well again is forgotten":   healthRule.forgets,
	} {
		t.Run(name, func(t *testing.T) { rule(healthRule{t, new(t)}) })
	}
}

type healthRule struct {
	*testing.T
	HealthStore
}

func (k healthRule) want(want map[string]reconfigure.Health) {
	k.Helper()
	got, err := k.Health(k.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		k.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

// sets replaces a health, which must be as given before.
func (k healthRule) sets(before, after reconfigure.Health) {
	k.Helper()
	err := k.UpdateHealth(k.Context(), before.Group, func(h reconfigure.Health) reconfigure.Health {
		if diff := cmp.Diff(before, h); diff != "" {
			k.Errorf("before (-want +got):\n%s", diff)
		}
		return after
	})
	if err != nil {
		k.Error(err)
	}
}

// ailing returns a health with every field set.
func ailing(group string) reconfigure.Health {
	at := time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC)
	return reconfigure.Health{
		Group: group, Failures: 3, Since: at,
		Full: reconfigure.Setback{
			Node: "node1", Class: reconfigure.ClassCapacity, Reason: "line 1\nline 2 'quoted' «ü»", Time: at.Add(time.Minute),
		},
		Last: reconfigure.Setback{Node: "node2", Class: reconfigure.ClassSSH, Reason: "no answer", Time: at.Add(time.Hour)},
	}.Trying("node3", at.Add(2*time.Hour))
}

func (k healthRule) comesBack() {
	k.want(map[string]reconfigure.Health{})
	k.sets(reconfigure.Health{Group: "one"}, ailing("one"))
	k.sets(reconfigure.Health{Group: "other"}, ailing("other").Trying("", time.Time{}))
	k.want(map[string]reconfigure.Health{"one": ailing("one"), "other": ailing("other").Trying("", time.Time{})})
	k.sets(ailing("one"), ailing("")) // the name stays
	k.want(map[string]reconfigure.Health{"one": ailing("one"), "other": ailing("other").Trying("", time.Time{})})
}

func (k healthRule) forgets() {
	k.sets(reconfigure.Health{Group: "one"}, ailing("one"))
	k.sets(ailing("one"), reconfigure.Health{})
	k.want(map[string]reconfigure.Health{})
	k.sets(reconfigure.Health{Group: "one"}, reconfigure.Health{Group: "one"})
	k.want(map[string]reconfigure.Health{})
}

func (k healthRule) isWhole() {
	const updates = 20
	var wait sync.WaitGroup
	for range updates {
		wait.Go(func() {
			err := k.UpdateHealth(k.Context(), "one", func(h reconfigure.Health) reconfigure.Health {
				h.Failures++
				return h
			})
			if err != nil {
				k.Error(err)
			}
		})
	}
	wait.Wait()
	k.want(map[string]reconfigure.Health{"one": {Group: "one", Failures: updates}})
}

func (k healthRule) done() {
	ctx, cancel := context.WithCancel(k.Context())
	cancel()
	if known, err := k.Health(ctx); err == nil {
		k.Errorf("the context is done, and known is %+v", known)
	}
	if err := k.UpdateHealth(ctx, "one", func(reconfigure.Health) reconfigure.Health {
		return ailing("one")
	}); err == nil {
		k.Error("no error although the context is done")
	}
	k.want(map[string]reconfigure.Health{})
}
