package slurm

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/process/sockets"
)

// host is an SSH server with Slurm's tools.
type host struct {
	tools
	port     string
	key      string // file of the user's private key
	server   *ssh.ServerConfig
	sessions int // maximum number of connections

	lock   sync.Mutex
	conns  map[net.Conn]bool
	logins atomic.Int32
	most   atomic.Int32 // sessions at once on one connection
	silent atomic.Bool  // the command that holds a connection prints nothing
}

func newHost(t *testing.T, s tools) *host {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	check(t, err)
	h := &host{tools: s, port: port, conns: map[net.Conn]bool{}, sessions: 10, server: &ssh.ServerConfig{
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil },
	}}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	check(t, err)
	h.server.AddHostKey(signer)
	block, err := ssh.MarshalPrivateKey(private, "")
	check(t, err)
	h.key = filepath.Join(t.TempDir(), "key")
	check(t, os.WriteFile(h.key, pem.EncodeToMemory(block), 0o600))
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wait.Go(func() { h.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		h.cut()
		wait.Wait()
	})
	return h
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *host) serve(conn net.Conn) {
	h.lock.Lock()
	h.conns[conn] = true
	h.lock.Unlock()
	defer conn.Close()
	login, channels, requests, err := ssh.NewServerConn(conn, h.server)
	if err != nil {
		return
	}
	h.logins.Add(1)
	go ssh.DiscardRequests(requests)
	ctx, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		_ = login.Wait()
	}()
	var open atomic.Int32
	var wait sync.WaitGroup
	for channel := range channels {
		if now := open.Add(1); int(now) > h.sessions {
			open.Add(-1)
			_ = channel.Reject(ssh.Prohibited, "no more sessions")
			continue
		}
		h.most.Store(max(h.most.Load(), open.Load()))
		session, requests, err := channel.Accept()
		if err != nil {
			break
		}
		wait.Go(func() {
			defer open.Add(-1)
			h.session(ctx, session, requests)
		})
	}
	wait.Wait()
}

// session runs the forced command in a shell, as sshd does, while the connection is open.
func (h *host) session(ctx context.Context, session ssh.Channel, requests <-chan *ssh.Request) {
	defer session.Close()
	for request := range requests {
		_ = request.Reply(request.Type == "exec", nil)
		if request.Type != "exec" {
			continue
		}
		var exe struct{ Command string }
		_ = ssh.Unmarshal(request.Payload, &exe)
		var out io.Writer = session
		if h.silent.Load() && exe.Command == "hold" {
			out = io.Discard
		}
		err := process.Run(ctx, process.Cmd{
			Path: "/bin/sh", Args: []string{"-c", forced(h.t), "sh", exe.Command},
			Env:   []string{"PATH=" + h.dir + ":/usr/bin:/bin"},
			Stdin: session, Stdout: out, Stderr: session.Stderr(),
		})
		status := struct{ Code uint32 }{}
		if failed, ok := errors.AsType[*process.Error](err); ok {
			status.Code = uint32(failed.Code)
		}
		_, _ = session.SendRequest("exit-status", false, ssh.Marshal(status))
		return
	}
}

// cut breaks every connection.
func (h *host) cut() {
	h.lock.Lock()
	defer h.lock.Unlock()
	for conn := range h.conns {
		_ = conn.Close()
	}
	clear(h.conns)
}

func (h *host) ssh() []string {
	return []string{
		"ssh", "-F", "none", "-T", "-p", h.port, "-o", "UserKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=no",
		"-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-i", h.key, "slurm@127.0.0.1",
	}
}

func (h *host) wantStates(c *Client) {
	h.t.Helper()
	states, err := c.States(h.t.Context(), nodeset.NodeSet{})
	if err != nil || len(states) == 0 {
		h.t.Errorf("states %v, error %v", states, err)
	}
}

func (h *host) wantLogins(want int32) {
	h.t.Helper()
	if got := h.logins.Load(); got != want {
		h.t.Errorf("%d logins, not %d", got, want)
	}
}

func TestOneLoginServesAllCalls(t *testing.T) {
	h := newHost(t, release2205(t))
	h.set("squeue", "sleep 0.05") // so that calls overlap
	c := h.client(true, h.ssh()...)
	var wait sync.WaitGroup
	for range 30 {
		wait.Go(func() { h.wantStates(c) })
	}
	wait.Wait()
	h.wantLogins(1)
	if most := h.most.Load(); most < 3 || most > 9 {
		t.Errorf("%d sessions at once", most)
	}
}

// A call need not wait until the command that holds the connection has started Python.
func TestAConnectionIsUsedAsSoonAsItExists(t *testing.T) {
	h := newHost(t, later(t))
	h.silent.Store(true)
	h.wantStates(h.client(true, h.ssh()...))
	h.wantLogins(1)
}

