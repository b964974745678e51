package gate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

var start = time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)

// calls makes calls with a key, one after another, and counts the accepted ones.
func calls(key Key, known reconfigure.KeyUse, n int, every time.Duration) (reconfigure.KeyUse, int) {
	admitted := 0
	for i := range n {
		var err error
		known, err = Admit(known, Connection{Key: key, Peer: "192.0.2.1", Time: start.Add(time.Duration(i) * every)}, 0, nil)
		if err == nil {
			admitted++
		}
	}
	return known, admitted
}

func TestAKeyMayCallSoOften(t *testing.T) {
	for _, tc := range []struct {
		name  string
		key   Key
		calls int
		every time.Duration
		want  int
	}{
		{"Slurm's calls at once", controller, 200, 0, 200},
		{"a reboot of a thousand nodes", controller, 1000, 0, 1000},
		{"more of them", controller, 1500, 0, 1000},
		{"a suspend a second for an hour", controller, 3600, time.Second, 3600},
		{"a call of a node that is repeated", node01, 7, 10 * time.Second, 7},
		{"a node that calls in a loop for an hour", node01, 3600, time.Second, 10 + 11},
	} {
		if _, got := calls(tc.key, reconfigure.KeyUse{}, tc.calls, tc.every); got != tc.want {
			t.Errorf("%s: %d calls are admitted, want %d", tc.name, got, tc.want)
		}
	}
}

func TestALoopIsWrittenDownOnceAMinute(t *testing.T) {
	known, _ := calls(node01, reconfigure.KeyUse{}, 100, 0)
	before := known
	for i := range 590 { // less than a minute
		a := Connection{Key: node01, Peer: "192.0.2.1", Time: start.Add(time.Duration(i) * 100 * time.Millisecond)}
		var err error
		if known, err = Admit(known, a, 0, nil); !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
	}
	if len(known.Refused) != 1 || known.Refused[0] != before.Refused[0] || known.Left != before.Left {
		t.Errorf("written down again: %+v", known)
	}
	a := Connection{Key: node01, Peer: "192.0.2.1", Time: start.Add(time.Minute)}
	if known, _ = Admit(known, a, 0, nil); len(known.Refused) != 1 || known.Refused[0].Count != 2 {
		t.Errorf("a minute later: %+v", known.Refused)
	}
}

func TestAClockThatIsSetBackTakesNoCallsAway(t *testing.T) {
	known, _ := calls(node01, reconfigure.KeyUse{}, 2, time.Hour)
	known, err := Admit(known, Connection{Key: node01, Time: start.Add(-time.Hour)}, 0, nil)
	if err != nil || known.Left != 8 {
		t.Errorf("%v, %+v", err, known)
	}
}

func TestAQueueIsBounded(t *testing.T) {
	for _, k := range []Key{controller, node01} {
		a := Connection{Key: k, Time: start}
		if _, err := Admit(reconfigure.KeyUse{}, a, k.limit().Pending-1, nil); err != nil {
			t.Error(err)
		}
		known, err := Admit(reconfigure.KeyUse{}, a, k.limit().Pending, nil)
		if !errors.Is(err, ErrBusy) || len(known.Refused) != 1 {
			t.Errorf("%v, %+v", err, known)
		}
	}
}

func TestRefusalsAreKeptWithTheirPeer(t *testing.T) {
	var known reconfigure.KeyUse
	for i := range 100 {
		a := Connection{
			Key: controller, Peer: "192.0.2." + string(rune('a'+i%26)), Time: start,
			Command: "sh -c 'exec\x1b[2J'\xff" + strings.Repeat("x", 10_000),
		}
		var err error
		if known, err = Admit(known, a, 0, errors.New("an unknown verb")); !errors.Is(err, ErrRefused) {
			t.Fatal(err)
		}
	}
	if len(known.Refused) != keptRefusals {
		t.Fatalf("%d refusals are kept", len(known.Refused))
	}
	last := known.Refused[keptRefusals-1]
	if last.Peer != "192.0.2.v" || last.Why != "an unknown verb" ||
		!strings.HasPrefix(last.Command, `"sh -c 'exec\x1b[2J'`) ||
		len(last.Command) > 3*keptCommand {
		t.Errorf("%+v", last)
	}
}

// A rejected call costs as much as any other, so that nobody can try commands without limit.
func TestFaultyCallsCountToo(t *testing.T) {
	var known reconfigure.KeyUse
	a := Connection{Key: node01, Peer: "192.0.2.1", Command: "sh", Time: start}
	for i := range 11 {
		var err error
		known, err = Admit(known, a, 0, errors.New("an unknown verb"))
		want := ErrRefused
		if i == 10 {
			want = ErrBusy
		}
		if !errors.Is(err, want) {
			t.Fatalf("call %d: %v, want %v", i+1, err, want)
		}
	}
}
