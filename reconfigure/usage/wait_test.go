package usage

import (
	"testing"
	"time"
)

func TestTypicalOf(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)*time.Second)
	}
	s := time.Second
	for _, c := range []struct {
		all  []time.Duration
		want Typical
	}{
		{nil, Typical{}},
		{[]time.Duration{7 * s}, Typical{1, 7 * s, 7 * s}},
		{[]time.Duration{9 * s, 1 * s, 5 * s}, Typical{3, 5 * s, 9 * s}},
		{hundred, Typical{100, 50 * s, 95 * s}},
	} {
		if got := TypicalOf(c.all); got != c.want {
			t.Errorf("%v: %+v, not %+v", c.all, got, c.want)
		}
	}
}
