package machine

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

//go:embed stage.sh
var stage string

// stageFile, in a machine's folder, has the stage, so that ps(1) shows a name and not the script's text.
const stageFile = "stage.sh"

// life is a machine from power on to power off.
type life struct {
	init    *os.Process // the machine's PID 1
	ports   []port
	console *console
	pidFile string
	group   string // of its processes, if it has a group

	ended  chan struct{}
	status syscall.WaitStatus // of unshare, which is also init's; set after the end
}

// begin starts the machine's processes and returns just before its init runs. If it returns an error, none of them
// runs.
func (h *Host) begin(ctx context.Context, m *machine) (*life, error) {
	ports, err := h.ports(m.spec)
	if err != nil {
		return nil, err
	}
	if err := writeSeed(filepath.Join(m.dir, "seed"), m.spec); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(m.dir, stageFile), []byte(stage), 0o644); err != nil {
		return nil, fmt.Errorf("write stage: %w", err)
	}
	console, err := openConsole(m.consoleLog())
	if err != nil {
		return nil, err
	}
	uptime, err := hostUptime()
	if err != nil {
		console.close()
		return nil, err
	}
	cmd := stageCommand(m.spec, m.layers, m.dir, console.path, group(h.cfg.Name, m.spec.ID), uptime)
	cmd.Env = append(cmd.Env, h.volume(m.spec.ID).environ()...)
	cmd.Stdout, cmd.Stderr = console.slave, console.slave
	l := &life{ports: ports, console: console, pidFile: filepath.Join(m.dir, pidFile),
		group: group(h.cfg.Name, m.spec.ID), ended: make(chan struct{})}
	if err := h.bringUp(ctx, cmd, l); err != nil {
		said, _ := readConsole(m.consoleLog(), 3)
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(said))
	}
	return l, nil
}

// bringUp starts the stage, connects the network when the disk is mounted, and lets the stage continue.
func (h *Host) bringUp(ctx context.Context, cmd *exec.Cmd, l *life) error {
	ready, readyEnd, err := os.Pipe()
	if err != nil {
		l.console.close()
		return err
	}
	defer func() { _ = ready.Close() }()
	goEnd, proceed, err := os.Pipe()
	if err != nil {
		l.console.close()
		return errors.Join(err, readyEnd.Close())
	}
	defer func() { _ = proceed.Close() }()
	cmd.Stdin, cmd.ExtraFiles = goEnd, []*os.File{readyEnd}
	err = h.starter.start(cmd)
	_ = goEnd.Close()
	_ = readyEnd.Close()
	if err != nil {
		l.console.close()
		return fmt.Errorf("start namespaces: %w", err)
	}
	if err := h.handOver(ctx, cmd.Process.Pid, l, ready, proceed); err != nil {
		if l.init == nil || !l.signal(syscall.SIGKILL) {
			_ = cmd.Process.Kill() // its child, the stage, dies with it
		}
		h.end(cmd, l)
		return err
	}
	go h.end(cmd, l)
	return nil
}

// handOver waits until the stage is ready, attaches the network and lets the stage continue.
func (h *Host) handOver(ctx context.Context, pid int, l *life, ready, proceed *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(ready).ReadString('\n')
	if err != nil {
		return errors.Join(errors.New("mount disk: the stage failed"), ctx.Err())
	}
	init, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return fmt.Errorf("mount disk: %w", err)
	}
	// Since Go 1.23 a Process has a pidfd, so a signal cannot reach another process.
	if l.init, err = os.FindProcess(init); err != nil {
		return fmt.Errorf("find init: %w", err)
	}
	if err := h.network.attach(pid, l.ports); err != nil {
		return err
	}
	if err := os.WriteFile(l.pidFile, []byte(line), 0o644); err != nil {
		return fmt.Errorf("note init's process: %w", err)
	}
	if _, err := proceed.WriteString("go\n"); err != nil {
		return fmt.Errorf("start init: %w", err)
	}
	return nil
}

// end waits until the machine has ended, and removes what the kernel would remove later or not at all.
func (h *Host) end(cmd *exec.Cmd, l *life) {
	_ = cmd.Wait() // the status says more than the error
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		l.status = status
	}
	if err := h.network.detach(l.ports); err != nil {
		h.cfg.Log.Warn("machine's network is not removed", "error", err)
	}
	if err := removeGroups(l.group); err != nil {
		h.cfg.Log.Warn("machine's control groups are not removed", "error", err)
	}
	l.console.close()
	if l.init != nil {
		_ = l.init.Release()
	}
	_ = os.Remove(l.pidFile)
	close(l.ended)
}

// kill ends the machine as a power failure does, and returns when none of its processes runs.
func (l *life) kill() {
	l.signal(syscall.SIGKILL)
	<-l.ended
}

// runs reports whether init exists.
func (l *life) runs() bool { return l.signal(0) }

// signal reports whether init existed and received the signal.
func (l *life) signal(s syscall.Signal) bool { return l.init.Signal(s) == nil }

// rebooted reports whether the machine has requested a restart: reboot(2) in a PID namespace ends its init by SIGHUP,
// and by SIGINT for a power-off.
func (l *life) rebooted() bool { return l.status.Signaled() && l.status.Signal() == syscall.SIGHUP }

