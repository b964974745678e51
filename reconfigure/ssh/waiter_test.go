package ssh

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// machine is an SSH server whose keys may change, as when an instance is rebuilt.
type machine struct {
	address string
	lock    sync.Mutex
	keys    []ssh.Signer
	logins  atomic.Int32
	patient int32 // the number of connections that it accepts; zero: unlimited
	met     atomic.Int32
	is      reconfigure.Instance // zero: that of instance
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
	if n := m.met.Add(1); m.patient > 0 && n > m.patient {
		return
	}
	config := &ssh.ServerConfig{
		NoClientAuth: true, AuthLogCallback: func(ssh.ConnMetadata, string, error) { m.logins.Add(1) },
	}
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

// closed is an address without a listener.
func closed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// newWaiter returns a Waiter whose console shows the next of the texts at each read, and the last text from then on.
func newWaiter(t *testing.T, policy reconfigure.HostKeyPolicy, logs ...string) (*Waiter, *atomic.Int32) {
	t.Helper()
	reads := &atomic.Int32{}
	console := func(context.Context, string, int) (string, error) {
		n := int(reads.Add(1))
		return logs[min(n, len(logs))-1], nil
	}
	w := NewWaiter(Config{Known: knownHosts(t), Policy: policy, Console: console})
	w.pace = pace{first: time.Millisecond, longest: time.Millisecond, console: time.Millisecond, again: time.Millisecond}
	return w, reads
}

const (
	long  = time.Minute // never reached in a passing test
	short = 150 * time.Millisecond
)

func (m *machine) instance() reconfigure.Instance {
	if m.is.ID != "" {
		return m.is
	}
	return reconfigure.Instance{Node: "node01", ID: "id-1", Address: m.address}
}

// waitFor waits for at most this time.
func (w *Waiter) waitFor(t *testing.T, limit time.Duration, m *machine, fresh bool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return w.Wait(ctx, m.instance(), fresh)
}

func (w *Waiter) mustAnswer(t *testing.T, m *machine, fresh bool) {
	t.Helper()
	noError(t, w.waitFor(t, long, m, fresh))
}

// refuses returns the error of a wait that gets no answer; the error must contain part. Each wait is longer than the
// one before, since a busy machine may reach that point late.
func (w *Waiter) refuses(t *testing.T, m *machine, fresh bool, part string) error {
	t.Helper()
	for limit := short; ; limit *= 2 {
		err := w.waitFor(t, limit, m, fresh)
		if err == nil || strings.Contains(err.Error(), part) || limit > long {
			expectError(t, err, part)
			return err
		}
	}
}

func expectError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error %v, want %q", err, part)
	}
}

func TestFreshInstanceIsKnownByItsConsole(t *testing.T) {
	keys := []ssh.Signer{newKey(t, "rsa"), newKey(t, "ecdsa"), newKey(t, "ed25519")}
	m := boot(t, keys...)
	w, _ := newWaiter(t, reconfigure.HostKeysConsole, "", "booting", block(public(keys...)...))
	w.config.Known.learnt(t, m.address, newKey(t, "ed25519").PublicKey()) // of the previous instance at the address
	w.mustAnswer(t, m, true)
	expectKeys(t, w.config.Known, m.address, public(keys...)...)
	if n := m.logins.Load(); n != 0 {
		t.Errorf("%d logins were tried", n)
	}
}

// A server has a key of each type; the known key need not be the type that it would offer first.
func TestKnownKeyOfAnyTypeIsAskedFor(t *testing.T) {
	keys := []ssh.Signer{newKey(t, "ed25519"), newKey(t, "ecdsa"), newKey(t, "rsa")}
	m := boot(t, keys...)
	for _, key := range keys {
		w, _ := newWaiter(t, reconfigure.HostKeysConsole, block(key.PublicKey()))
		w.mustAnswer(t, m, true)
		w.mustAnswer(t, m, false)
		expectKeys(t, w.config.Known, m.address, key.PublicKey())
	}
}

