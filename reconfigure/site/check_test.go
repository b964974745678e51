package site

import (
	"testing"
	"time"
)

func TestAClockIsComparedWithTheTimeOfTheAnswer(t *testing.T) {
	from := time.Date(2026, 3, 1, 12, 0, 0, 500e6, time.UTC)
	took := asked{from, from.Add(8 * time.Second)} // a slow answer
	second := func(s int) time.Time { return time.Date(2026, 3, 1, 12, 0, s, 0, time.UTC) }
	for clock, want := range map[time.Time]time.Duration{
		second(0):  0,
		second(8):  0,
		second(9):  500 * time.Millisecond,
		second(68): 59*time.Second + 500*time.Millisecond,
		second(-9): -9*time.Second - 500*time.Millisecond,
	} {
		if got := took.ahead(clock); got != want {
			t.Errorf("%s: %s ahead, want %s", clock.Format(time.TimeOnly), got, want)
		}
		for _, zone := range []time.Duration{0, time.Hour, -8 * time.Hour, 5*time.Hour + 45*time.Minute} {
			if got := took.slurmAhead(clock.Add(zone)); got != want {
				t.Errorf("%s in a zone of %s: %s ahead, want %s", clock.Format(time.TimeOnly), zone, got, want)
			}
		}
	}
}
