package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/process/sockets"
)

const (
	// sessions is the maximum number of concurrent calls over the connection; further calls wait. sshd allows ten
	// sessions by default (sshd_config(5), MaxSessions), and the connection itself uses one.
	sessions = 8
	// reconnectPause is how long each call uses its own connection after the shared one could not be made.
	reconnectPause = time.Minute
	// sshFailed is the exit status of ssh if ssh itself, not the remote command, failed (ssh(1)).
	sshFailed = 255
)

// connection is one SSH connection for many calls (ssh_config(5), ControlMaster). An ssh process holds it open with
// the command hold. The command ends when we close its input, or when this process dies for any reason.
type connection struct {
	ssh   []string
	run   func(context.Context, process.Cmd) error
	slots chan struct{}

	turn   chan struct{} // has one token: its holder may read and change the fields below
	master *master       // nil: there is none
	retry  time.Time     // no master is started before this time
	closed bool          // no call begins over the connection
}

// master is the ssh process that holds the connection.
type master struct {
	socket string
	ended  chan struct{}
	end    context.CancelFunc
}

func newConnection(ssh []string, run func(context.Context, process.Cmd) error) *connection {
	c := &connection{ssh: ssh, run: run, slots: make(chan struct{}, sessions), turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// use returns the words of an ssh command over the connection, and makes the connection if there is none. When the
// call has ended, its error must be passed to done. False means that there is no connection, or that ctx has ended.
func (c *connection) use(ctx context.Context) (words []string, done func(error), ok bool) {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, false
	}
	m := c.current(ctx)
	if m == nil {
		<-c.slots
		return nil, nil, false
	}
	done = func(err error) {
		<-c.slots
		if brokenConnection(err) {
			m.end() // the next call makes a new connection
		}
	}
	return append([]string{c.ssh[0], "-S", m.socket, "-o", "ControlMaster=no"}, c.ssh[1:]...), done, true
}

// current returns the existing master, or a new one.
func (c *connection) current(ctx context.Context) *master {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return nil
	}
	defer func() { c.turn <- struct{}{} }()
	if c.closed {
		return nil
	}
	if c.master != nil && !c.master.over() {
		return c.master
	}
	if time.Now().Before(c.retry) {
		return nil
	}
	var err error
	if c.master, err = c.start(ctx); err != nil && ctx.Err() == nil {
		c.retry = time.Now().Add(reconnectPause)
	}
	return c.master
}

// close ends the connection when the calls over it have ended. It must be called once.
func (c *connection) close() {
	<-c.turn
	c.closed = true
	m := c.master
	c.turn <- struct{}{}
	for range sessions {
		c.slots <- struct{}{}
	}
	if m != nil {
		m.end()
		<-m.ended
	}
	for range sessions {
		<-c.slots
	}
}

// start makes the connection and returns when it is usable.
func (c *connection) start(ctx context.Context) (*master, error) {
	dir, err := sockets.New()
	if err != nil {
		return nil, err
	}
	in, input, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	socket := filepath.Join(dir.Path, "s")
	m := &master{socket: strings.ReplaceAll(socket, "%", "%%"), ended: make(chan struct{}), end: end}
	first := &firstWrite{happened: make(chan struct{})}
	go func() {
		defer close(m.ended)
		// The error is not needed: the calls notice that there is no connection.
		_ = c.run(running, c.masterCommand(m.socket, in, first))
		end()
		_, _, _ = in.Close(), input.Close(), dir.Remove()
	}()
	// ssh makes the socket after the login, before the command begins, whose line comes later.
	for {
		if _, err := os.Lstat(socket); err == nil {
			return m, nil
		}
		select {
		case <-first.happened:
			return m, nil
		case <-m.ended:
			return nil, errors.New("the connection could not be made")
		case <-ctx.Done():
			end()
			<-m.ended
			return nil, ctx.Err()
		case <-time.After(socketPause):
		}
	}
}

// socketPause is the time between two looks for the socket of a new connection.
const socketPause = 5 * time.Millisecond

// masterCommand returns a command that ends within 15 s if the other end stops to answer, so that no call waits long.
func (c *connection) masterCommand(socket string, in *os.File, out *firstWrite) process.Cmd {
	options := []string{
		"-S", socket, "-o", "ControlMaster=yes", "-o", "ControlPersist=no",
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
	}
	const hold = "hold" // this command prints a line, then waits for the end of its input
	return process.Cmd{
		Path: c.ssh[0], Args: append(append(options, c.ssh[1:]...), hold), Stdin: in, Stdout: out, Grace: time.Second,
	}
}

func (m *master) over() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

// brokenConnection reports whether ssh itself has failed, not the command that it ran.
func brokenConnection(err error) bool {
	failed, ok := errors.AsType[*process.Error](err)
	return ok && failed.Code == sshFailed
}

// firstWrite is a writer that closes a channel at the first write.
type firstWrite struct {
	once     sync.Once
	happened chan struct{}
}

func (f *firstWrite) Write(p []byte) (int, error) {
	f.once.Do(func() { close(f.happened) })
	return len(p), nil
}
