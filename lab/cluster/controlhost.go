package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/procs"
	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// The control host is this computer in another mount namespace. An additional user exists there, with a home and keys,
// who owns the cluster directory. The computer's /tmp and the homes of root and the other users are not visible there.
// The control host may also be a machine: see controlmachine.go.

// ControlHostName is the name of the control host for [Enter].
const ControlHostName = "control-host"

// User is the control host's user, who runs reconfigure.
const User = "eiffel"

// sshPort is not 22, since the computer may run another sshd.
const sshPort = 2222

//go:embed controlhost.sh
var controlHostScript string

// host returns the path of one of the control host's files.
func (l *Lab) host(elem ...string) string {
	return l.file(append([]string{ControlHostName}, elem...)...)
}

// home returns the path of a user's file outside of the namespace.
func (l *Lab) home(elem ...string) string {
	return l.host(append([]string{"home", User}, elem...)...)
}

// toolsFolder returns the folder of Terraform and the provider's mirror on the control host.
func toolsFolder(dir string) string { return filepath.Join(dir, "tools") }

// terraformBinary returns the path of Terraform there. It is in a folder of the same name as among the tools, by which
// Terraform knows whether it is tools.Paths.QuickTerraform.
func (l *Lab) terraformBinary() string {
	return filepath.Join(toolsFolder(l.Dir), filepath.Base(filepath.Dir(l.cfg.Tools.Terraform)), "terraform")
}

func (l *Lab) pluginsFolder() string { return filepath.Join(toolsFolder(l.Dir), "plugins") }

func (l *Lab) ansibleFolder() string { return filepath.Join(toolsFolder(l.Dir), "ansible") }

// defaultPath is PATH of logins on Debian.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// path returns PATH of the user's logins to this computer as a control host.
func (l *Lab) path() string {
	if l.cfg.Tools.Ansible == "" {
		return defaultPath
	}
	return l.ansibleFolder() + ":" + defaultPath
}

// makeUser makes the user's account, home and key, and the host key.
func (l *Lab) makeUser(ctx context.Context) error {
	err := errors.Join(
		os.Mkdir(l.host(), 0o700), os.Mkdir(l.host("etc"), 0o755), os.Mkdir(l.host("work"), 0o755),
		os.MkdirAll(l.home(".ssh"), 0o700), os.Chmod(l.host("home"), 0o755),
		// Terraform finds the provider there without an environment variable, also in Slurm's calls.
		os.WriteFile(l.home(".terraformrc"), []byte(tools.TerraformRC(l.pluginsFolder())), 0o644))
	if err != nil {
		return err
	}
	if l.uid, err = addUser("/etc", l.host("etc")); err != nil {
		return err
	}
	if l.publicKey, err = makeKey(ctx, l.home(".ssh", "id_ed25519")); err != nil {
		return err
	}
	if l.hostKey, err = makeKey(ctx, l.host("host_key")); err != nil {
		return err
	}
	return l.give(l.home())
}

// makeKey makes a private key, and returns its public key.
func makeKey(ctx context.Context, file string) (public string, err error) {
	argv := []string{"-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", file}
	if out, err := exec.CommandContext(ctx, "ssh-keygen", argv...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("make key %s: %w: %s", file, err, out)
	}
	text, err := os.ReadFile(file + ".pub")
	return strings.TrimSpace(string(text)), err
}

// give makes the user the owner of files and folders with all their contents.
func (l *Lab) give(paths ...string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, l.uid, l.uid)
		}))
	}
	return errors.Join(errs...)
}

// startControlHost makes the namespace, and starts an sshd in it for Slurm on the control node: it listens on the lab's
// network, and accepts only keys of the user's authorized_keys.
func (l *Lab) startControlHost(ctx context.Context) error {
	// sshd(8) needs it for each connection; Debian's service creates it. It is not removed, since another lab may need
	// it.
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		return err
	}
	address := net.JoinHostPort(l.cfg.Gateway.Addr().String(), strconv.Itoa(sshPort))
	err := errors.Join(
		os.WriteFile(l.host("sshd_config"), l.sshdConfig(address, l.host("host_key")), 0o600),
		os.WriteFile(l.host("start.sh"), []byte(controlHostScript), 0o600),
		// The script mounts over them.
		os.MkdirAll(l.pluginsFolder(), 0o755), os.MkdirAll(filepath.Dir(l.terraformBinary()), 0o755),
		os.MkdirAll(l.ansibleFolder(), 0o755),
		os.WriteFile(l.terraformBinary(), nil, 0o644))
	if err != nil {
		return err
	}
	log, err := os.Create(l.host("sshd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	l.sshd = exec.Command("unshare", "--mount", "sh", l.host("start.sh"))
	l.sshd.Stdout, l.sshd.Stderr = log, log
	l.sshd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DIR=" + l.host(), "TOOLS=" + toolsFolder(l.Dir),
		"TERRAFORM=" + l.cfg.Tools.Terraform, "PLUGINS=" + l.cfg.Tools.Plugins, "ANSIBLE=" + l.cfg.Tools.Ansible,
	}
	l.sshd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := l.sshd.Start(); err != nil {
		return err
	}
	l.undo = append(l.undo, func() error {
		_ = l.sshd.Process.Kill() // it may have ended by itself
		_ = l.sshd.Wait()
		return nil
	})
	if err := answers(ctx, address, l.host("sshd.log")); err != nil {
		return err
	}
	return l.acceptsUser(ctx)
}