func TestWithoutAKeptConnectionACallIsOneLogin(t *testing.T) {
	h := newHost(t, release2205(t)) // on which the first tool fails
	c := h.client(false, h.ssh()...)
	for n := range int32(2) {
		h.wantStates(c)
		h.wantLogins(n + 1)
	}
}

func TestABrokenConnectionFailsNoCall(t *testing.T) {
	h := newHost(t, later(t))
	c := h.client(true, h.ssh()...)
	h.wantStates(c)
	h.cut()
	h.wantStates(c)
	h.wantStates(c)
	if n := h.logins.Load(); n > 3 { // the first, one without the connection, and a new connection
		t.Errorf("%d logins", n)
	}

	// The connection breaks during a call.
	begun := filepath.Join(h.dir, "begun")
	h.set("squeue", "[ -e "+begun+" ] || { touch "+begun+"; sleep 60; }")
	var wait sync.WaitGroup
	wait.Go(func() { h.wantStates(c) })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the call did not begin")
		}
	}
	h.cut()
	wait.Wait()
}

func TestWhereNoConnectionCanBeKeptCallsHaveTheirOwn(t *testing.T) {
	h := newHost(t, later(t))
	c := New(Config{SSH: h.ssh(), Keep: true, Run: func(ctx context.Context, cmd process.Cmd) error {
		if slices.Contains(cmd.Args, "ControlMaster=yes") {
			return errors.New("no connection can be kept")
		}
		return h.run(ctx, cmd)
	}})
	t.Cleanup(c.Close)
	for range 2 {
		h.wantStates(c)
	}
	h.wantLogins(2)
}

func TestACallThatIsRefusedIsNotRepeated(t *testing.T) {
	s := later(t)
	s.set("scontrol", "exit 1")
	h := newHost(t, s)
	if err := h.client(true, h.ssh()...).Ping(t.Context()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	if calls := h.calls(); len(calls) != 1 {
		t.Errorf("calls %v", calls)
	}
}

// TestCloseLeavesNothing also ends the client's process without Close: its input is then closed.
func TestCloseLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h := newHost(t, later(t))
	var ended atomic.Int32
	run := func(ctx context.Context, cmd process.Cmd) error {
		err := h.run(ctx, cmd)
		if slices.Contains(cmd.Args, "ControlMaster=yes") {
			ended.Add(1)
		}
		return err
	}
	c := New(Config{SSH: h.ssh(), Keep: true, Run: run})
	h.wantStates(c)
	c.Close()
	c.Close()
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 || ended.Load() != 1 {
		t.Errorf("left %v, %d of 1 have ended, error %v", left, ended.Load(), err)
	}
	h.wantStates(c) // on a connection of its own

	in, input, err := os.Pipe()
	check(t, err)
	dir, err := sockets.New()
	check(t, err)
	first := &firstWrite{happened: make(chan struct{})}
	master := newConnection(h.ssh(), run).masterCommand(filepath.Join(dir.Path, "s"), in, first)
	check(t, input.Close())
	if err := run(t.Context(), master); err != nil {
		t.Error(err)
	}
	check(t, os.Remove(dir.Path)) // which is empty: ssh has removed the socket
	check(t, dir.Remove())
}

// TestCloseWaitsForCalls makes a running call end over the connection, once.
func TestCloseWaitsForCalls(t *testing.T) {
	h := newHost(t, later(t))
	c := h.client(true, h.ssh()...)
	h.wantStates(c)
	begun, end := filepath.Join(h.dir, "begun"), filepath.Join(h.dir, "end")
	h.set("squeue", "echo >>"+begun+"; while [ ! -e "+end+" ]; do sleep 0.01; done")
	var wait sync.WaitGroup
	wait.Go(func() { h.wantStates(c) })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the call did not begin")
		}
	}
	wait.Go(c.Close)
	for closed := false; !closed; time.Sleep(time.Millisecond) {
		<-c.shared.turn
		closed = c.shared.closed
		c.shared.turn <- struct{}{}
	}
	check(t, os.WriteFile(end, nil, 0o600))
	wait.Wait()
	if text, err := os.ReadFile(begun); err != nil || len(text) != 1 {
		t.Errorf("the call was made %d times, error %v", len(text), err)
	}
	h.wantLogins(1)
	h.wantStates(c)
	if h.logins.Load() == 1 {
		t.Error("a call after Close went over the closed connection")
	}
}

func TestALongFolderForTemporaryFilesIsNoHindrance(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	check(t, os.Mkdir(long, 0o700))
	t.Setenv("TMPDIR", long)
	h := newHost(t, later(t))
	c := h.client(true, h.ssh()...)
	h.wantStates(c)
	h.wantStates(c)
	h.wantLogins(1)
}
