package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A killed lab leaves its sshd, which can be recognized only by its title.
func TestTheSSHDOfAKilledLabIsEnded(t *testing.T) {
	dir := t.TempDir()
	sshd := exec.CommandContext(t.Context(), "bash", "-c", `exec -a "$0" sleep 600`,
		"sshd: -f "+filepath.Join(dir, "control-host", "sshd_config")+" [listener]")
	if err := sshd.Start(); err != nil {
		t.Fatal(err)
	}
	for { // until bash has taken the title
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", sshd.Process.Pid))
		if err != nil || strings.HasPrefix(string(title), "sshd:") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	ended := make(chan error, 1)
	go func() { ended <- sshd.Wait() }() // a zombie would still be found
	if err := endProcesses(dir); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended by itself: %v", err)
	}
}
