package reconfigure

import (
	"errors"
	"fmt"
)

// Errors of the journal. The call has written nothing; a retry fails too while the cause remains.
var (
	// ErrFinished is the error of a second outcome, and of starting or deferring a request that already has its
	// outcome.
	ErrFinished = errors.New("the request has its outcome already")
	// ErrBegun is the error of cancelling a request for which an operation may have changed something.
	ErrBegun = errors.New("the request has begun already")
	// ErrPaused is the error of beginning a plan during a pause.
	ErrPaused = errors.New("starting is paused")
)

// ErrLeaseLost is the error of a write to the journal under a lost lease, and the cause of the context that ends with
// the lease. Another worker may already change the same nodes: a worker that gets this error MUST change nothing
// more. It may acquire the lease again.
var ErrLeaseLost = errors.New("the lease is lost")

// ErrUntried is wrapped by the failure of a node whose change was not begun, because another one failed. The change may
// be retried at once, without the other one.
var ErrUntried = errors.New("not tried")

// ErrGivenUp is wrapped by the failure of a node that is not made, or not kept, because its job does not get another
// node. The node itself did not fail.
var ErrGivenUp = errors.New("given up")

// ErrUnwanted is the reason to give up a node that Slurm powers down before its slurmd has registered: an
// administrator has cancelled the power up, or the job was cancelled. It is not a failure of the node, and Slurm is
// not told: it has called SuspendProgram, or is about to.
var ErrUnwanted = fmt.Errorf("%w: Slurm powers it down before it has registered", ErrGivenUp)

// ErrInterrupted is wrapped by the failure of a node whose change was interrupted with Terraform. The cloud may still
// complete what Terraform has requested.
var ErrInterrupted = errors.New("interrupted")
