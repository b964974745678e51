package reconfigure

import "errors"

// ErrLeaseLost is the answer to writing as the holder of a lease that is lost, and the cause with which the context of what
// the holder does ends then. Another worker may act on the same nodes by now: who gets it MUST leave the world as it is, and
// may acquire the lease again.
var ErrLeaseLost = errors.New("the lease is lost")
