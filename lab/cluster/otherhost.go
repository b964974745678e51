package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/eiffel-hpc/eiffel/lab/procs"
)

// StartControlHost starts the control host again after StopControlHost.
func (l *Lab) StartControlHost(ctx context.Context) error { return l.startControlHost(ctx) }

// StopControlHost kills all processes on the control host at once, including its sshd, like a power loss.
func (l *Lab) StopControlHost() error {
	space, err := os.Readlink(filepath.Join("/proc", l.ControlHostSSHD(), "ns", "mnt"))
	if err != nil {
		return fmt.Errorf("the control host is not up: %w", err)
	}
	// Processes of the other host are in another namespace.
	if _, err := procs.End(func(id int) bool {
		in, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", id)) // a process that has ended has no namespace
		return in == space
	}); err != nil {
		return fmt.Errorf("stop the control host: %w", err)
	}
	_ = l.sshd.Wait() // it was killed
	return nil
}

// LoseDisk replaces the disk of the control host, which is stopped, by a new one: the same user and host key, and a
// cluster directory as in a new checkout. The declaration, the states, the user's keys and all else are gone.
func (l *Lab) LoseDisk(ctx context.Context) error {
	ssh := l.home(".ssh")
	return errors.Join(os.RemoveAll(l.Site), os.RemoveAll(ssh), os.Mkdir(ssh, 0o700),
		os.WriteFile(filepath.Join(ssh, "authorized_keys"), nil, 0o600), l.give(ssh), l.makeSite(ctx))
}

// GiveFile copies a file of this computer to the home of the control host's user, and returns its path there.
func (l *Lab) GiveFile(from string) (string, error) {
	text, err := os.ReadFile(from)
	to := l.home(filepath.Base(from))
	if err == nil {
		err = errors.Join(os.WriteFile(to, text, 0o600), l.give(to))
	}
	return filepath.Join("/home", User, filepath.Base(from)), err
}

// TakeFile moves a file from the home of the control host's user to a folder of this computer, and returns its path.
func (l *Lab) TakeFile(name, dir string) (string, error) {
	text, err := os.ReadFile(l.home(name))
	to := filepath.Join(dir, name)
	return to, errors.Join(err, os.WriteFile(to, text, 0o600), os.Remove(l.home(name)))
}

// ControlHostSSHD returns the process id of the control host's sshd.
func (l *Lab) ControlHostSSHD() string {
	pid, _ := os.ReadFile(l.host("pid"))
	return strings.TrimSpace(string(pid))
}

// OtherHost is a further control host: another mount namespace of the computer, with the same user, but with its own
// address, home and cluster directory. It has the same paths as the first one.
type OtherHost struct {
	lab  *Lab
	dir  string // of its files
	Site string // its cluster directory, by its path outside of the namespace
	// Declared is its entry in the declaration.
	Declared FurtherControlHost
}

func (o *OtherHost) file(elem ...string) string {
	return filepath.Join(append([]string{o.dir}, elem...)...)
}

// AddControlHost makes the address and the key of an additional control host. A lab has at most one.
func (l *Lab) AddControlHost(ctx context.Context, address netip.Addr) (*OtherHost, error) {
	o := &OtherHost{lab: l, dir: l.file("other-host"), Site: l.file("other-site")}
	o.Declared = FurtherControlHost{Address: address.String(), Port: sshPort}
	if err := l.Host.AddAddress(address); err != nil {
		return nil, err
	}
	err := os.Mkdir(o.dir, 0o700)
	if err == nil {
		o.Declared.HostKey, err = makeKey(ctx, o.file("host_key"))
	}
	return o, err
}

// Start copies the cluster directory and the user's home of the first control host, without its authorized keys, and
// starts the host.
func (o *OtherHost) Start(ctx context.Context) error {
	l, home := o.lab, o.file("home")
	address := net.JoinHostPort(o.Declared.Address, strconv.Itoa(o.Declared.Port))
	for from, to := range map[string]string{l.Site: o.Site, l.host("home"): home} {
		if out, err := exec.CommandContext(ctx, "cp", "--archive", from, to).CombinedOutput(); err != nil {
			return fmt.Errorf("copy %s: %w: %s", from, err, out)
		}
	}
	err := errors.Join(
		os.Remove(filepath.Join(home, User, ".ssh", "authorized_keys")),
		os.WriteFile(o.file("sshd_config"), l.sshdConfig(address, o.file("host_key")), 0o600),
		os.WriteFile(o.file("start.sh"), []byte(otherHostScript), 0o600))
	if err != nil {
		return err
	}
	log, err := os.Create(o.file("sshd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	sshd := exec.Command("nsenter", "--mount=/proc/"+l.ControlHostSSHD()+"/ns/mnt",
		"unshare", "--mount", "sh", o.file("start.sh"))
	sshd.Stdout, sshd.Stderr = log, log
	sshd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DIR=" + o.dir, "FROM=" + o.Site, "SITE=" + l.Site}
	sshd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := sshd.Start(); err != nil {
		return err
	}
	l.undo = append(l.undo, func() error {
		_ = sshd.Process.Kill() // it may have ended by itself
		_ = sshd.Wait()
		return nil
	})
	return answers(ctx, address, o.file("sshd.log"))
}

// otherHostScript runs as root in a copy of the first control host's mount namespace.
const otherHostScript = `set -eu
mount --bind "$DIR/home" /home
mount --bind "$FROM" "$SITE"
echo $$ >"$DIR/pid"
exec /usr/sbin/sshd -D -e -f "$DIR/sshd_config"
`

// Reconfigure returns a call of the tool by the host's user.
func (o *OtherHost) Reconfigure(ctx context.Context, args ...string) *exec.Cmd {
	site := o.lab.Site
	argv := []string{filepath.Join(site, "bin", "reconfigure"), "--dir", site}
	return inNamespace(ctx, o.file("pid"), o.lab.path(), site, append(argv, args...)...)
}

// AuthorizedKeys returns the text of the user's authorized_keys.
func (o *OtherHost) AuthorizedKeys() (string, error) {
	text, err := os.ReadFile(o.file("home", User, ".ssh", "authorized_keys"))
	return string(text), err
}

// SSHLog returns the log of its sshd.
func (o *OtherHost) SSHLog() (string, error) {
	text, err := os.ReadFile(o.file("sshd.log"))
	return string(text), err
}
