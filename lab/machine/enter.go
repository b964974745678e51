package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pidFile, in a machine's folder, has the process id of its init while the machine is switched on.
const pidFile = "init.pid"

// Command returns a command that runs as root in the machine, without a login, as on a console. If the machine is not
// switched on, the command cannot be started.
func (h *Host) Command(id string, argv ...string) *exec.Cmd { return Command(h.cfg.Dir, id, argv...) }

// Command is [Host.Command] for a process other than the lab's: dir is the
// lab's [Config.Dir].
func Command(dir, id string, argv ...string) *exec.Cmd {
	pid, err := os.ReadFile(filepath.Join(dir, id, pidFile))
	// nsenter with a child stops itself when the child is stopped, as happens to all processes during a shutdown.
	// No process would continue nsenter, and the machine cannot end before nsenter has reaped its child. unshare(1)
	// without namespaces only forks a child and waits for it.
	args := []string{"--target", strings.TrimSpace(string(pid)), "--mount", "--uts", "--ipc", "--net",
		"--pid", "--no-fork", "--time", "--root", "unshare", "--fork", "--"}
	cmd := exec.Command("nsenter", append(args, argv...)...)
	cmd.Env = []string{"HOME=/root", "TERM=" + os.Getenv("TERM"),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if err != nil {
		cmd.Err = fmt.Errorf("machine %s is not switched on: %w", id, err)
	}
	return cmd
}

// Root returns the path, on the host, of the machine's root folder while it is switched on.
func (h *Host) Root(id string) (string, error) {
	pid, err := os.ReadFile(filepath.Join(h.cfg.Dir, id, pidFile))
	if err != nil {
		return "", fmt.Errorf("machine %s is not switched on: %w", id, err)
	}
	return filepath.Join("/proc", strings.TrimSpace(string(pid)), "root"), nil
}
