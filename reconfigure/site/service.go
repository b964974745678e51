package site

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// service is the unit of systemd's that is the worker of a cluster directory. One host may have several, so the
// directory is the unit's instance.
func service(dir string) string { return "reconfigure-worker@" + escapedPath(dir) + ".service" }

// escapedPath is a path as systemd.unit(5) has it in the name of a unit (STRING ESCAPING FOR INCLUSION IN UNIT
// NAMES), and as `systemd-escape --path` prints it. The path is absolute and clean.
func escapedPath(path string) string {
	path = strings.Trim(path, "/")
	if path == "" {
		return "-"
	}
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case c == '/':
			b.WriteByte('-')
		case c == '.' && i > 0, c == '_', c == ':', '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
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
			process.Cmd{Path: "systemctl", Args: append(args, service(dir)), Env: environment(os.Environ())},
		)
	}
	if systemctl("is-active", "--quiet") == nil {
		return nil
	}
	if err := systemctl("start", "--no-block", "--no-ask-password"); err != nil {
		return fmt.Errorf(
			"systemd was to start %s, see docs/guides/requests.md; `reconfigure worker` is a worker in this terminal: %w",
			service(dir),
			err,
		)
	}
	return nil
}
