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
)

// Config says how a Waiter learns host keys.
type Config struct {
	Known  KnownHosts
	Policy reconfigure.HostKeyPolicy
	// Console is the console log of the instance with an id, as the cloud has it. It is asked for with the console policy
	// only.
	Console func(ctx context.Context, id string, lines int) (string, error)
}

// Waiter waits until instances answer by SSH with a host key that is known. It is safe for concurrent use: thousands of
// goroutines may wait at once, each for one instance.
type Waiter struct {
	config    Config
	keeper    Keeper
	pace      pace
	attempts  chan struct{} // a place for each that is under way
	consoles  chan struct{} // a place for each console log that is read
	knownKeys group[struct{}, map[string][]string]
	keepKeys  group[hostKeys, struct{}]
}

// pace says how often an instance is tried, its console log read, and a connection made to one that has answered.
type pace struct{ first, longest, console, again time.Duration }

const (
	// attemptsAtOnce bounds the connections that are open. It is far above what answers at once, so that instances which
	// do not answer, each for seconds, do not keep the others waiting.
	attemptsAtOnce = 500
	// consolesAtOnce is what the cloud is asked for at once.
	consolesAtOnce = 8
	connectTimeout = 2 * time.Second
	attemptTimeout = 5 * time.Second // with the handshake
	journalTimeout = 2 * time.Minute // for all that one group of keys takes
)

// NewWaiter makes a Waiter.
func NewWaiter(config Config) *Waiter {
	w := &Waiter{
		config: config, keeper: retrying{config.Known.Keeper},
		pace: pace{
			first: 300 * time.Millisecond, longest: 3 * time.Second, console: 3 * time.Second, again: 4 * time.Second,
		},
		attempts: make(chan struct{}, attemptsAtOnce), consoles: make(chan struct{}, consolesAtOnce),
	}
	w.config.Known.Keeper = w.keeper
	w.knownKeys.do = func(ctx context.Context, _ []struct{}) (map[string][]string, error) { return w.keeper.HostKeys(ctx) }
	w.keepKeys.do = w.keep
	return w
}

// Wait returns when the instance has answered with a host key that is accepted, and the file of known hosts has that
// key. It accepts the keys that were learned of the instance's disk, which stay valid over reboots, and if there are
// none, those that the policy allows. A fresh instance has a new disk, so none were learned of it. Wait tries until ctx
// ends, and may be repeated. The error says what happened at the last attempt; at a deadline it has the class of that.
func (w *Waiter) Wait(ctx context.Context, instance reconfigure.Instance, fresh bool) error {
	if instance.Address == "" {
		return errors.New("it has no address")
	}
	address := knownhosts.Normalize(instance.Address)
	kept, err := w.kept(ctx, instance)
	if err != nil {
		return err
	}
	if len(kept.keys) > 0 && (fresh || !kept.ofIt) { // forgotten at once: the next worker may not know that it is fresh
		if _, err := w.keepKeys.join(ctx, hostKeys{address: address, forget: true}); err != nil {
			return fmt.Errorf("the host key of the instance that had its address cannot be removed: %w", err)
		}
		kept = keptKeys{}
	}
	a := attempt{Waiter: w, instance: instance, expected: kept.keys, begun: time.Now()}
	keys, err := a.untilAnswered(ctx)
	if err != nil {
		return err
	}
	learnt := hostKeys{address: address}
	if texts := format(keys, diskOf(instance)); !slices.Equal(kept.texts, texts) {
		learnt.keys = texts
	}
	if _, err := w.keepKeys.join(ctx, learnt); err != nil {
		return fmt.Errorf("its host key cannot be kept: %w", err)
	}
	return nil
}

// Known reports whether host keys were learned of the instance's disk. Until then a reboot may lose them: cloud-init
// prints them at the first boot of a disk only, and a hypervisor may begin the console log anew with each boot.
func (w *Waiter) Known(ctx context.Context, instance reconfigure.Instance) (bool, error) {
	kept, err := w.kept(ctx, instance)
	return len(kept.keys) > 0 && kept.ofIt, err
}

// keptKeys is what is kept of an instance's address.
type keptKeys struct {
	texts []string
	keys  []ssh.PublicKey
	ofIt  bool // they are of the instance's disk, or of an unknown one
}

