package gate

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Limit is how much a key may ask for.
type Limit struct {
	Burst   float64       // the number of calls at once
	Every   time.Duration // after which there may be one more
	Pending int           // the number of its requests without an outcome
}

// limit is far above what Slurm and a node that works as it should ask for. slurmctld starts its scripts once for many
// nodes, or once for each node of a reboot; a node asks once for a reboot, and repeats a call that was not accepted six
// times.
func (k Key) limit() Limit {
	if k.Role == Node {
		return Limit{Burst: 10, Every: 5 * time.Minute, Pending: 2}
	}
	return Limit{Burst: 1000, Every: 50 * time.Millisecond, Pending: 2000}
}

// The decisions that are errors. ErrRefused is final. ErrBusy passes: the call may be repeated later.
var (
	ErrRefused = errors.New("refused")
	ErrBusy    = errors.New("try again later")
)

const (
	keptRefusals = 10          // of one key
	keptCommand  = 200         // bytes of a refused command
	sameAgain    = time.Minute // after which a call above the limit is written down again
)

// Attempt is one call through the gate.
type Attempt struct {
	Key     Key
	Peer    string // the address of the caller
	Command string
	Time    time.Time
}

// Admit decides on a call that Parse accepted, or did not: fault is its error. It returns what is known of the key
// afterwards. Pending is the number of the key's requests without an outcome.
//
// Each call uses up one of those that the key may make, also one that is refused. A call above the limit changes almost
// nothing, so that a key that calls in a loop costs few writes.
func Admit(known reconfigure.KeyUse, a Attempt, pending int, fault error) (reconfigure.KeyUse, error) {
	limit := a.Key.limit()
	left := limit.Burst
	if !known.At.IsZero() { // a clock that was set back must not take calls away
		more := max(0, a.Time.Sub(known.At)).Seconds() / limit.Every.Seconds()
		left = min(limit.Burst, known.Left+more)
	}
	if left < 1 {
		return a.refuse(known, "too many calls", ErrBusy)
	}
	known.Left, known.At = left-1, a.Time
	switch {
	case fault != nil:
		return a.refuse(known, fault.Error(), ErrRefused)
	case pending >= limit.Pending:
		return a.refuse(known, fmt.Sprintf("%d requests of this key are pending", limit.Pending), ErrBusy)
	}
	return known, nil
}

// refuse writes a refusal down.
func (a Attempt) refuse(known reconfigure.KeyUse, why string, decision error) (reconfigure.KeyUse, error) {
	refused := reconfigure.RefusedCall{Time: a.Time, Peer: a.Peer, Why: why, Command: shown(a.Command), Count: 1}
	all := append([]reconfigure.RefusedCall{}, known.Refused...)
	if last := len(all) - 1; last >= 0 && all[last].Peer == a.Peer && all[last].Why == why {
		if errors.Is(decision, ErrBusy) && a.Time.Sub(all[last].Time).Abs() < sameAgain {
			return known, decision
		}
		refused.Count = min(all[last].Count, math.MaxInt-1) + 1
		all = all[:last]
	}
	all = append(all, refused)
	known.Refused = all[max(0, len(all)-keptRefusals):]
	return known, decision
}

// shown is a command as administrators read it: in quotes, without control characters.
func shown(command string) string {
	if len(command) > keptCommand {
		command = command[:keptCommand] + "…"
	}
	return fmt.Sprintf("%+q", strings.ToValidUTF8(command, "�"))
}
