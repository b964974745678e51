package reconfigure

import "errors"

// ErrLeaseLost is the error of a write to the journal under a lease that is lost, and the cause of the context that
// ends with the lease. Another worker may change the same nodes by then: a worker that gets it MUST change nothing
// more. It may acquire the lease again.
var ErrLeaseLost = errors.New("the lease is lost")
