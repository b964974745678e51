package worker

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// service is the unit of systemd's that is the worker of a cluster directory. One host may have several, so the
// directory is the unit's instance.
func service(dir string) string {
	return "reconfigure-worker@" + unit.UnitNamePathEscape(dir) + ".service"
}

// startService has systemd start the worker, unless it is at work: to ask whether it is needs no permission. It does
// not wait for it. An error says what to do; the request is on disk, and the next call tries again.
func startService(ctx context.Context, dir string) error {
	const patience = 30 * time.Second // for an answer of systemd's, which is busy while a host boots
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	systemctl := func(args ...string) error {
		return process.Run(
			ctx,
			process.Cmd{Path: "systemctl", Args: append(args, service(dir)), Env: site.Environment(os.Environ())},
		)
	}
	if systemctl("is-active", "--quiet") == nil {
		return nil
	}
	if err := systemctl("start", "--no-block", "--no-ask-password"); err != nil {
		return fmt.Errorf(
			"systemd was to start %s, see docs/guides/worker.md; `reconfigure worker` is a worker in this terminal: %w",
			service(dir),
			err,
		)
	}
	return nil
}
