package reconfigure

import (
	"testing"
	"time"
)

func TestADeclarationIsOutdatedByANewerOneOfAnotherHost(t *testing.T) {
	at := func(host, sum string, second int64) Declaration {
		return Declaration{Host: host, Sum: sum, Changed: time.Unix(second, 0)}
	}
	for name, c := range map[string]struct {
		own, newest Declaration
		want        bool
	}{
		"the same":               {at("h", "a", 1), at("i", "a", 1), false},
		"a copy made later":      {at("h", "a", 2), at("i", "a", 1), false},
		"a copy made before":     {at("h", "a", 1), at("i", "a", 2), false},
		"an edit":                {at("h", "b", 2), at("i", "a", 1), false},
		"an edit elsewhere":      {at("h", "a", 1), at("i", "b", 2), true},
		"edits at the same time": {at("h", "a", 1), at("i", "b", 1), true},
		"restored from a backup": {at("h", "a", 1), at("h", "b", 2), false},
	} {
		if got := c.own.Outdated(c.newest); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
