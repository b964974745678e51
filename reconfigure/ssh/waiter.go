package ssh

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/batcher"
	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// Config says how a Waiter learns host keys.
type Config struct {
	Known  KnownHosts
	Policy reconfigure.HostKeyPolicy
	// Console returns the console log of the instance with this id. It is called only with the console policy.
	Console func(ctx context.Context, id string, lines int) (string, error)
}

// Waiter waits until instances answer by SSH with an accepted host key. It is safe for concurrent use: thousands of
// goroutines may wait at the same time, each for one instance.
type Waiter struct {
	config    Config
	keeper    Keeper
	pace      pace
	attempts  chan struct{} // a place for each attempt in progress
	consoles  chan struct{} // a place for each console log that is being read
	knownKeys *batcher.Batcher[struct{}, map[string][]string]
	keepKeys  *batcher.Batcher[hostKeys, struct{}]
}

// pace has the intervals of the attempts for an instance: first and longest between attempts, between reads of the
// console log, and between connections to an instance that has answered.
type pace struct{ first, longest, console, again time.Duration }

const (
	// attemptsAtOnce is the maximum number of open connections. It is far above the number of instances that answer
	// at the same time, so that instances that do not answer, each for seconds, do not delay the others.
	attemptsAtOnce = 500
	// consolesAtOnce is the maximum number of console logs that are read from the cloud at the same time.
	consolesAtOnce = 8
	connectTimeout = 2 * time.Second
	attemptTimeout = 5 * time.Second // with the handshake
	journalTimeout = 2 * time.Minute // for storing one group of keys
)

// NewWaiter returns a Waiter.
func NewWaiter(config Config) *Waiter {
	w := &Waiter{
		config: config, keeper: retrying{config.Known.Keeper},
		pace: pace{
			first: 300 * time.Millisecond, longest: 3 * time.Second, console: 3 * time.Second, again: 4 * time.Second,
		},
		attempts: make(chan struct{}, attemptsAtOnce), consoles: make(chan struct{}, consolesAtOnce),
	}
	w.config.Known.Keeper = w.keeper
	w.knownKeys = together(func(ctx context.Context, _ []struct{}) (map[string][]string, error) {
		return w.keeper.HostKeys(ctx)
	})
	w.keepKeys = together(w.keep)
	return w
}

// together returns a batcher whose runs act once for all waiting callers. A run continues when they leave.
func together[In, Out any](do func(context.Context, []In) (Out, error)) *batcher.Batcher[In, Out] {
	return batcher.New(batcher.Config{}, func(r *batcher.Run[In, Out]) {
		var in []In
		for _, call := range r.Calls {
			in = append(in, call.In)
		}
		out, err := do(context.WithoutCancel(r.Calls[0].Context()), in)
		for _, call := range r.Calls {
			call.Finish(out, err)
		}
	})
}

// Wait returns when the instance has answered with an accepted host key and the known_hosts file has that key. It
// accepts the keys that were learned from the instance's disk, which stay valid over reboots; if there are none, it
// accepts those that the policy allows. No key was learned of a new disk. Wait tries until
// ctx ends, and may be retried. The error describes the last attempt; after a deadline it has the class of that
// attempt.
func (w *Waiter) Wait(ctx context.Context, instance reconfigure.Instance, newDisk bool) error {
	if instance.Address == "" {
		return errors.New("it has no address")
	}
	address := knownhosts.Normalize(instance.Address)
	kept, err := w.kept(ctx, instance)
	if err != nil {
		return err
	}
	// removed at once: the next worker may not know that the disk is new
	if len(kept.keys) > 0 && (newDisk || !kept.ofIt) {
		if _, err := w.keepKeys.Do(ctx, hostKeys{address: address, forget: true}); err != nil {
			return fmt.Errorf("the host key of the instance that had its address cannot be removed: %w", err)
		}
		kept = keptKeys{}
	}
	a := awaiting{Waiter: w, instance: instance, expected: kept.keys, begun: time.Now()}
	keys, err := a.untilAnswered(ctx)
	if err != nil {
		return err
	}
	learnt := hostKeys{address: address}
	if texts := format(keys, diskOf(instance)); !slices.Equal(kept.texts, texts) {
		learnt.keys = texts
	}
	if _, err := w.keepKeys.Do(ctx, learnt); err != nil {
		return fmt.Errorf("its host key cannot be kept: %w", err)
	}
	return nil
}

// Known reports whether host keys were learned from the instance's disk. Before that, a reboot may lose them:
// cloud-init prints them only at the first boot of a disk, and a hypervisor may truncate the console log at each
// boot.
func (w *Waiter) Known(ctx context.Context, instance reconfigure.Instance) (bool, error) {
	kept, err := w.kept(ctx, instance)
	return len(kept.keys) > 0 && kept.ofIt, err
}

