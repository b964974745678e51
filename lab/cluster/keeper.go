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

// keeperVariable, in the environment, makes this program clean up after a lab. Its value is the lab's name.
const keeperVariable = "EIFFEL_LAB_KEEPER"

// keeperPatience limits the time for which a keeper tries to clean up, and for which it waits for another keeper.
const keeperPatience = time.Minute

// KeepIfAsked does not return in a process that [Keep] started. A program that calls Keep MUST call it first.
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

// Keep starts a process that cleans up after the named lab when this process ends in any way, including SIGKILL. This
// process ends when its parent ends, for example `go test`. Call Keep before the lab starts, and release after it is
// closed.
//
// The keeper shares this process's standard error, so `go test` waits until the keeper ends.
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
		_ = stdin.Close() // if it ends before, the error is reported below
		return keeper.Wait()
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("the keeper of lab %s: %w", name, err), release())
	}
	return release, endWithParent()
}

// keep cleans up after the lab when in reaches its end. It tells on out when it begins to wait for that.
func keep(name string, in io.Reader, out io.Writer) error {
	// Only one keeper runs at a time, so that the keeper of an old lab does not remove the files of the next one.
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
	return retry(func() error { return Cleanup(name) }) // the kernel may still be ending the lab's processes
}

func retry(do func() error) error {
	for end := time.Now().Add(keeperPatience); ; time.Sleep(20 * time.Millisecond) {
		if err := do(); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// endWithParent ends this process as soon as its parent ends. PR_SET_PDEATHSIG would act when a thread of the parent
// ends.
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
