package gate

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Limit is the number of calls and of pending requests that a key may have.
type Limit struct {
	Burst   float64       // the maximum number of calls in a burst
	Every   time.Duration // the time after which one more call is allowed
	Pending int           // the number of its requests without an outcome
}

// limit returns the limit of the key. It is far above the needs of Slurm and of a correct node. slurmctld starts its
// scripts once for many nodes, or once for each node of a reboot; a node asks once for a reboot, and retries a
// rejected call six times.
func (k Key) limit() Limit {
	if k.Role == Node {
		return Limit{Burst: 10, Every: 5 * time.Minute, Pending: 2}
	}
	return Limit{Burst: 1000, Every: 50 * time.Millisecond, Pending: 2000}
}

// The errors of Admit. After ErrRefused the call must not be retried; after ErrBusy it may be retried later.
var (
	ErrRefused = errors.New("refused")
	ErrBusy    = errors.New("try again later")
)

const (
	keptRefusals = 10          // the number of recorded refusals of one key
	keptCommand  = 200         // bytes of a refused command
	sameAgain    = time.Minute // the time after which another call above the limit is recorded
)

// Connection is one SSH connection of a caller, with its call.
type Connection struct {
	Key     Key
	Peer    string // the address of the caller
	Command string
	Time    time.Time
}

// Admit returns the new record of the key after a call, and nil, ErrRefused or ErrBusy. Fault is the error of Parse
// for the call, or nil. Pending is the number of the key's requests without an outcome.
//
// Each call counts against the limit, also a refused one. Calls above the limit change the record at most once a
// minute for each address, so that a key that calls in a loop causes few writes.
func Admit(known reconfigure.KeyUse, c Connection, pending int, fault error) (reconfigure.KeyUse, error) {
	limit := c.Key.limit()
	left := limit.Burst
	if !known.At.IsZero() { // a clock that was set back must not reduce the remaining calls
		more := max(0, c.Time.Sub(known.At)).Seconds() / limit.Every.Seconds()
		left = min(limit.Burst, known.Left+more)
	}
	if left < 1 {
		return c.refuse(known, "too many calls", ErrBusy)
	}
	known.Left, known.At = left-1, c.Time
	switch {
	case fault != nil:
		return c.refuse(known, fault.Error(), ErrRefused)
	case pending >= limit.Pending:
		return c.refuse(known, fmt.Sprintf("%d requests of this key are pending", limit.Pending), ErrBusy)
	}
	return known, nil
}

// refuse returns the record of the key with one more refusal, and the decision.
func (c Connection) refuse(known reconfigure.KeyUse, why string, decision error) (reconfigure.KeyUse, error) {
	refused := reconfigure.RefusedCall{Time: c.Time, Peer: c.Peer, Why: why, Command: shown(c.Command), Count: 1}
	all := append([]reconfigure.RefusedCall{}, known.Refused...)
	if last := len(all) - 1; last >= 0 && all[last].Peer == c.Peer && all[last].Why == why {
		if errors.Is(decision, ErrBusy) && c.Time.Sub(all[last].Time).Abs() < sameAgain {
			return known, decision
		}
		refused.Count = min(all[last].Count, math.MaxInt-1) + 1
		all = all[:last]
	}
	all = append(all, refused)
	known.Refused = all[max(0, len(all)-keptRefusals):]
	return known, decision
}

// shown returns a command for administrators: in quotes, without control characters, and at most keptCommand bytes of
// it.
func shown(command string) string {
	if len(command) > keptCommand {
		command = command[:keptCommand] + "…"
	}
	return fmt.Sprintf("%+q", strings.ToValidUTF8(command, "�"))
}
