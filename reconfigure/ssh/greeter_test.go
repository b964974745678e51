package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// machine is an SSH server whose keys may change, as when an instance is rebuilt.
type machine struct {
	address string
	lock    sync.Mutex
	keys    []ssh.Signer
	logins  atomic.Int32
}

func boot(t *testing.T, keys ...ssh.Signer) *machine {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{address: listener.Addr().String(), keys: keys}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wait.Go(func() { m.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); wait.Wait() })
	return m
}

func (m *machine) serve(conn net.Conn) {
	defer conn.Close()
	config := &ssh.ServerConfig{NoClientAuth: true, AuthLogCallback: func(ssh.ConnMetadata, string, error) { m.logins.Add(1) }}
	m.lock.Lock()
	for _, key := range m.keys {
		config.AddHostKey(key)
	}
	m.lock.Unlock()
	_, _, _, _ = ssh.NewServerConn(conn, config)
}

func (m *machine) rebuild(keys ...ssh.Signer) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.keys = keys
}

// closed is an address at which nobody answers.
func closed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// greeter has a console that shows, at each look, the next of the given texts, and then the last one.
func greeter(t *testing.T, policy reconfigure.HostKeyPolicy, timeout time.Duration, logs ...string) (Greeter, *atomic.Int32) {
	t.Helper()
	looks := &atomic.Int32{}
	return Greeter{Known: knownHosts(t), Policy: policy, Timeout: timeout, Poll: time.Millisecond, Console: func(context.Context, string, int) (string, error) {
		n := int(looks.Add(1))
		return logs[min(n, len(logs))-1], nil
	}}, looks
}

const (
	long  = 20 * time.Second // never reached when all is well
	short = 150 * time.Millisecond
)

func (m *machine) instance() []reconfigure.Instance {
	return []reconfigure.Instance{{Node: "node01", ID: "id-1", Address: m.address}}
}

var node01 = nodeset.Of("node01")

func expectNone(t *testing.T, failures reconfigure.Failures) {
	t.Helper()
	if len(failures) > 0 {
		t.Errorf("failures %v", failures)
	}
}

func expectFailure(t *testing.T, failures reconfigure.Failures, part string) {
	t.Helper()
	if err := failures["node01"]; len(failures) != 1 || err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("failures %v, want %q", failures, part)
	}
}

func TestFreshInstanceIsKnownByItsConsole(t *testing.T) {
	keys := []ssh.Signer{newKey(t, "rsa"), newKey(t, "ecdsa"), newKey(t, "ed25519")}
	m := boot(t, keys...)
	g, _ := greeter(t, reconfigure.HostKeysConsole, long, "", "booting", block(public(keys...)...))
	g.Known.learnt(t, m.address, newKey(t, "ed25519").PublicKey()) // of the instance that had the address before
	expectNone(t, g.Await(t.Context(), m.instance(), node01, nil))
	expectKeys(t, g.Known, m.address, public(keys...)...)
	if n := m.logins.Load(); n != 0 {
		t.Errorf("%d logins were tried", n)
	}
}

// A server has a key of each type; the one that it would offer first need not be the one that is known.
func TestKnownKeyOfAnyTypeIsAskedFor(t *testing.T) {
	keys := []ssh.Signer{newKey(t, "ed25519"), newKey(t, "ecdsa"), newKey(t, "rsa")}
	m := boot(t, keys...)
	for _, key := range keys {
		g, _ := greeter(t, reconfigure.HostKeysConsole, long, block(key.PublicKey()))
		expectNone(t, g.Await(t.Context(), m.instance(), node01, nil))
	}
}

func TestRebuiltInstanceWhoseConsoleStillShowsTheOldKeys(t *testing.T) {
	before, after := newKey(t, "ed25519"), newKey(t, "ed25519")
	m := boot(t, before)
	m.rebuild(after)
	old := block(before.PublicKey())
	g, looks := greeter(t, reconfigure.HostKeysConsole, long, old, old, old+block(after.PublicKey()))
	expectNone(t, g.Await(t.Context(), m.instance(), node01, nil))
	expectKeys(t, g.Known, m.address, after.PublicKey())
	if looks.Load() != 3 {
		t.Errorf("%d looks at the console", looks.Load())
	}
}

func TestAnotherKeyThanTheConsoleShowsIsRefused(t *testing.T) {
	for _, kind := range []string{"ed25519", "ecdsa"} { // of the same type, and of another
		t.Run(kind, func(t *testing.T) {
			m := boot(t, newKey(t, "ed25519"))
			g, _ := greeter(t, reconfigure.HostKeysConsole, short, block(newKey(t, kind).PublicKey()))
			expectFailure(t, g.Await(t.Context(), m.instance(), node01, nil), "not with one that its console log shows")
			expectKeys(t, g.Known, m.address)
		})
	}
}

