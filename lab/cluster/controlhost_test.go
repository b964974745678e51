package cluster

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// A computer on which eiffel is installed already has the user, with the locked password that useradd(8) sets. Here the
// computer is a mount namespace with such a user.
func TestTheUserOfAnInstallationMayLogIn(t *testing.T) {
	needs.Lab(t)
	dir := scratch.Dir(t, "/var/tmp", "eiffel-host-") // not in /tmp, since a control host has a separate one
	in := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	for _, folder := range []string{"computer", "etc", "work", "home/" + User + "/.ssh", "tools/plugins", "tools/bin"} {
		if err := os.MkdirAll(in(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{
		"computer/passwd": "root:x:0:0:root:/root:/bin/bash\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n" +
			"eiffel:x:1000:1000::/home/eiffel:/bin/bash\n",
		"computer/group":         "root:x:0:\nnogroup:x:65534:\neiffel:x:1000:\n",
		"computer/shadow":        "root:secret:19000:0:99999:7:::\neiffel:!:19000:0:99999:7:::\n",
		"computer/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\n",
		"tools/bin/terraform":    "",
		"start.sh":               controlHostScript,
	} {
		if err := os.WriteFile(in(file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"computer/passwd", "computer/group", "computer/nsswitch.conf"} {
		if err := os.Chmod(in(file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	uid, err := addUser(in("computer"), in("etc"))
	if err != nil {
		t.Fatal(err)
	}
	if shadow, err := os.ReadFile(in("etc", "shadow")); err != nil || strings.Contains(string(shadow), "secret") {
		t.Errorf("the lab has the computer's passwords: %q (%v)", shadow, err)
	}
	key := in("home", User, ".ssh", "id_ed25519")
	public, err := makeKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := makeKey(t.Context(), in("host_key")); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().(*net.TCPAddr)
	err = errors.Join(free.Close(), os.MkdirAll("/run/sshd", 0o755),
		os.WriteFile(in("home", User, ".ssh", "authorized_keys"), []byte(public+"\n"), 0o600),
		os.WriteFile(in("sshd_config"), (&Lab{}).sshdConfig(address.String(), in("host_key")), 0o600),
		(&Lab{uid: uid}).give(in("home", User)))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(in("sshd.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	const computer = "mount --bind computer /etc && exec unshare --mount sh ./start.sh"
	sshd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", computer)
	sshd.Dir, sshd.Stdout, sshd.Stderr = dir, log, log
	sshd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DIR=" + dir, "TOOLS=" + in("tools"),
		"TERRAFORM=/bin/true", "PLUGINS=/usr", "ANSIBLE="}
	if err := sshd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sshd.Process.Kill()
		_ = sshd.Wait()
	}()
	if err := answers(t.Context(), address.String(), in("sshd.log")); err != nil {
		t.Fatal(err)
	}
	login := loginByKey(t.Context(), key, address.IP.String(), address.Port)
	if out, err := login.CombinedOutput(); err != nil {
		text, _ := os.ReadFile(in("sshd.log"))
		t.Errorf("log in: %v\n%s%s", err, out, text)
	}
}

// The installation of a package replaces the computer's /etc/passwd meanwhile. Here the computer is a mount namespace,
// whose sshd waits for that and prints the user's name.
func TestTheUserStaysWhenTheComputersAccountsAreReplaced(t *testing.T) {
	needs.Lab(t)
	dir := scratch.Dir(t, "/var/tmp", "eiffel-host-") // not in /tmp, since a control host has a separate one
	const computer = `set -eu
mkdir -p real etc work home tools/plugins tools/bin
: >tools/bin/terraform
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
		"TERRAFORM=/bin/true", "PLUGINS=/usr", "ANSIBLE="}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != User+"\n" {
		t.Errorf("the user's name is %q: %v", out, err)
	}
}
