package reconfigure_test

import (
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestHours(t *testing.T) {
	for text, times := range map[string]map[string]bool{ // 2026-11-23 is a Monday
		"Mon-Fri 07:00-18:00": {
			"2026-11-23T06:59:59Z": false, "2026-11-23T07:00:00Z": true, "2026-11-27T17:59:59Z": true,
			"2026-11-27T18:00:00Z": false, "2026-11-28T12:00:00Z": false, "2026-11-23T09:00:00+09:00": true,
		},
		"sat 00:00-24:00": {
			"2026-11-28T00:00:00Z": true,
			"2026-11-28T23:59:59Z": true,
			"2026-11-29T00:00:00Z": false,
		},
		"Sat-Mon 10:00-11:00": {
			"2026-11-29T10:30:00Z": true,
			"2026-11-23T10:30:00Z": true,
			"2026-11-24T10:30:00Z": false,
		},
		"Mon 22:00-24:00, Tue 00:00-06:00": {
			"2026-11-24T05:00:00Z": true,
			"2026-11-23T23:00:00Z": true,
			"2026-11-24T06:00:00Z": false,
		},
	} {
		h, err := reconfigure.ParseHours(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for at, want := range times {
			when, err := time.Parse(time.RFC3339, at)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.Contains(when); got != want {
				t.Errorf("%s has %s: %t", text, at, got)
			}
		}
	}
	if !(reconfigure.Hours{}).Contains(time.Now()) {
		t.Error("no hours are not the whole week")
	}
	for _, text := range []string{
		"", "Mon-Fri", "07:00-18:00", "Mon-Fri 7:00-18:00", "Foo 07:00-18:00", "Mon-Foo 07:00-18:00", "Mon 07:60-18:00",
		"Mon 07:00-24:01", "Mon 18:00-07:00", "Mon 07:00-07:00", "Mon 07:00-18:00,", "Mon 07:00-18:00 Tue 07:00-18:00",
	} {
		if h, err := reconfigure.ParseHours(text); err == nil {
			t.Errorf("%q is read as %+v", text, h)
		}
	}
}
