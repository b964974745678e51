package reconfigure

import "errors"

// Errors of the journal. The call has written nothing; a retry fails too while the cause remains.
var (
	// ErrFinished is the error of a second outcome, and of starting or deferring a request that has its outcome.
	ErrFinished = errors.New("the request has its outcome already")
	// ErrBegun is the error of cancelling a request for which an operation may have changed something.
	ErrBegun = errors.New("the request has begun already")
	// ErrPaused is the error of starting operations during a pause.
	ErrPaused = errors.New("starting is paused")
)