func TestRebuiltInstanceWhoseConsoleStillShowsTheOldKeys(t *testing.T) {
	before, after := newKey(t, "ed25519"), newKey(t, "ed25519")
	m := boot(t, before)
	m.rebuild(after)
	old := block(before.PublicKey())
	w, reads := newWaiter(t, reconfigure.HostKeysConsole, old, old, old+block(after.PublicKey()))
	w.mustAnswer(t, m, true)
	expectKeys(t, w.config.Known, m.address, after.PublicKey())
	if reads.Load() != 3 {
		t.Errorf("the console was read %d times", reads.Load())
	}
}

func TestAnotherKeyThanTheConsoleShowsIsRefused(t *testing.T) {
	for _, kind := range []string{"ed25519", "ecdsa"} { // a key of the same type, and one of another
		t.Run(kind, func(t *testing.T) {
			m := boot(t, newKey(t, "ed25519"))
			w, _ := newWaiter(t, reconfigure.HostKeysConsole, block(newKey(t, kind).PublicKey()))
			w.refuses(t, m, true, "not with one that its console log shows")
			expectKeys(t, w.config.Known, m.address)
		})
	}
}

func TestConsoleWithoutKeysSaysWhatToDo(t *testing.T) {
	m := boot(t, newKey(t, "ed25519"))
	w, _ := newWaiter(t, reconfigure.HostKeysConsole, "login: ")
	err := w.refuses(t, m, true,
		"it shows no host keys in its console log (an image without cloud-init? then set host_keys:")
	if !strings.HasPrefix(err.Error(), "after ") {
		t.Errorf("error %v", err)
	}
}

func TestConsoleThatCannotBeReadSaysWhy(t *testing.T) {
	w, _ := newWaiter(t, reconfigure.HostKeysConsole)
	w.config.Console = func(context.Context, string, int) (string, error) { return "", errors.New("403: policy") }
	m := boot(t, newKey(t, "ed25519"))
	w.refuses(t, m, true, "403: policy")
}

// TestWhetherAMachineHasComeUpIsOnItsConsole uses machines that do not answer by SSH.
func TestWhetherAMachineHasComeUpIsOnItsConsole(t *testing.T) {
	keys := block(newKey(t, "ed25519").PublicKey())
	for name, test := range map[string]struct {
		log, want string
		class     reconfigure.Class
	}{
		"it has not": {"[ 0.0] BIOS", "shows no host keys in its console log", reconfigure.ClassBoot},
		"it is unknown, since the log is cut off": {
			keys[strings.Index(keys, "\n"):], "shows only the end of its host keys", reconfigure.ClassBoot,
		},
		"it has": {keys, "does not answer by SSH: connect: connection refused", reconfigure.ClassOther},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newWaiter(t, reconfigure.HostKeysConsole, test.log)
			err := w.refuses(t, &machine{address: closed(t)}, true, test.want)
			if reconfigure.ClassOf(err) != test.class {
				t.Errorf("class %s", reconfigure.ClassOf(err))
			}
		})
	}
}

// TestTheConsoleOfAMachineThatBootsIsReadSeldom counts the calls to the cloud.
func TestTheConsoleOfAMachineThatBootsIsReadSeldom(t *testing.T) {
	w, reads := newWaiter(t, reconfigure.HostKeysConsole, "[ 0.0] BIOS")
	w.pace.console = 10 * time.Millisecond
	if err := w.waitFor(t, 200*time.Millisecond, &machine{address: closed(t)}, true); err == nil {
		t.Error("no error")
	}
	if n := reads.Load(); n < 1 || n > 5 { // after 10, 20, 40, 80, 160 ms
		t.Errorf("the console was read %d times", n)
	}
}

