package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pidFile, in a machine's folder, holds the process id of its init while the
// machine is switched on.
const pidFile = "init.pid"

// Command returns a command that runs as root in the machine, with its
// environment but without logging in: in the way a console would. If the
// machine is not switched on the command cannot be started.
func (h *Host) Command(id string, argv ...string) *exec.Cmd { return Command(h.cfg.Dir, id, argv...) }

// Command is [Host.Command] for a process other than the lab's: dir is the
// lab's [Config.Dir].
func Command(dir, id string, argv ...string) *exec.Cmd {
	pid, err := os.ReadFile(filepath.Join(dir, id, pidFile))
	// A child of nsenter's own that is stopped, as all of a machine's processes are when it shuts down, has nsenter stop itself too. Nobody would wake that one, and the
	// machine could not end before it has reaped its child. unshare(1), with nothing to unshare, forks one and does no more than wait for it.
	args := []string{"--target", strings.TrimSpace(string(pid)), "--mount", "--uts", "--ipc", "--net", "--pid", "--no-fork", "--time",
		"--root", "unshare", "--fork", "env", "-i", "HOME=/root", "TERM=" + os.Getenv("TERM"),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd := exec.Command("nsenter", append(args, argv...)...)
	if err != nil {
		cmd.Err = fmt.Errorf("machine %s is not switched on: %w", id, err)
	}
	return cmd
}
