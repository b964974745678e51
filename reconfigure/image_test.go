package reconfigure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

func TestImageNames(t *testing.T) {
	at := time.Date(2026, 1, 31, 8, 5, 9, 0, time.UTC)
	name := reconfigure.ImageName(reconfigure.Cluster{Name: "hpc"}, reconfigure.NodeGroup{Name: "standard"}, at)
	if name != "hpc-standard-20260131-080509" || reconfigure.CheckImageName(name) != nil {
		t.Errorf("the name is %q, %v", name, reconfigure.CheckImageName(name))
	}
	for _, bad := range []string{"", "-x", "two words", "a\nb", `"`, strings.Repeat("x", 256)} {
		if reconfigure.CheckImageName(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestNodeWhoseDiskWasCleaned(t *testing.T) {
	const drain = reconfigure.NodeIdle | reconfigure.NodeDrain
	for reason, rule := range map[string]struct {
		flags reconfigure.NodeFlags
		want  bool
	}{
		"reconfigure: " + reconfigure.ImageReason:                                          {drain, true},
		"reconfigure: " + reconfigure.ImageReason + ": no SSH":                             {drain, true},
		"reconfigure: " + reconfigure.ImageReason + ": powered off":                        {reconfigure.NodeIdle, false},
		"reconfigure: " + reconfigure.ImageReason + "; drained by somebody else: bad disk": {drain, true},

		"reconfigure: drained by somebody else: bad disk": {drain, false},

		"reconfigure: image":    {drain, false},
		reconfigure.ImageReason: {drain, false},
	} {
		s := reconfigure.NodeState{Flags: rule.flags, Reason: reason}
		if s.Unfit() != rule.want {
			t.Errorf("%s with %q: %t", s, reason, s.Unfit())
		}
	}
}
