package text

import (
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "30s": 30 * time.Second, "15m": 15 * time.Minute, "36h": 36 * time.Hour, "7d": 168 * time.Hour,
		"1h30m": 90 * time.Minute, "1d12h": 36 * time.Hour, "200ms": 200 * time.Millisecond, "36500d": 36500 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("%q is %s (%v), want %s", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", " ", "7", "900", "d", "-1d", "1d-2h", "-5m", "+5m", "1d+2h", "+1d", "7 d", "1h1d", "1.5d", "36501d", "1dd", "7D",
		"yesterday", "99999999999999999999d", "2562047h", "1w",
	} {
		if got, err := ParseDuration(s); err == nil || !strings.Contains(err.Error(), "30s, 15m, 36h or 7d") {
			t.Errorf("%q is %s (%v)", s, got, err)
		}
	}
}
