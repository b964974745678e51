package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a duration as people write it: numbers with the units d, h, m and s, as in 7d, 36h, 15m, 30s and
// 1d12h. It is not negative; 0 needs no unit.
func ParseDuration(s string) (time.Duration, error) {
	const (
		day     = 24 * time.Hour
		century = 100 * 365
	)
	wrong := fmt.Errorf("%q is not a duration; write a number with a unit, as in 30s, 15m, 36h or 7d", s)
	before, rest, hasDays := strings.Cut(s, "d")
	if !hasDays {
		before, rest = "0", s
	}
	days, err := strconv.ParseUint(before, 10, 64)
	if err != nil || days > century || strings.HasPrefix(rest, "+") {
		return 0, wrong
	}
	d := time.Duration(days) * day
	if hasDays && rest == "" {
		return d, nil
	}
	part, err := time.ParseDuration(rest)
	if err != nil || part < 0 || part > century*day {
		return 0, wrong
	}
	return d + part, nil
}