func (w *Waiter) kept(ctx context.Context, instance reconfigure.Instance) (keptKeys, error) {
	all, err := w.knownKeys.join(ctx, struct{}{})
	if err != nil {
		return keptKeys{}, fmt.Errorf("its host key cannot be looked up: %w", err)
	}
	kept := keptKeys{texts: all[knownhosts.Normalize(instance.Address)], ofIt: true}
	for _, text := range kept.texts {
		key, of, err := parse(text)
		if err != nil {
			return keptKeys{}, fmt.Errorf("the host keys that are known of %s: %w", instance.Address, err)
		}
		kept.keys, kept.ofIt = append(kept.keys, key), kept.ofIt && of.may(diskOf(instance))
	}
	return kept, nil
}

// hostKeys is what is to be kept of an address: keys, that it has none, or nothing new.
type hostKeys struct {
	address string
	keys    []string
	forget  bool
}

// keep writes what many have learnt, and then the file, which those who wait read next.
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

// attempt is the wait for one instance.
type attempt struct {
	*Waiter
	instance reconfigure.Instance
	expected []ssh.PublicKey
	begun    time.Time
	proved   ssh.PublicKey   // the key that it has proved to hold when it answered last by SSH; nil before
	asked    []ssh.PublicKey // those that it was asked for then
	met      time.Time       // when that was
	printed  error           // what was wrong with its console log when it was read last
	reads    int             // of the console log
}

// untilAnswered is the keys that the instance is to be known by. The machine may still boot, and the console log of a
// rebuilt one still show the keys that it had before.
func (a *attempt) untilAnswered(ctx context.Context) ([]ssh.PublicKey, error) {
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
		if last == nil || !over(ctx) { // else it says only that the time is up
			last = err
		}
		if a.proved != nil && before == nil {
			began = time.Now() // what is missing now comes soon
		}
		if !sleep(ctx, a.pace.after(time.Since(began))) {
			return nil, a.gaveUp(ctx, last)
		}
	}
}

// after is the pause after so long a wait: short at first, and at most a fortieth of the wait later.
func (p pace) after(wait time.Duration) time.Duration { return min(max(wait/40, p.first), p.longest) }

// try tries once, and returns the keys that are to be known of the instance: only if it has proved that it holds one of
// them.
func (a *attempt) try(ctx context.Context) ([]ssh.PublicKey, error) {
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
		if !holds(expected, a.proved) { // the machine has several keys, and the log may show others of them
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

// ask has the machine prove that it holds a host key, one of these if it can. A machine that has answered is not asked
// for the same again at once: from OpenSSH 9.8 on, sshd refuses an address for 15 seconds and more, also Ansible's
// logins, where it has connected without logging in more than once a second for a while (sshd_config(5),
// PerSourcePenalties).
func (a *attempt) ask(ctx context.Context, keys []ssh.PublicKey) error {
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

// readConsole looks, now and then, whether a machine that does not answer has come up at all: it has if its console log
// shows host keys.
func (a *attempt) readConsole(ctx context.Context) {
	if time.Since(a.begun) < a.pace.console<<min(a.reads, 16) {
		return
	}
	a.reads++
	_, a.printed = a.console(ctx)
}

// silent is the error of an instance that does not answer.
func (a *attempt) silent(err error) error {
	if a.printed != nil && a.proved == nil {
		return a.printed
	}
	// Without addresses, so that nodes with which the same is wrong have the same reason.
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

func (a *attempt) console(ctx context.Context) ([]ssh.PublicKey, error) {
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
		what = "shows the end of its host keys alone: the cloud has cut off its console log before; have the image print " +
			"less after cloud-init's keys, or set host_keys: accept-new"
	}
	return nil, reconfigure.Classify(reconfigure.ClassBoot, errors.New(what))
}

// gaveUp is the error when ctx has ended.
func (a *attempt) gaveUp(ctx context.Context, last error) error {
	if last == nil {
		last = errors.New("was not tried, since too many others were")
	}
	if deadline, ok := ctx.Deadline(); ok && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("after %s it %w", deadline.Sub(a.begun).Round(time.Second), last)
	}
	// What the instance did is no class of this.
	return fmt.Errorf("%w while it was waited for: it %v", context.Cause(ctx), last)
}

// enter takes a place, or returns false when ctx ends before there is one.
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

// sleep returns false when ctx ends before.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// over reports whether the time is up, also where that shows before the context says so: a connection has the deadline
// as its own.
func over(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

// handshake connects and returns the key that the server has proved to hold. Nobody logs in. The server is asked for a
// key of a kind that is expected first, since it has several.
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
		// It is called when the server has signed with the key. An error ends the handshake before anybody logs in.
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			seen = key
			return errors.New("the key is seen")
		},
	})
	if seen != nil {
		return seen, nil
	}
	return nil, err
}

// algorithms is the names under which keys of these types are negotiated (RFC 8332 for RSA).
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
