package cluster

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// A lab that was killed leaves its sshd, of which nothing but the title tells whose it is.
func TestSSHDOfADeadLabIsEnded(t *testing.T) {
	dir := t.TempDir()
	sshd := exec.CommandContext(t.Context(), "bash", "-c", `exec -a "$0" sleep 600`, "sshd: -f "+filepath.Join(dir, "control-host", "sshd_config")+" [listener]")
	if err := sshd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sshd.Wait() }() // as a zombie it would be there still
	if err := endProcesses(dir); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended by itself: %v", err)
	}
}
