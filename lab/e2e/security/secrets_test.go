package security_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// secret is text that only some files of the lab may contain.
type secret struct {
	text    string
	holders []string // patterns of paths in the lab's folder
}

// home is the folder of the control host's user, in the lab's folder.
const home = cluster.ControlHostName + "/home/" + cluster.User + "/"

// TestSecretsAreNowhereElse deploys and resumes, makes an instance, a playbook run and the login to the cloud fail, and
// crashes a playbook run. Then it searches all output, each command line, and each file of the control host and of the
// nodes.
func TestSecretsAreNowhereElse(t *testing.T) {
	secrets := seed(t)
	commands := recordCommands(t)
	var said strings.Builder
	call := func(args ...string) (code int) {
		out, code := lab.Call(t, args...)
		said.WriteString(out)
		return code
	}

	lab.Order(t, labcloud.Fault{Kind: labcloud.NoValidHost, Server: "node04", Count: 1})
	id := lab.Job(t, "--nodelist=node03", "--wrap=true")
	if code := call("resume", "node04"); code == 0 {
		t.Error("an instance came up that cannot be made")
	}
	call("evidence", "node04")
	lab.AwaitJob(t, id, "COMPLETED")

	crashed := crashing(t, "site.yml")
	if code := call("deploy"); code == 0 {
		t.Error("deploy succeeded although the playbook run crashed")
	}
	crashed()

	lab.On(t, "node02", "sh", "-c", "mv /etc/munge /etc/munge.away && touch /etc/munge")
	if code := call("deploy"); code == 0 {
		t.Error("a node without a folder for the munge key was configured")
	}
	call("evidence", "node02")
	lab.On(t, "node02", "sh", "-c", "rm /etc/munge && mv /etc/munge.away /etc/munge")
	if code := call("deploy"); code != 0 {
		t.Errorf("deploy: exit code %d\n%s", code, said.String())
	}
	call("status", "--json")

	const wrong, typo = "wrong-clouds.yaml", "a-password-with-a-typo"
	secrets["wrong password"] = secret{typo, []string{home + wrong}}
	clouds, err := os.ReadFile(filepath.Join(lab.Site, "clouds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write := lab.OnControlHost(t.Context(), lab.Site, "sh", "-c", "umask 077; cat >~/"+wrong)
	write.Stdin = bytes.NewReader(bytes.ReplaceAll(clouds, []byte(cluster.Password), []byte(typo)))
	if err := write.Run(); err != nil {
		t.Fatal(err)
	}
	defer onControlHost(t, "sh", "-c", "rm ~/"+wrong)
	before := said.Len()
	environ := lab.Environ
	lab.Environ = append(slices.Clone(environ), "OS_CLIENT_CONFIG_FILE=/home/"+cluster.User+"/"+wrong)
	call("status")
	lab.Environ = environ
	if out := said.String()[before:]; !strings.Contains(out, "401") && !strings.Contains(out, "uthenti") {
		t.Errorf("the wrong password is not noticed:\n%s", out)
	}
	lab.AwaitQuiet(t)

	lines := commands()
	if !bytes.Contains(lines, []byte("terraform")) || !bytes.Contains(lines, []byte("ansible-playbook")) {
		t.Errorf("the commands are not recorded:\n%s", lines)
	}
	for name, s := range secrets {
		if s.in([]byte(said.String())) {
			t.Errorf("%s was printed:\n%s", name, said.String())
		}
		if s.in(lines) {
			t.Errorf("%s is in a command line", name)
		}
	}
	search(t, secrets)
}

// crashing aborts the next program that starts on the control host with a file of this name as an argument. Until the
// result is called, the limit of core files there is as high as possible. An earlier operation may have an
// ansible-playbook of its own, which has started and waits for nodes: that one runs another playbook.
func crashing(t *testing.T, name string) func() {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &before); err != nil {
		t.Fatal(err)
	}
	// Child processes inherit it.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: before.Max, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			processes, _ := lab.ControlHostProcesses()
			for _, p := range processes {
				if slices.ContainsFunc(p.Args, func(arg string) bool { return filepath.Base(arg) == name }) {
					done <- unix.Kill(p.ID, unix.SIGABRT) == nil
					return
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		done <- false
	}()
	return func() {
		t.Helper()
		cancel()
		if !<-done {
			t.Errorf("no program with %s was aborted", name)
		}
		if err := unix.Setrlimit(unix.RLIMIT_CORE, &before); err != nil {
			t.Error(err)
		}
	}
}

// seed returns the secrets by name. It sets those of the environment.
func seed(t *testing.T) map[string]secret {
	t.Helper()
	secrets := map[string]secret{"cloud": {cluster.Password, []string{"site/clouds.yaml"}}}
	for _, name := range []string{
		"OS_PASSWORD", "OS_TOKEN", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "TF_VAR_password",
	} {
		secrets[name] = secret{text: "seeded-into-" + strings.ToLower(name)}
		lab.Environ = append(lab.Environ, name+"="+secrets[name].text)
	}
	t.Cleanup(func() { lab.Environ = nil })

	variables := filepath.Join(lab.Site, "group_vars", "cluster.yml")
	before, err := os.ReadFile(variables)
	if err != nil {
		t.Fatal(err)
	}
	const own = "seeded-into-the-variables"
	secrets["Ansible's variables"] = secret{own, []string{"site/group_vars/cluster.yml"}}
	put := func(text []byte, mode fs.FileMode) {
		if err := errors.Join(os.WriteFile(variables, text, mode), os.Chmod(variables, mode)); err != nil {
			t.Error(err)
		}
	}
	put(append(slices.Clone(before), "site_password: "+own+"\n"...), 0o600)
	t.Cleanup(func() { put(before, 0o644) })

	secrets["munge key"] = secret{lab.OnControl(t, "cat", "/etc/munge/munge.key"),
		[]string{"site/state/ansible/given.json", "machines/*/disk/upper/etc/munge/munge.key"}}
	// All keys begin with the same line.
	private := func(text string) string { return strings.Split(text, "\n")[2] }
	for name, path := range map[string]string{
		"admin's key": home + ".ssh/id_ed25519", "host key": cluster.ControlHostName + "/host_key",
		"key for Slurm": "site/state/slurm_key",
	} {
		text, err := os.ReadFile(filepath.Join(lab.Dir, path))
		if err != nil {
			t.Fatal(err)
		}
		secrets[name] = secret{private(string(text)), []string{path}}
	}
	const slurms = "/etc/slurm/reconfigure/id_ed25519"
	text := private(lab.OnControl(t, "cat", slurms))
	secrets["Slurm's key"] = secret{text, []string{"machines/*/disk/upper" + slurms}}
	return secrets
}

// in reports whether text contains the secret, plain or in Base64.
func (s secret) in(text []byte) bool {
	encoded := base64.StdEncoding.EncodeToString([]byte(s.text))
	return bytes.Contains(text, []byte(s.text)) || bytes.Contains(text, []byte(encoded[:len(encoded)-4]))
}

func (s secret) mayBeIn(path string) bool {
	for _, pattern := range s.holders {
		if ok, _ := filepath.Match(pattern, path); ok {
			return true
		}
	}
	return false
}

// search reads all files of the lab except those of the images.
func search(t *testing.T, secrets map[string]secret) {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(lab.Dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(lab.Dir, path)
		if err != nil {
			return err
		}
		if relative == "images" {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		var info fs.FileInfo
		text, err := os.ReadFile(path)
		if err == nil {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for name, s := range secrets {
			switch has := s.in(text); {
			case has && !s.mayBeIn(relative):
				t.Errorf("%s is in %s", name, relative)
			case has && info.Mode().Perm()&0o077 != 0:
				t.Errorf("%s has %s, with mode %s", relative, name, info.Mode())
			case has:
				found[name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for name, s := range secrets {
		if len(s.holders) > 0 && !found[name] {
			t.Errorf("%s was not found where it belongs, so the search is no proof", name)
		}
	}
}

// recordCommands records the command line of each program that is started on the computer, from the kernel's events
// (Linux, drivers/connector/cn_proc.c), until the result is called. Programs that end at once may be missed.
func recordCommands(t *testing.T) func() []byte {
	t.Helper()
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR)
	if err != nil {
		t.Fatalf("the kernel's events of processes: %v", err)
	}
	const idxProc, valProc, listen, ignore, exec = 1, 1, 1, 2, 2
	if err := unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: idxProc}); err != nil {
		t.Fatalf("the kernel's events of processes: %v", err)
	}
	// No event of a burst may be lost.
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20); err != nil {
		t.Fatal(err)
	}
	tell := func(operation uint32) {
		var message bytes.Buffer
		for _, part := range []any{
			unix.NlMsghdr{Len: unix.SizeofNlMsghdr + 20 + 4, Type: unix.NLMSG_DONE}, [2]uint32{idxProc, valProc},
			[2]uint32{}, [2]uint16{4, 0}, operation,
		} {
			if err := binary.Write(&message, binary.NativeEndian, part); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Send(socket, message.Bytes(), 0); err != nil {
			t.Errorf("the kernel's events of processes: %v", err)
		}
	}
	// This makes the reader notice the end.
	pause := unix.Timeval{Usec: 100_000}
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &pause); err != nil {
		t.Fatal(err)
	}
	tell(listen)
	var lines bytes.Buffer
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buffer := make([]byte, 4096)
		for {
			n, _, err := unix.Recvfrom(socket, buffer, 0)
			if err != nil && stop.Load() {
				return
			}
			const head = unix.SizeofNlMsghdr + 20 // struct proc_event follows: what, cpu, timestamp, process
			if err != nil || n < head+24 || binary.NativeEndian.Uint32(buffer[head:]) != exec {
				continue
			}
			pid := binary.NativeEndian.Uint32(buffer[head+16:])
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
			lines.Write(append(bytes.ReplaceAll(line, []byte{0}, []byte{' '}), '\n'))
		}
	}()
	return func() []byte {
		tell(ignore)
		stop.Store(true)
		<-ended
		_ = unix.Close(socket)
		return lines.Bytes()
	}
}