// ports returns the machine's network interfaces. The first gateway is the default route.
func (h *Host) ports(spec labcloud.Machine) ([]port, error) {
	var ports []port
	routed := false
	for i, address := range spec.Addresses {
		mac, err := net.ParseMAC(address.MAC)
		if err != nil {
			return nil, fmt.Errorf("address %s: %w", address.Prefix, err)
		}
		p := port{
			name:   fmt.Sprintf("eth%d", i),
			cable:  fmt.Sprintf("port%d", h.cables.Add(1)),
			mac:    mac,
			prefix: address.Prefix,
		}
		if address.Gateway.IsValid() && !routed {
			p.gateway, routed = address.Gateway, true
		}
		ports = append(ports, p)
	}
	if spec.Flags[labcloud.FlagNeverBoots] {
		return nil, nil // or the kernel would answer pings for it
	}
	return ports, nil
}

// bootClock runs a command in a time namespace whose clock since boot is behind by some nanoseconds, which are written
// before anything enters the namespace (time_namespaces(7)). unshare(1) has such an option only for whole seconds. Then
// slurmd would report a boot that is up to a second earlier, and Slurm, which compares seconds, would often take it for
// the boot before the one that it has asked for.
const bootClock = `my ($unshare, $flag, $seconds, $nanoseconds, @command) = @ARGV;
syscall(0 + $unshare, 0 + $flag) == 0 or die "unshare: $!";
open(my $offsets, ">", "/proc/self/timens_offsets") or die "timens_offsets: $!";
print $offsets "boottime $seconds $nanoseconds\n";
close($offsets) or die "timens_offsets: $!";
exec(@command) or die "@command: $!";`

// stageCommand runs the stage as PID 1 of new namespaces. unshare(1) stays as its parent; it ends with the thread that
// starts it, and the stage with it.
func stageCommand(
	spec labcloud.Machine, layers []string, dir, console, group string, uptime time.Duration,
) *exec.Cmd {
	lower := make([]string, 0, len(layers))
	for i := range layers {
		lower = append(lower, layers[len(layers)-1-i]) // overlayfs needs the topmost first
	}
	var masked []string
	for _, service := range []struct{ flag, program string }{
		{labcloud.FlagNoSSHD, "usr/sbin/sshd"}, {labcloud.FlagNoSlurmd, "usr/sbin/slurmd"},
		{labcloud.FlagNoMunged, "usr/sbin/munged"},
	} {
		if spec.Flags[service.flag] {
			masked = append(masked, service.program)
		}
	}
	// The difference is whole seconds, which may be negative, and nanoseconds, which may not.
	seconds := (uptime + time.Second - 1).Truncate(time.Second)
	cmd := exec.Command("perl", "-e", bootClock, strconv.Itoa(unix.SYS_UNSHARE), strconv.Itoa(unix.CLONE_NEWTIME),
		strconv.Itoa(-int(seconds/time.Second)), strconv.FormatInt(int64(seconds-uptime), 10),
		"unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child",
		"sh", filepath.Join(dir, stageFile))
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
		"ID=" + spec.ID,
		"NAME=" + spec.Name,
		"LOWER=" + strings.Join(lower, ":"),
		"DISK=" + filepath.Join(dir, "disk"),
		"ROOT=" + filepath.Join(dir, "root"),
		"SEED=" + filepath.Join(dir, "seed"),
		"CONSOLE=" + console,
		"CGROUP=" + group,
		"LOGIN_USER=" + image.LoginUser,
		"LOGIN_UID=" + strconv.Itoa(image.LoginUID),
		"MASK=" + strings.Join(masked, " "),
		"BLOCKED=" + strconv.FormatBool(spec.Flags[labcloud.FlagBlocked]),
		"FULL=" + strconv.FormatBool(spec.Flags[labcloud.FlagFullDisk]),
		"HANG=" + strconv.FormatBool(spec.Flags[labcloud.FlagNeverBoots]),
		"DELAY=" + strconv.FormatFloat(spec.BootDelay.Seconds(), 'f', 3, 64),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// writeSeed writes the files that the first boot of an instance copies to its
// disk.
func writeSeed(dir string, spec labcloud.Machine) error {
	own := "127.0.1.1"
	if len(spec.Addresses) > 0 {
		own = spec.Addresses[0].Prefix.Addr().String()
	}
	files := map[string]string{
		"hostname": spec.Name + "\n",
		"hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n" +
			own + " " + spec.Name + "\n",
		"authorized_keys": strings.Join(spec.AuthorizedKeys, "\n") + "\n",
	}
	// For cloud-init, which reads YAML.
	metadata, err := json.Marshal(map[string]any{
		"instance-id": spec.ID, "local-hostname": spec.Name, "public-keys": spec.AuthorizedKeys,
	})
	if err != nil {
		return fmt.Errorf("write seed: %w", err)
	}
	files["meta-data"] = string(metadata)
	// As on OpenStack's config drive.
	drive, err := json.Marshal(map[string]any{"uuid": spec.ID, "name": spec.Name, "meta": spec.Metadata})
	if err != nil {
		return fmt.Errorf("write seed: %w", err)
	}
	files["meta_data.json"] = string(drive)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("write seed: %w", err)
		}
	}
	return nil
}

// hostUptime returns the time since the host was booted.
func hostUptime() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("read uptime: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

// starter starts all processes of a lab on one thread that exists as long as the lab: PR_SET_PDEATHSIG acts at the end
// of the thread that forked, and Go ends threads at any time.
type starter struct{ work chan func() }

func newStarter() *starter {
	s := &starter{work: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range s.work {
			f()
		}
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	done := make(chan error)
	s.work <- func() { done <- cmd.Start() }
	return <-done
}

func (s *starter) stop() { close(s.work) }