func TestConsoleWithoutKeysSaysWhatToDo(t *testing.T) {
	m := boot(t, newKey(t, "ed25519"))
	g, _ := greeter(t, reconfigure.HostKeysConsole, short, "login: ")
	expectFailure(t, g.Await(t.Context(), m.instance(), node01, nil), "after 150ms it shows no host keys in its console log (an image without cloud-init? then set host_keys: accept-new)")
}

func TestConsoleThatCannotBeHadSaysWhy(t *testing.T) {
	g, _ := greeter(t, reconfigure.HostKeysConsole, short)
	g.Console = func(context.Context, string, int) (string, error) { return "", errors.New("403: policy") }
	m := boot(t, newKey(t, "ed25519"))
	expectFailure(t, g.Await(t.Context(), m.instance(), node01, nil), "403: policy")
}

func TestAcceptNewTakesTheFirstKey(t *testing.T) {
	key := newKey(t, "ed25519")
	m := boot(t, key)
	g, looks := greeter(t, reconfigure.HostKeysAcceptNew, long, "")
	expectNone(t, g.Await(t.Context(), m.instance(), node01, nil))
	expectKeys(t, g.Known, m.address, key.PublicKey())
	if looks.Load() != 0 {
		t.Error("the console was looked at")
	}
}

func TestInstanceThatIsNotFreshKeepsItsKey(t *testing.T) {
	for _, policy := range []reconfigure.HostKeyPolicy{reconfigure.HostKeysConsole, reconfigure.HostKeysAcceptNew} {
		t.Run(string(policy), func(t *testing.T) {
			key, other := newKey(t, "ed25519"), newKey(t, "ed25519")
			m := boot(t, key)
			g, looks := greeter(t, policy, long, block(other.PublicKey()))
			g.Known.learnt(t, m.address, key.PublicKey())
			expectNone(t, g.Await(t.Context(), m.instance(), nodeset.NodeSet{}, nil))
			m.rebuild(other)
			g.Timeout = short
			expectFailure(t, g.Await(t.Context(), m.instance(), nodeset.NodeSet{}, nil), "not with one that is known")
			expectKeys(t, g.Known, m.address, key.PublicKey())
			if looks.Load() != 0 {
				t.Error("the console was looked at")
			}
		})
	}
}

func TestInstanceThatDoesNotAnswerFailsAloneAndInTime(t *testing.T) {
	key := newKey(t, "ed25519")
	m := boot(t, key)
	g, _ := greeter(t, reconfigure.HostKeysAcceptNew, short, "")
	instances := []reconfigure.Instance{{Node: "node01", ID: "id-1", Address: closed(t)}}
	var fresh []string
	for i := 2; i < 80; i++ {
		node := fmt.Sprintf("node%02d", i)
		fresh = append(fresh, node)
		instances = append(instances, reconfigure.Instance{Node: node, Address: m.address})
	}
	g.Timeout = 5 * time.Second // time for all the others to answer on a busy machine
	expectFailure(t, g.Await(t.Context(), instances, nodeset.Of(fresh...).Union(node01), nil), "does not answer by SSH at 127.0.0.1:")
}

// A machine that takes connections and says nothing must not hold the wait up.
func TestSilentMachineIsGivenUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	g, _ := greeter(t, reconfigure.HostKeysAcceptNew, short, "")
	silent := &machine{address: listener.Addr().String()}
	begun := time.Now()
	if failures := g.Await(t.Context(), silent.instance(), node01, nil); len(failures) != 1 {
		t.Errorf("failures %v", failures)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("given up after %v", took)
	}
}

// TestDeadlineEndsTheWaitForItsNodeAlone has one node whose time is up before, and one that has no less time for that.
func TestDeadlineEndsTheWaitForItsNodeAlone(t *testing.T) {
	g, _ := greeter(t, reconfigure.HostKeysAcceptNew, 3*time.Second, "")
	instances := []reconfigure.Instance{{Node: "node01", Address: closed(t)}, {Node: "node02", Address: closed(t)}, {Node: "node03", Address: closed(t)}}
	now := time.Now()
	failures := g.Await(t.Context(), instances, nodeset.Of("node01", "node02", "node03"),
		map[string]time.Time{"node01": now.Add(time.Second), "node02": now.Add(time.Hour), "node03": now.Add(-time.Hour)})
	for node, want := range map[string]string{"node01": "after 1s it does not answer", "node02": "after 3s it does not answer", "node03": "after 0s it "} {
		if err := failures[node]; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", node, err)
		}
	}
}

func TestCancelEndsTheWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g, looks := greeter(t, reconfigure.HostKeysConsole, long, "login: ")
	console := g.Console
	g.Console = func(c context.Context, id string, lines int) (string, error) {
		if looks.Load() > 1 {
			cancel()
		}
		return console(c, id, lines)
	}
	failures := g.Await(ctx, (&machine{address: closed(t)}).instance(), node01, nil)
	if !errors.Is(failures["node01"], context.Canceled) {
		t.Errorf("failures %v", failures)
	}
}
