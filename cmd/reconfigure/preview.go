package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/client"
	"github.com/eiffel-hpc/eiffel/reconfigure/controller"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

// preview shows what a request made now would do, together with the waiting ones. It changes nothing, not even the
// declaration: if the command edits it, s has the edited one.
func preview(c *cli.Context, s site.Site, r reconfigure.Request, e *client.Edit) error {
	r.Submitted = time.Now()
	var report status.Preview
	err := s.IfJournal(c.Context, func(log *journal.Journal) error {
		requests := []reconfigure.Request{r}
		if log != nil {
			pending, err := log.Pending(c.Context)
			if err != nil {
				return err
			}
			requests = controller.With(pending, r)
		}
		adapters := s.Readers(log, logger(c))
		defer adapters.Close()
		var err error
		report, err = client.Preview(c.Context, adapters, requests)
		return err
	})
	if err != nil {
		return err
	}
	if e != nil {
		report.Declaration = &e.MinNodes
	}
	if err := show(c, report, report.Write); err != nil || len(report.Refused) == 0 {
		return err
	}
	refused := reconfigure.Outcome{Code: reconfigure.CodeRefused, Error: "Terraform would do what no request asks for"}
	return &status.OutcomeError{Outcome: refused, Logs: s.LogDir()}
}
