package process_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
)

// role names the environment variable that makes the test program run as another program.
const role = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "slurmctld":
		err = likeSlurmctld(os.Args[1:])
	case "tool":
		err = tool(os.Args[1])
	case "caller":
		err = caller(os.Args[1:])
	case "owner":
		err = owner(os.Args[1:])
	case "crasher":
		err = crasher(os.Args[1:])
	default:
		err = fmt.Errorf("no such role")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// likeSlurmctld starts this program as the tool, in the way that slurmctld starts programs: with twelve signals blocked
// and descriptors closed. The second argument may be "marked", to set the variable as after CleanSignals, or "stale",
// to set it for another process id.
func likeSlurmctld(args []string) error {
	runtime.LockOSThread()
	var mask unix.Sigset_t
	for _, s := range []syscall.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP,
		syscall.SIGXCPU, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGABRT, syscall.SIGHUP,
	} {
		mask.Val[0] |= 1 << (s - 1)
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil); err != nil {
		return err
	}
	env := []string{role + "=tool", "SLURM_CONF=/etc/slurm/slurm.conf"}
	switch args[1] {
	case "marked":
		env = append(env, fmt.Sprintf("RECONFIGURE_SIGNALS_CLEANED=%d", os.Getpid()))
	case "stale":
		env = append(env, "RECONFIGURE_SIGNALS_CLEANED=1")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	for fd := range 3 {
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return syscall.Exec(program, []string{"tool", args[0]}, env)
}

// tool is a main function that calls CleanSignals first. It writes the state of its own process and of a child to a
// file.
func tool(path string) error {
	if err := process.CleanSignals(); err != nil {
		return os.WriteFile(path, []byte(err.Error()), 0o600)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "args %q\nenv %q\npid %d\n", os.Args[:1], os.Environ(), os.Getpid())
	for fd := range 3 {
		target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "fd %d %s\n", fd, target)
	}
	err := process.Run(
		context.Background(),
		process.Cmd{Path: "/bin/grep", Args: []string{"SigBlk", "/proc/self/status"}, Stdout: &out},
	)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(out.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// caller detaches a shell that writes its process id to the file args[0] and sleeps. Then it waits until it is killed;
// with a second argument it returns.
func caller(args []string) error {
	err := process.Detach(process.Cmd{
		Path: "/bin/sh",
		Args: []string{"-c", `echo $$ > "$1.new" && mv "$1.new" "$1" && exec sleep 1000`, "sh", args[0]},
		Env:  []string{"PATH=/bin:/usr/bin"},
	})
	if err != nil || len(args) > 1 {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// owner runs a shell that writes its process id and that of a child to files, and waits until it is killed. The
// arguments are the files, and what the shell does first.
func owner(args []string) error {
	script := args[2] + `
sh -c "$3"' echo $$ >"$1.new" && mv "$1.new" "$1" && exec sleep 1000' sh "$2" &
echo $$ >"$1.new" && mv "$1.new" "$1"
wait; sleep 1000`
	return process.Run(context.Background(), process.Cmd{
		Path: "/bin/sh", Args: []string{"-c", script, "sh", args[0], args[1], args[2]},
		Env: []string{"PATH=/bin:/usr/bin"}, Grace: time.Second,
	})
}

// crasher sets the limit of core files as high as it can, forbids them if the second argument says so, starts a program
// whose process id it writes to the file args[0], and waits until it is killed.
func crasher(args []string) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return err
	}
	if args[1] == "forbidden" {
		if err := process.ForbidCores(); err != nil {
			return err
		}
	}
	// In a folder of its own, since all cores may have the same name.
	const script = `mkdir child && cd child && echo $$ > "$1.new" && mv "$1.new" "$1" && exec sleep 1000`
	return process.Run(context.Background(), process.Cmd{
		Path: "/bin/sh", Args: []string{"-c", script, "sh", args[0]}, Env: []string{"PATH=/bin:/usr/bin"},
	})
}

// play returns the command that runs this program in a role.
func play(t *testing.T, part string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = []string{role + "=" + part}
	cmd.Stderr = t.Output()
	return cmd
}

// eventually polls until a condition holds, and fails the test if it never does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 10 seconds still not true: %s", what)
		}
	}
}

// running reports whether a process is running. A zombie is not.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// pidFrom waits for a process id in a file. The process is killed when the test ends.
func pidFrom(t *testing.T, path string) int {
	t.Helper()
	eventually(t, "a process id in "+filepath.Base(path), func() bool { _, err := os.Stat(path); return err == nil })
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}
