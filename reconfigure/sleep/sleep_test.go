package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, enough := time.Now(), errors.New("enough")
		if err := sleep.For(t.Context(), time.Hour); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("error %v after %s", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, enough)
		defer cancel()
		if err := sleep.For(ctx, time.Hour); !errors.Is(err, enough) || time.Since(begun) != time.Hour+time.Minute {
			t.Errorf("error %v after %s", err, time.Since(begun))
		}
	})
}

func TestPause(t *testing.T) {
	for passed, want := range map[time.Duration]time.Duration{
		0: 200 * time.Millisecond, time.Second: 250 * time.Millisecond, 2 * time.Second: 500 * time.Millisecond,
		4 * time.Second: time.Second, time.Hour: time.Second,
	} {
		if got := sleep.Pause(passed, time.Second); got != want {
			t.Errorf("after %s: %s, want %s", passed, got, want)
		}
	}
}
