package cluster

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// A killed lab leaves the processes of its control host. They can be recognized only by their mounts.
func TestTheControlHostOfAKilledLabIsEnded(t *testing.T) {
	needs.Lab(t)
	dir := t.TempDir()
	if err := os.Mkdir(toolsFolder(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	const script = `mkdir "$0/plugins" && mount --bind /usr "$0/plugins" && echo mounted && exec sleep 600`
	left := exec.CommandContext(t.Context(), "unshare", "--mount", "env", "-i", "sh", "-c", script, toolsFolder(dir))
	other := exec.CommandContext(t.Context(), "sleep", "600")
	out, err := left.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*exec.Cmd{left, other} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "mounted\n" {
		t.Errorf("it prints %q (%v)", line, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }() // a zombie would still have its number
	if err := endProcesses(dir); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended by itself: %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Errorf("another process was ended too: %v", err)
	}
	if err := other.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("another process ended: %v", err)
	}
}

func TestAnAccountIsAdded(t *testing.T) {
	const (
		root    = "root:x:0:0:root:/root:/bin/bash\n"
		eiffels = "eiffels:x:20000:1001::/:/bin/sh"
		passwd  = root + "eiffel:x:1000:1000::/home/eiffel:/bin/sh\n" + eiffels
		entry   = "eiffel:*:20002:20002::/home/eiffel:/bin/bash"
	)
	const group = "root:x:0:\nstaff:x:20001:alice\n"
	if id := freeID(passwd, group); id != 20002 {
		t.Errorf("the free number is %d", id)
	}
	if got := withEntry(passwd, entry); got != root+eiffels+"\n"+entry+"\n" {
		t.Errorf("passwd is\n%s", got)
	}
}