// keptKeys are the stored keys of an instance's address.
type keptKeys struct {
	texts []string
	keys  []ssh.PublicKey
	ofIt  bool // the keys belong to the instance's disk, or to an unknown one
}

func (w *Waiter) kept(ctx context.Context, instance reconfigure.Instance) (keptKeys, error) {
	all, err := w.knownKeys.Do(ctx, struct{}{})
	if err != nil {
		return keptKeys{}, fmt.Errorf("its host key cannot be looked up: %w", err)
	}
	kept := keptKeys{texts: all[knownhosts.Normalize(instance.Address)], ofIt: true}
	for _, text := range kept.texts {
		key, of, err := parse(text)
		if err != nil {
			return keptKeys{}, fmt.Errorf("the known host keys of %s: %w", instance.Address, err)
		}
		kept.keys, kept.ofIt = append(kept.keys, key), kept.ofIt && of.may(diskOf(instance))
	}
	return kept, nil
}

// hostKeys is what to store for an address: keys, no keys, or no change.
type hostKeys struct {
	address string
	keys    []string
	forget  bool
}

// keep stores the keys of many callers, then writes the file, which the callers read next.
func (w *Waiter) keep(ctx context.Context, all []hostKeys) (struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	changes := map[string][]string{}
	for _, h := range all {
		if h.forget || h.keys != nil {
			changes[h.address] = h.keys
		}
	}
	if len(changes) > 0 {
		if err := w.keeper.KeepHostKeys(ctx, maps.Clone(changes)); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, w.config.Known.Refresh(ctx)
}

// awaiting is the wait for one instance.
type awaiting struct {
	*Waiter
	instance reconfigure.Instance
	expected []ssh.PublicKey
	begun    time.Time
	// the key that the instance proved to hold at its last answer by SSH; nil before the first
	proved  ssh.PublicKey
	asked   []ssh.PublicKey // the keys that were asked for then
	met     time.Time       // the time of that answer
	printed error           // the problem of its console log at the last read
	reads   int             // the number of reads of the console log
}

// untilAnswered waits for the instance and returns the keys to store for it. The machine may still boot, and the
// console log of a rebuilt one may still show its previous keys.
func (a *awaiting) untilAnswered(ctx context.Context) ([]ssh.PublicKey, error) {
	began := time.Now()
	var last error
	for {
		if !enter(ctx, a.attempts) {
			return nil, a.gaveUp(ctx, last)
		}
		before := a.proved
		keys, err := a.try(ctx)
		<-a.attempts
		if err == nil {
			return keys, nil
		}
		if last == nil || !over(ctx) { // else the error says only that the time is up
			last = err
		}
		if a.proved != nil && before == nil {
			began = time.Now() // the missing part comes soon
		}
		if sleep.For(ctx, a.pace.after(time.Since(began))) != nil {
			return nil, a.gaveUp(ctx, last)
		}
	}
}

// after returns the pause after a wait of this length: short at first, later at most a fortieth of the wait.
func (p pace) after(wait time.Duration) time.Duration { return min(max(wait/40, p.first), p.longest) }

// try tries once, and returns the keys to store for the instance if the instance has proved that it holds one of
// them.
func (a *awaiting) try(ctx context.Context) ([]ssh.PublicKey, error) {
	expected, source := a.expected, "that is known"
	fromConsole := len(expected) == 0 && a.config.Policy == reconfigure.HostKeysConsole
	if err := a.ask(ctx, expected); err != nil {
		if fromConsole {
			a.readConsole(ctx)
		}
		return nil, a.silent(err)
	}
	if fromConsole {
		source = "that its console log shows"
		var err error
		if expected, err = a.console(ctx); err != nil {
			return nil, err
		}
		if !holds(expected, a.proved) { // the machine has several keys, and the log may show different ones
			if err := a.ask(ctx, expected); err != nil {
				return nil, a.silent(err)
			}
		}
	}
	if len(expected) == 0 { // accept-new
		expected = []ssh.PublicKey{a.proved}
	}
	if !holds(expected, a.proved) {
		return nil, fmt.Errorf("answers at %s with host key %s, not with one %s: %s",
			a.instance.Address, show(a.proved), source, show(expected...))
	}
	return expected, nil
}

// ask makes the machine prove that it holds a host key, one of these if possible. It does not ask a machine that has
// answered for the same keys again at once: from OpenSSH 9.8 on, sshd refuses an address, also for Ansible's logins,
// for 15 seconds and more if it connects more than once a second for some time without logging in (sshd_config(5),
// PerSourcePenalties).
func (a *awaiting) ask(ctx context.Context, keys []ssh.PublicKey) error {
	if a.proved != nil && (len(keys) == 0 || sameKeys(keys, a.asked)) && time.Since(a.met) < a.pace.again {
		return nil
	}
	proved, err := handshake(ctx, a.instance.Address, keys)
	if err != nil {
		return err
	}
	a.proved, a.asked, a.met = proved, keys, time.Now()
	return nil
}

// readConsole checks from time to time whether a machine that does not answer has booted: it has if its console log
// shows host keys.
func (a *awaiting) readConsole(ctx context.Context) {
	if time.Since(a.begun) < a.pace.console<<min(a.reads, 16) {
		return
	}
	a.reads++
	_, a.printed = a.console(ctx)
}

// silent returns the error of an instance that does not answer.
func (a *awaiting) silent(err error) error {
	if a.printed != nil && a.proved == nil {
		return a.printed
	}
	// The error has no addresses, so that nodes with the same problem have the same reason.
	failed, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return fmt.Errorf("does not answer by SSH: %w", err)
	}
	if failed.Op == "dial" && failed.Timeout() {
		return fmt.Errorf("does not answer by SSH: %w: no packet comes back from its port 22; if it has booted, a security "+
			"group, a firewall or a missing route blocks the control host", failed.Err)
	}
	return fmt.Errorf("does not answer by SSH: %w", failed.Err)
}

