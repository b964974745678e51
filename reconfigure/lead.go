package reconfigure

import "errors"

// ErrLeadLost is the answer to acting as a leader that leads no more, and the cause with which the context of what a leader does ends then. Another worker may be at
// the same nodes by now: who gets it MUST leave the world as it is, and may take the lead again.
var ErrLeadLost = errors.New("the lead is lost")