// TestAMachineThatHasAnsweredIsNotAskedAgainAtOnce uses a machine whose sshd rejects an address that often connects
// without a login, as OpenSSH 9.8 and later do.
func TestAMachineThatHasAnsweredIsNotAskedAgainAtOnce(t *testing.T) {
	offered, other := newKey(t, "ecdsa"), newKey(t, "ed25519")
	late := slices.Repeat([]string{"booting"}, 30)
	stale := slices.Repeat([]string{block(newKey(t, "ed25519").PublicKey())}, 30)
	for name, test := range map[string]struct {
		logs        []string
		connections int32
	}{
		"its log shows its keys late":               {append(late, block(offered.PublicKey())), 1},
		"its log shows one of its other keys, late": {append(late, block(other.PublicKey())), 2},
		"its log shows former keys":                 {append(stale, block(other.PublicKey())), 2},
	} {
		t.Run(name, func(t *testing.T) {
			m := boot(t, offered, other)
			m.patient = 15
			w, _ := newWaiter(t, reconfigure.HostKeysConsole, test.logs...)
			w.pace.again = time.Hour
			w.mustAnswer(t, m, true)
			if n := m.met.Load(); n != test.connections {
				t.Errorf("%d connections, want %d", n, test.connections)
			}
		})
	}
}

// TestAMachineThatHasAnsweredIsAskedAgain lets another machine answer first at the address.
func TestAMachineThatHasAnsweredIsAskedAgain(t *testing.T) {
	before, after := newKey(t, "ed25519"), newKey(t, "ed25519")
	m := boot(t, before)
	w, _ := newWaiter(t, reconfigure.HostKeysConsole, "booting", block(after.PublicKey()))
	console := w.config.Console
	w.config.Console = func(ctx context.Context, id string, lines int) (string, error) {
		if m.met.Load() > 2 {
			m.rebuild(after)
		}
		return console(ctx, id, lines)
	}
	w.mustAnswer(t, m, true)
	expectKeys(t, w.config.Known, m.address, after.PublicKey())
}

func TestAcceptNewTakesTheFirstKey(t *testing.T) {
	key := newKey(t, "ed25519")
	m := boot(t, key)
	w, reads := newWaiter(t, reconfigure.HostKeysAcceptNew, "")
	w.mustAnswer(t, m, true)
	expectKeys(t, w.config.Known, m.address, key.PublicKey())
	if reads.Load() != 0 {
		t.Error("the console was read")
	}
}

func TestInstanceThatIsNotFreshKeepsItsKey(t *testing.T) {
	for _, policy := range []reconfigure.HostKeyPolicy{reconfigure.HostKeysConsole, reconfigure.HostKeysAcceptNew} {
		t.Run(string(policy), func(t *testing.T) {
			key, other := newKey(t, "ed25519"), newKey(t, "ed25519")
			m := boot(t, key)
			w, reads := newWaiter(t, policy, block(other.PublicKey()))
			w.config.Known.learnt(t, m.address, key.PublicKey())
			w.mustAnswer(t, m, false)
			m.rebuild(other)
			w.refuses(t, m, false, "not with one that is known")
			expectKeys(t, w.config.Known, m.address, key.PublicKey())
			if reads.Load() != 0 {
				t.Error("the console was read")
			}
		})
	}
}

