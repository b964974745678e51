package machine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// console is a pseudo-terminal whose slave is a machine's /dev/console and
// whose output goes to a file.
type console struct {
	slave *os.File
	path  string // of the slave, on the host
	done  chan struct{}
}

// openConsole writes the terminal's output to the file log, which it truncates: QEMU does so when a machine is switched
// on.
func openConsole(log string) (*console, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open console: %w", err)
	}
	master, slave, err := openPTY()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open console: %w", err), out.Close())
	}
	c := &console{slave: slave, path: slave.Name(), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		// The copy ends with EIO when the slave is closed, or when the disk is full; neither is an error of the
		// machine.
		_, _ = io.Copy(out, master)
		_ = master.Close()
		_ = out.Close()
	}()
	return c, nil
}

// close closes our descriptor of the slave and waits until all output is in the file. The machine must have ended.
func (c *console) close() {
	_ = c.slave.Close()
	<-c.done
}

// openPTY opens both ends of a new pseudo-terminal; see pty(7).
func openPTY() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("open /dev/ptmx", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open pseudo-terminal: %w", err), master.Close())
	}
	return master, slave, nil
}

// readConsole returns the last lines of a console's file, or all for zero or less.
func readConsole(log string, lines int) (string, error) {
	content, err := os.ReadFile(log)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read console: %w", err)
	}
	text := strings.ReplaceAll(string(content), "\r\n", "\n")
	return lastLines(text, lines), nil
}

func lastLines(text string, lines int) string {
	if lines <= 0 {
		return text
	}
	end := len(strings.TrimSuffix(text, "\n"))
	for range lines {
		if end = strings.LastIndexByte(text[:end], '\n'); end < 0 {
			return text
		}
	}
	return text[end+1:]
}