func (a *awaiting) console(ctx context.Context) ([]ssh.PublicKey, error) {
	if !enter(ctx, a.consoles) {
		return nil, errors.New("shows no host keys, since its console log was not read in time")
	}
	defer func() { <-a.consoles }()
	log, err := a.config.Console(ctx, a.instance.ID, 0)
	if err != nil {
		return nil, fmt.Errorf("shows no host keys, since its console log cannot be read: %w", err)
	}
	keys, ok := ParseConsole(log)
	if ok {
		return keys, nil
	}
	what := "shows no host keys in its console log (an image without cloud-init? then set host_keys: accept-new)"
	if truncated(log) {
		what = "shows only the end of its host keys: the cloud cuts off the beginning of the console log; make the " +
			"image print less after cloud-init's keys, or set host_keys: accept-new"
	}
	return nil, reconfigure.Classify(reconfigure.ClassBoot, errors.New(what))
}

// gaveUp returns the error after the end of ctx.
func (a *awaiting) gaveUp(ctx context.Context, last error) error {
	if last == nil {
		last = errors.New("was not tried, since too many others were tried")
	}
	if deadline, ok := ctx.Deadline(); ok && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("after %s it %w", deadline.Sub(a.begun).Round(time.Second), last)
	}
	// The end of the wait does not have the class of the last attempt.
	return fmt.Errorf("%w while it was waited for: it %v", context.Cause(ctx), last)
}

// enter takes a place; it returns false if ctx ends before one is free.
func enter(ctx context.Context, places chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case places <- struct{}{}:
		return true
	}
}

// over reports whether the deadline has passed. A connection, which has the same deadline, may notice that before the
// context does.
func over(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

// handshake connects and returns the key that the server has proved to hold, without a login. It asks first for a key
// of an expected type, since a server has several keys.
func handshake(ctx context.Context, address string, expected []ssh.PublicKey) (ssh.PublicKey, error) {
	key, err := connect(ctx, address, algorithms(expected))
	if _, other := errors.AsType[*ssh.AlgorithmNegotiationError](err); other && len(expected) > 0 {
		return connect(ctx, address, nil)
	}
	return key, err
}

func connect(ctx context.Context, address string, algorithms []string) (ssh.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "22")
	}
	dialer := net.Dialer{Timeout: connectTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var seen ssh.PublicKey
	_, _, _, err = ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		HostKeyAlgorithms: algorithms,
		// The callback runs after the server has signed with the key. An error ends the handshake before the login.
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			seen = key
			return errors.New("the key was seen")
		},
	})
	if seen != nil {
		return seen, nil
	}
	return nil, err
}

// algorithms returns the names under which keys of these types are negotiated (RFC 8332 for RSA).
func algorithms(keys []ssh.PublicKey) []string {
	var names []string
	for _, key := range keys {
		if key.Type() == ssh.KeyAlgoRSA {
			names = append(names, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			names = append(names, key.Type())
		}
	}
	return names
}

func same(a, b ssh.PublicKey) bool { return string(a.Marshal()) == string(b.Marshal()) }

func sameKeys(a, b []ssh.PublicKey) bool { return slices.EqualFunc(a, b, same) }

func holds(keys []ssh.PublicKey, key ssh.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return same(k, key) })
}

func show(keys ...ssh.PublicKey) string {
	var prints []string
	for _, key := range keys {
		prints = append(prints, key.Type()+" "+ssh.FingerprintSHA256(key))
	}
	return strings.Join(prints, ", ")
}
