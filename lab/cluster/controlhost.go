package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sshPort is not 22, since the computer may have an sshd of its own.
const sshPort = 2222

func (l *Lab) makeKeys(ctx context.Context) error {
	if err := os.MkdirAll(l.file("control-host"), 0o700); err != nil {
		return err
	}
	for file, into := range map[string]*string{l.file("id_ed25519"): &l.publicKey,
		l.file("control-host", "host_key"): &l.hostKey} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f",
			file).CombinedOutput(); err != nil {
			return fmt.Errorf("make key %s: %w: %s", file, err, out)
		}
		public, err := os.ReadFile(file + ".pub")
		if err != nil {
			return err
		}
		*into = strings.TrimSpace(string(public))
	}
	return nil
}

// startSSHD starts an sshd for Slurm on the control node only: it listens on the lab's network, and accepts only the
// keys that the playbooks authorize.
func (l *Lab) startSSHD(ctx context.Context) error {
	// sshd(8) needs it for each connection; Debian's service creates it. It is not removed, since another lab may need
	// it.
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		return err
	}
	address := net.JoinHostPort(l.cfg.Gateway.Addr().String(), strconv.Itoa(sshPort))
	config := l.file("control-host", "sshd_config")
	err := os.WriteFile(config, fmt.Appendf(nil, `ListenAddress %s
HostKey %s
AuthorizedKeysFile %s
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
UseDNS no
MaxStartups 200:30:400
PidFile none
SetEnv TF_CLI_CONFIG_FILE=%s %s HOME=%s
`,
		address, l.file("control-host", "host_key"), l.file("control-host", "authorized_keys"), l.cfg.Tools.TerraformRC,
		// Of another HOME the login shell would read the start files, which may take long.
		mark(l.Dir), l.file("control-host")), 0o600)
	if err != nil {
		return err
	}
	log, err := os.Create(l.file("control-host", "sshd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	l.sshd = exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", config)
	l.sshd.Stderr = log
	l.sshd.Env = append(os.Environ(), mark(l.Dir))
	l.sshd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := l.sshd.Start(); err != nil {
		return err
	}
	l.undo = append(l.undo, func() error {
		_ = l.sshd.Process.Kill() // it may have ended by itself
		_ = l.sshd.Wait()
		return nil
	})
	return answers(ctx, address, l.file("control-host", "sshd.log"))
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

// mark is a variable in the environment of all processes that are started for the lab, and of their child processes.
func mark(dir string) string { return "EIFFEL_LAB=" + dir }

// endProcesses kills all processes that were started for the lab and still run, such as workers of reconfigure and
// Ansible's SSH connections.
func endProcesses(dir string) error {
	const tries = 100
	for range tries {
		pids, err := processesOf(dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("processes of %s do not end", dir)
}

func processesOf(dir string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // a process that has ended has none
		// sshd writes its title over its environment; the path of its configuration is in the title.
		title, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if slices.Contains(strings.Split(string(environ), "\x00"), mark(dir)) || strings.Contains(string(title),
			filepath.Join(dir, "control-host", "sshd_config")) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
