package site

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
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

// TestTerraformIsLookedForOnce counts the starts of Terraform while the drivers of many shards are opened to read. With
// and without a configured binary, only the first driver starts it.
func TestTerraformIsLookedForOnce(t *testing.T) {
	dir := t.TempDir()
	starts, binary := filepath.Join(dir, "starts"), filepath.Join(dir, "terraform")
	script := "#!/bin/sh\necho >>" + starts + "\necho '{\"terraform_version\": \"1.5.7\"}'\n"
	if err := os.WriteFile(binary, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for name, configured := range map[string]string{"on PATH": "", "configured": binary} {
		t.Run(name, func(t *testing.T) {
			s := Site{Dir: t.TempDir(), provider: providers()[0]}
			s.Provider = s.provider.Provider
			if err := os.MkdirAll(s.RootModule(), 0o755); err != nil {
				t.Fatal(err)
			}
			s.Cluster.Settings.StateDir, s.Cluster.Settings.Terraform = s.File("state"), configured
			a := s.Readers(nil, slog.New(slog.DiscardHandler))
			open := func(shards ...string) string {
				t.Helper()
				for _, shard := range shards {
					if _, err := a.Driver(t.Context(), shard); err != nil {
						t.Fatal(err)
					}
				}
				text, err := os.ReadFile(starts)
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			if first, all := open("g-0"), open("g-1", "g-2"); first != all {
				t.Errorf("%d starts of Terraform for the first driver, %d for three", len(first), len(all))
			}
		})
	}
}
