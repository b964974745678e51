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

// service returns the systemd unit of the worker of a cluster directory. One host may have several, so the directory
// is the unit's instance.
func service(dir string) string {
	return "reconfigure-worker@" + unit.UnitNamePathEscape(dir) + ".service"
}

// startService asks systemd to start the worker, unless it is active; the check needs no permission. It does not wait
// for the start. The error says what to do; the request is on disk, and the next call retries.
func startService(ctx context.Context, dir string) error {
	const patience = 30 * time.Second // the time limit for systemd's answer; systemd is busy while a host boots
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
			"systemd could not start %s, see docs/guides/worker.md; `reconfigure worker` runs one in this terminal: %w",
			service(dir),
			err,
		)
	}
	return nil
}
