package site

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestALoginToTheCloudDelaysNobodyElse makes several callers log in to a cloud that answers late.
func TestALoginToTheCloudDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logins atomic.Int32
		refused, answer := errors.New("connection refused"), make(chan struct{})
		s := Site{Dir: t.TempDir(), provider: providers()[0]}
		s.Cluster.Settings.StateDir = s.File("state")
		s.provider.open = func(ctx context.Context, _ reconfigure.Access) (Cloud, error) {
			logins.Add(1)
			select {
			case <-answer:
				return nil, refused
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		a := s.Adapters(nil, slog.New(slog.DiscardHandler))
		first, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() {
			if _, err := a.Cloud(first); !errors.Is(err, context.Canceled) {
				t.Errorf("the first caller got %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			wait.Go(func() {
				if _, err := a.Cloud(t.Context()); !errors.Is(err, refused) {
					t.Errorf("another caller got %v", err)
				}
			})
		}
		synctest.Wait()
		a.Scheduler(reconfigure.Instance{Address: "192.0.2.1"}) // needs no cloud
		cancel()                                                // the other callers log in again
		synctest.Wait()
		close(answer)
		wait.Wait()
		if n := logins.Load(); n != 2 {
			t.Errorf("%d logins", n)
		}
	})
}
