package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

func cancelCommand() *cli.Command {
	return command(cli.Command{
		Name:  "cancel",
		Usage: "take back a request that has not begun, or could not be planned yet",
		Description: "Whoever follows the request gets \"cancelled\" for its outcome. One for which anything was done goes on to its end, since what is done is done; " +
			"that is said, and is no success. To cancel a request twice is one.",
		ArgsUsage: "REQUEST",
		Action: anywhere(func(c *cli.Context, arguments []string) error {
			return withRequest(c, arguments, func(_ site, log *journal.Journal, r reconfigure.Request) error {
				err := log.Cancel(c.Context, r.ID)
				if errors.Is(err, journal.ErrBegun) {
					return begunError(c, log, r)
				}
				if err != nil && !errors.Is(err, journal.ErrFinished) {
					return err
				}
				outcome, _, err := log.Outcome(c.Context, r.ID)
				switch {
				case err != nil:
					return err
				case outcome.Code != reconfigure.CodeCancelled:
					return &tooLateError{fmt.Sprintf("request %s has ended already: %s; `reconfigure wait %s` shows its outcome", r.ID, headline(outcome), r.ID)}
				}
				return showCancelled(c, r, outcome)
			})
		}),
	})
}

func showCancelled(c *cli.Context, r reconfigure.Request, o reconfigure.Outcome) error {
	if wantsJSON(c) {
		return json.NewEncoder(c.App.Writer).Encode(o)
	}
	text := fmt.Sprintf("request %s: cancelled\n", o.Request)
	if r.Mode == reconfigure.Enlarge || r.Mode == reconfigure.Shrink {
		text += "min_nodes stays as it was edited for the request: set it back in group_vars/all.yml, or the next resize follows it, and the next deploy makes what is missing\n"
	}
	_, err := io.WriteString(c.App.Writer, text)
	return err
}

// tooLateError tells that a request cannot be taken back any more.
type tooLateError struct{ message string }

func (e *tooLateError) Error() string { return e.message }

// begunError tells where a request stands that cannot be taken back, and what is left to do.
func begunError(c *cli.Context, log *journal.Journal, r reconfigure.Request) error {
	known, err := recall(c.Context, log)
	if err != nil {
		return err
	}
	for _, p := range known.standings() {
		if p.ID == r.ID {
			return &tooLateError{fmt.Sprintf("request %s has begun already, and goes on to its end: it %s; %s", r.ID, p.is(), p.remedy())}
		}
	}
	return &tooLateError{fmt.Sprintf("request %s has ended just now; `reconfigure wait %s` shows its outcome", r.ID, r.ID)}
}

// is where the request stands, as a part of a sentence.
func (p pendingRequest) is() string {
	why, _ := p.putOff()
	return map[standing]string{
		standsWaiting:  "was taken up by a worker",
		standsAtWork:   "is at work",
		standsHeld:     "waits for jobs on " + p.withJobs().String(),
		standsAgain:    "tries " + p.triedAgain().String() + " once more",
		standsPutOff:   "cannot be planned now and is tried again: " + oneLine(why.Reason),
		standsCutShort: "was cut short, and the next worker takes it up again",
	}[p.State]
}

// remedy is what there is for an administrator who does not want the request any more.
func (p pendingRequest) remedy() string {
	switch {
	case p.State == standsPutOff:
		return "mend that, or have nothing begun by `reconfigure pause`"
	case p.State == standsHeld && (p.Mode == reconfigure.Shrink || p.Mode == reconfigure.Resize):
		return "with another `reconfigure enlarge` its nodes stay"
	case p.State == standsHeld:
		return "where they do not end within its --drain-timeout, the nodes stay as they are"
	case p.Mode == reconfigure.Resume:
		return fmt.Sprintf("`scontrol update nodename=%s state=power_down` has the nodes removed again", p.Nodes)
	case p.Mode == reconfigure.Suspend:
		return "Slurm resumes the nodes as soon as a job needs them"
	}
	return fmt.Sprintf("`reconfigure wait %s` shows how it ends", p.ID)
}
