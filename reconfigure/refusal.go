package reconfigure

import "errors"

// What a journal refuses. Nothing of the call is written then, and to call again does not help before the reason is gone.
var (
	// ErrFinished is the answer to a second outcome, and to starting or deferring what has its outcome.
	ErrFinished = errors.New("the request has its outcome already")
	// ErrBegun is the answer to taking back a request for which an operation may have done something.
	ErrBegun = errors.New("the request has begun already")
	// ErrPaused is the answer to starting anything during a pause.
	ErrPaused = errors.New("starting is paused")
)