// TestThoseThatAnswerDoNotWaitForTheOthers uses machines that accept connections but stay silent, one fewer than may be
// tried at once, and some that do not listen.
func TestThoseThatAnswerDoNotWaitForTheOthers(t *testing.T) {
	w, _ := newWaiter(t, reconfigure.HostKeysAcceptNew, "")
	w.attempts = make(chan struct{}, 8)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	fails := func(address string) {
		wait.Go(func() {
			err := w.Wait(ctx, reconfigure.Instance{Node: "node", Address: address}, true)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	}
	for range 7 {
		fails(listener.Addr().String())
	}
	for range 20 {
		fails(closed(t))
	}
	m := boot(t, newKey(t, "ed25519"))
	for range 50 {
		w.mustAnswer(t, m, true)
	}
	cancel()
	wait.Wait()
}

// TestManyWaitTogether checks the costs of a wait for many instances: each key is written once, many keys together, and
// the number of reads of the keys and writes of the file does not depend on the number of instances.
func TestManyWaitTogether(t *testing.T) {
	key := newKey(t, "ed25519")
	var machines []*machine
	for range 40 {
		machines = append(machines, boot(t, key))
	}
	w, _ := newWaiter(t, reconfigure.HostKeysAcceptNew, "")
	counted := &counting{Keeper: w.keeper, pause: 50 * time.Millisecond}
	w.keeper, w.config.Known.Keeper = counted, counted
	together := func() {
		t.Helper()
		var wait sync.WaitGroup
		for _, m := range machines {
			wait.Go(func() {
				if err := w.waitFor(t, long, m, true); err != nil {
					t.Error(err)
				}
				expectInFile(t, w.config.Known, m.address, key.PublicKey())
			})
		}
		wait.Wait()
	}
	together()
	if counted.writes.Load() > 20 || counted.reads.Load() > 20 || counted.keys.Load() != 40 {
		t.Errorf("%d reads, %d writes of %d addresses", counted.reads.Load(), counted.writes.Load(), counted.keys.Load())
	}
}

func TestTheJournalIsNoFaultOfTheInstance(t *testing.T) {
	key := newKey(t, "ed25519")
	m := boot(t, key)
	w, _ := newWaiter(t, reconfigure.HostKeysConsole, block(key.PublicKey()))
	failing := &failing{Keeper: w.config.Known.Keeper, err: errors.New("the database is locked")}
	w.keeper = retrying{failing}
	w.mustAnswer(t, m, true)
	if !failing.read.Load() || !failing.kept.Load() {
		t.Error("the journal was not asked")
	}
	failing.read.Store(false)
	failing.err = reconfigure.ErrLeaseLost
	if err := w.waitFor(t, long, m, true); !errors.Is(err, reconfigure.ErrLeaseLost) {
		t.Errorf("error %v", err)
	}
}

func TestAnInstanceWithoutAnAddressIsNotTried(t *testing.T) {
	w, _ := newWaiter(t, reconfigure.HostKeysAcceptNew, "")
	expectError(t, w.Wait(t.Context(), reconfigure.Instance{Node: "node01"}, true), "no address")
}

func TestCancelEndsTheWait(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	w, reads := newWaiter(t, reconfigure.HostKeysConsole, "login: ")
	console := w.config.Console
	w.config.Console = func(c context.Context, id string, lines int) (string, error) {
		if reads.Load() > 1 {
			cancel(errors.New("the node is not needed any more"))
		}
		return console(c, id, lines)
	}
	err := w.Wait(ctx, (&machine{address: closed(t)}).instance(), true)
	expectError(t, err, "the node is not needed any more while it was waited for: it ")
}

func TestThePaceGrowsWithTheWait(t *testing.T) {
	p := NewWaiter(Config{}).pace
	for wait, want := range map[time.Duration]time.Duration{
		0: 300 * time.Millisecond, 10 * time.Second: 300 * time.Millisecond, 40 * time.Second: time.Second,
		time.Hour: 3 * time.Second,
	} {
		if got := p.after(wait); got != want {
			t.Errorf("after %s a pause of %s, not %s", wait, got, want)
		}
	}
}

// TestCallersThatComeMeanwhileAreServedTogether also makes one of them leave.
func TestCallersThatComeMeanwhileAreServedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs [][]int
		g := together(func(_ context.Context, in []int) (int, error) {
			time.Sleep(time.Second)
			slices.Sort(in)
			runs = append(runs, in)
			return len(runs), nil
		})
		leaving, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		var wait sync.WaitGroup
		join := func(ctx context.Context, in, want int, wantErr error) {
			wait.Go(func() {
				if got, err := g.Do(ctx, in); got != want || !errors.Is(err, wantErr) {
					t.Errorf("%d: run %d, error %v", in, got, err)
				}
			})
			synctest.Wait()
		}
		join(leaving, 1, 0, context.DeadlineExceeded)
		for in := 2; in < 5; in++ {
			join(t.Context(), in, 2, nil)
		}
		wait.Wait()
		join(t.Context(), 5, 3, nil)
		wait.Wait()
		if diff := cmp.Diff([][]int{{1}, {2, 3, 4}, {5}}, runs); diff != "" {
			t.Error(diff)
		}
	})
}
