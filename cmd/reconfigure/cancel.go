package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

func cancelCommand() *cli.Command {
	return command(cli.Command{
		Name:  "cancel",
		Usage: "cancel a request that has not begun, or could not be planned yet",
		Description: "The outcome of the request is then \"cancelled\". A request that has begun is not cancelled: it goes " +
			"on, and the exit code is 9. Cancelling a request twice is no error.",
		ArgsUsage: "REQUEST",
		Action: func(c *cli.Context) error {
			return withRequest(c, func(_ site.Site, log *journal.Journal, r reconfigure.Request) error {
				err := log.Cancel(c.Context, r.ID)
				if errors.Is(err, reconfigure.ErrBegun) {
					return begunError(c, log, r)
				}
				if err != nil && !errors.Is(err, reconfigure.ErrFinished) {
					return err
				}
				outcome, _, err := log.Outcome(c.Context, r.ID)
				switch {
				case err != nil:
					return err
				case outcome.Code != reconfigure.CodeCancelled:
					return &tooLateError{
						fmt.Sprintf(
							"request %s has ended already: %s; `reconfigure wait %s` shows its outcome",
							r.ID,
							status.Headline(outcome),
							r.ID,
						),
					}
				}
				return showCancelled(c, r, outcome)
			})
		},
	})
}

func showCancelled(c *cli.Context, r reconfigure.Request, o reconfigure.Outcome) error {
	text := fmt.Sprintf("request %s: cancelled\n", o.Request)
	if r.Mode == reconfigure.Enlarge || r.Mode == reconfigure.Shrink {
		text += "min_nodes stays as it was edited for the request: set it back in all.yml, or the next " +
			"resize follows it, and the next deploy makes what is missing\n"
	}
	return show(c, o, printing(text))
}

// tooLateError means that a request can no longer be cancelled.
type tooLateError struct{ message string }

func (e *tooLateError) Error() string { return e.message }

// begunError returns the error for a request that has begun. It says what the request does now.
func begunError(c *cli.Context, log *journal.Journal, r reconfigure.Request) error {
	known, err := status.Read(c.Context, log)
	if err != nil {
		return err
	}
	for _, p := range known.Requests() {
		if p.ID == r.ID {
			return &tooLateError{
				fmt.Sprintf("request %s has begun already, and goes on to its end: it %s", r.ID, p.BegunWords()),
			}
		}
	}
	return &tooLateError{
		fmt.Sprintf("request %s has ended just now; `reconfigure wait %s` shows its outcome", r.ID, r.ID),
	}
}
