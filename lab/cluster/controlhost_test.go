package cluster

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/needs"
	"github.com/eiffel-hpc/eiffel/lab/scratch"
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

// A package that is installed meanwhile replaces /etc/passwd of the computer. Here the computer is a mount namespace,
// whose sshd waits for that and prints the user's name.
func TestTheUserStaysWhenTheComputersAccountsAreReplaced(t *testing.T) {
	needs.Lab(t)
	dir := scratch.Dir(t, "/var/tmp", "eiffel-host-") // not in /tmp, which a control host has of its own
	const computer = `set -eu
mkdir -p real etc work home tools/plugins
: >tools/terraform
cp /etc/passwd /etc/group /etc/nsswitch.conf real
mount --bind real /etc
(cat /etc/passwd; echo eiffel:*:20000:20000::/:/bin/sh) >etc/passwd
cp /etc/group etc
cat >sshd <<END
#!/bin/sh
touch "$DIR/up"
until [ -e "$DIR/replaced" ]; do sleep 0.01; done
id -un 20000
END
chmod +x sshd
mount --bind sshd /usr/sbin/sshd
unshare --mount sh ./start.sh &
until [ -e up ]; do
	kill -0 $!
	sleep 0.01
done
cp /etc/passwd /etc/passwd+
mv /etc/passwd+ /etc/passwd
touch replaced
wait $!
`
	if err := os.WriteFile(filepath.Join(dir, "start.sh"), []byte(controlHostScript), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", computer)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DIR=" + dir, "TOOLS=" + toolsFolder(dir),
		"TERRAFORM=/bin/true", "PLUGINS=/usr"}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != User+"\n" {
		t.Errorf("the user's name is %q: %v", out, err)
	}
}
