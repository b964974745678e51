package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeperVariable, in the environment, has this program clean up after a lab. Its value is the lab's name.
const keeperVariable = "EIFFEL_LAB_KEEPER"

// keeperPatience is how long a keeper tries to clean up, and how long it waits for another one that does.
const keeperPatience = time.Minute

// KeepIfAsked does not return where this process was started by [Keep]. A program that calls Keep MUST call it first.
func KeepIfAsked() {
	name := os.Getenv(keeperVariable)
	if name == "" {
		return
	}
	if err := keep(name, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "clean up after lab %s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Keep starts a process that cleans up after the lab of a name when this process has ended in any way, also by SIGKILL.
// This process ends when its parent does, `go test` for instance. The lab is started afterwards; release is called when
// it is closed.
//
// The other process has this one's standard error, so `go test` waits for its end.
func Keep(name string) (release func() error, err error) {
	keeper := exec.Command("/proc/self/exe")
	keeper.Env = append(os.Environ(), keeperVariable+"="+name)
	keeper.Stderr = os.Stderr
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // so that Ctrl-C does not end it
	stdin, err := keeper.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := keeper.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := keeper.Start(); err != nil {
		return nil, err
	}
	release = func() error {
		_ = stdin.Close() // an end before is reported below
		return keeper.Wait()
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("the keeper of lab %s: %w", name, err), release())
	}
	return release, endWithParent()
}

// keep cleans up after the lab when in has ended. It says on out that it waits for that.
func keep(name string, in io.Reader, out io.Writer) error {
	// One at a time, so that the keeper of a former lab does not remove the files of the next one.
	var claim net.Listener
	err := retry(func() (err error) {
		claim, err = net.Listen("unix", "@eiffel-lab-keeper/"+name) // it ends with this process (unix(7))
		return err
	})
	if err != nil {
		return fmt.Errorf("it runs already: %w", err)
	}
	defer claim.Close()
	if err := Cleanup(name); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	_, _ = io.Copy(io.Discard, in)
	return retry(func() error { return Cleanup(name) }) // the kernel may be ending the lab's processes still
}

func retry(do func() error) error {
	for end := time.Now().Add(keeperPatience); ; time.Sleep(20 * time.Millisecond) {
		if err := do(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// endWithParent has this process end as soon as its parent has. PR_SET_PDEATHSIG would act when a thread of it ends.
func endWithParent() error {
	parent, err := unix.PidfdOpen(os.Getppid(), 0)
	if err != nil {
		return fmt.Errorf("open the parent of this process: %w", err)
	}
	go func() {
		for {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(parent), Events: unix.POLLIN}}, -1)
			if n > 0 {
				os.Exit(1)
			}
		}
	}()
	return nil
}