// acceptsUser logs in to the control host as its user by key, as slurmctld does later. Without this, a rejected key
// shows only when the first job's nodes do not come. A host that starts again has the keys of Slurm's scripts: their
// file is left alone.
func (l *Lab) acceptsUser(ctx context.Context) error {
	keys := l.home(".ssh", "authorized_keys")
	if _, err := os.Stat(keys); err == nil {
		return nil
	}
	err := errors.Join(os.WriteFile(keys, []byte(l.publicKey+"\n"), 0o600), l.give(keys))
	if err != nil {
		return err
	}
	login := loginByKey(ctx, l.home(".ssh", "id_ed25519"), l.cfg.Gateway.Addr().String(), sshPort)
	out, err := login.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(l.host("sshd.log"))
		err = fmt.Errorf("log in to the control host as %s: %w\n%s\nlog of its sshd:\n%s", User, err, out, log)
	}
	return errors.Join(err, os.Remove(keys))
}

// loginByKey returns a command that runs true on a control host as its user.
func loginByKey(ctx context.Context, key, address string, port int) *exec.Cmd {
	return exec.CommandContext(ctx, "ssh", "-F", "none", "-i", key, "-o", "BatchMode=yes", "-o", "IdentityAgent=none",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
		"-o", "ConnectTimeout=30", "-p", strconv.Itoa(port), User+"@"+address, "true")
}

// sshdConfig returns the configuration of a control host's sshd.
func (l *Lab) sshdConfig(address, hostKey string) []byte {
	return fmt.Appendf(nil, `ListenAddress %s
HostKey %s
SetEnv PATH=%s
AuthorizedKeysFile .ssh/authorized_keys
StrictModes yes
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 200:30:400
PidFile none
`, address, hostKey, l.path())
}

func answers(ctx context.Context, address, log string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			text, _ := os.ReadFile(log)
			return fmt.Errorf("sshd does not answer at %s: %w\n%s", address, err, text)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// OnControlHost returns a command that runs on the control host as its user, in the folder dir, with the environment of
// a login and the entries of l.Environ. Its Dir MUST NOT be set.
func (l *Lab) OnControlHost(ctx context.Context, dir string, argv ...string) *exec.Cmd {
	if l.hasMachine() {
		return l.onMachine(ctx, dir, argv...)
	}
	cmd := inNamespace(ctx, l.host("pid"), l.path(), dir, argv...)
	cmd.Env = append(cmd.Env, l.Environ...)
	return cmd
}

// inNamespace is [Lab.OnControlHost] with a PATH, in the namespaces of the process whose id is in a file.
func inNamespace(ctx context.Context, pidFile, path, dir string, argv ...string) *exec.Cmd {
	pid, err := os.ReadFile(pidFile)
	args := []string{
		"--mount=/proc/" + strings.TrimSpace(string(pid)) + "/ns/mnt", "--wdns=" + dir,
		"setpriv", "--reuid=" + User, "--regid=" + User, "--init-groups", "--",
	}
	cmd := exec.CommandContext(ctx, "nsenter", append(args, argv...)...)
	cmd.Env = login(path)
	if err != nil {
		cmd.Err = fmt.Errorf("the control host is not up: %w", err)
	}
	return cmd
}

// login returns the environment of the user's logins.
func login(path string) []string {
	return []string{
		"HOME=/home/" + User, "USER=" + User, "LOGNAME=" + User, "SHELL=/bin/bash", "LANG=C.UTF-8",
		"PATH=" + path,
	}
}

// ControlHostProcesses returns all processes on the control host.
func (l *Lab) ControlHostProcesses() ([]procs.Process, error) {
	return procs.Find(procs.MountPoint(onControlHost(l.Dir)))
}

// endProcesses kills all processes on the control host of the lab in the folder dir, such as workers of reconfigure and
// Ansible's SSH connections. With the last one the namespace ends, and its mounts. Before those are made, the process
// that makes them has the variable.
func endProcesses(dir string) error {
	starts := procs.Variable("DIR=" + filepath.Join(dir, ControlHostName))
	if _, err := procs.End(procs.Any(procs.MountPoint(onControlHost(dir)), starts)); err != nil {
		return fmt.Errorf("end the control host in %s: %w", dir, err)
	}
	return nil
}

// onControlHost returns what recognises the mount namespace of the control host of the lab in the folder dir.
func onControlHost(dir string) func(mountPoint string) bool {
	return func(mountPoint string) bool { return strings.HasPrefix(mountPoint, toolsFolder(dir)+"/") }
}
