package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Greeter waits until instances answer by SSH, with a host key that is known.
type Greeter struct {
	Known   KnownHosts
	Policy  reconfigure.HostKeyPolicy
	Console func(ctx context.Context, id string, lines int) (string, error) // of the cloud; asked for the console policy only
	Timeout time.Duration                                                   // for each instance
	Poll    time.Duration                                                   // between two looks at one
}

const (
	// atOnce is how many instances are looked at in the same moment; the others wait their turn.
	atOnce = 64
	// oneLook bounds a connection and the handshake on it.
	oneLook = 5 * time.Second
)

// Await returns when each instance has answered or its time is up, and says of those that did not why; the time of one whose node stands in until is up then at the
// latest. The keys of the fresh ones are learnt, by the policy; the others must answer with a key that is known already. It may be repeated.
func (g Greeter) Await(ctx context.Context, instances []reconfigure.Instance, fresh nodeset.NodeSet, until map[string]time.Time) reconfigure.Failures {
	g.Known.Keeper = enduring{g.Known.Keeper}
	failures := reconfigure.Failures{}
	known, err := g.Known.open(ctx, addresses(instances, fresh))
	if err == nil {
		failures = g.greetAll(ctx, known, instances, until)
		// The file is made once, not for each of thousands; those who read it come after this.
		err = g.Known.Refresh(ctx)
	}
	for _, instance := range instances {
		if err != nil && failures[instance.Node] == nil {
			failures[instance.Node] = err
		}
	}
	return failures
}

// addresses is those of the instances of some nodes.
func addresses(instances []reconfigure.Instance, nodes nodeset.NodeSet) []string {
	var found []string
	for _, i := range instances {
		if nodes.Contains(i.Node) && i.Address != "" {
			found = append(found, i.Address)
		}
	}
	return found
}

func (g Greeter) greetAll(ctx context.Context, known *ring, instances []reconfigure.Instance, until map[string]time.Time) reconfigure.Failures {
	var (
		lock     sync.Mutex
		wait     sync.WaitGroup
		failures = reconfigure.Failures{}
		turns    = make(chan struct{}, atOnce)
	)
	for _, instance := range instances {
		wait.Go(func() {
			patient, cancel := g.patient(ctx, until[instance.Node])
			defer cancel()
			keys, err := g.greet(patient, turns, known, instance)
			if err == nil {
				err = known.learn(ctx, instance.Address, keys) // that the journal is slow is not the instance's fault
			}
			if err != nil {
				lock.Lock()
				defer lock.Unlock()
				failures[instance.Node] = err
			}
		})
	}
	wait.Wait()
	return failures
}

// patient is ctx until an instance's time is up: after as long as each has, or at its deadline, if it has one.
func (g Greeter) patient(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	after := g.Timeout
	if rest := time.Until(deadline).Round(time.Second); !deadline.IsZero() && rest < after {
		after = max(rest, 0)
	}
	return context.WithTimeoutCause(ctx, after, timeUp{after})
}

// greet looks again and again, and gives the keys that the instance is to be known by: the machine may still boot, and the console of a rebuilt one still show the keys of its former life.
func (g Greeter) greet(ctx context.Context, turns chan struct{}, known *ring, instance reconfigure.Instance) ([]ssh.PublicKey, error) {
	var last error
	for {
		select {
		case <-ctx.Done():
			return nil, gaveUp(ctx, last)
		case turns <- struct{}{}:
		}
		keys, err := g.look(ctx, known, instance)
		<-turns
		if err == nil {
			return keys, nil
		}
		if last == nil || !over(ctx) { // else it says only that the time was up
			last = err
		}
		select {
		case <-ctx.Done():
			return nil, gaveUp(ctx, last)
		case <-time.After(g.Poll):
		}
	}
}

// timeUp is that an instance has had its time.
type timeUp struct{ after time.Duration }

func (timeUp) Error() string { return "time is up" }

// over tells that the time is up, also to those who hear of it before the context does: a connection has the deadline as its own.
func over(ctx context.Context) bool {
	deadline, _ := ctx.Deadline()
	return ctx.Err() != nil || !time.Now().Before(deadline)
}

func gaveUp(ctx context.Context, last error) error {
	if last == nil {
		last = errors.New("was not looked at, so slow were the others")
	}
	cause := context.Cause(ctx)
	if up := (timeUp{}); errors.As(cause, &up) {
		return fmt.Errorf("after %s it %w", up.after, last)
	}
	return fmt.Errorf("%w while it was waited for: it %v", cause, last) // what the instance did is no class of this
}

// look looks once, and gives the keys that are to be known of the instance: only when it has proved that it holds one of them.
func (g Greeter) look(ctx context.Context, known *ring, instance reconfigure.Instance) ([]ssh.PublicKey, error) {
	expected, err := known.of(instance.Address)
	if err != nil {
		return nil, err
	}
	source := "that is known"
	if len(expected) == 0 && g.Policy == reconfigure.HostKeysConsole {
		source = "that its console log shows"
		if expected, err = g.fromConsole(ctx, instance.ID); err != nil {
			return nil, err
		}
	}
	answered, err := handshake(ctx, instance.Address, expected)
	if err != nil {
		return nil, fmt.Errorf("does not answer by SSH at %s: %w", instance.Address, err)
	}
	if len(expected) == 0 { // accept-new
		expected = []ssh.PublicKey{answered}
	}
	if !slices.ContainsFunc(expected, func(key ssh.PublicKey) bool { return same(key, answered) }) {
		return nil, fmt.Errorf("answers at %s with host key %s, not with one %s: %s", instance.Address, show(answered), source, show(expected...))
	}
	return expected, nil
}

func (g Greeter) fromConsole(ctx context.Context, id string) ([]ssh.PublicKey, error) {
	log, err := g.Console(ctx, id, 0)
	if err != nil {
		return nil, fmt.Errorf("shows no host keys, since its console log cannot be had: %w", err)
	}
	keys, ok := ParseConsole(log)
	if !ok {
		return nil, reconfigure.Classify(reconfigure.ClassBoot, errors.New("shows no host keys in its console log (an image without cloud-init? then set host_keys: accept-new)"))
	}
	return keys, nil
}

// handshake connects and returns the key that the server has proved to hold. Nobody is logged in. The server is asked for a key of a kind that is expected
// first, since it has several.
func handshake(ctx context.Context, address string, expected []ssh.PublicKey) (ssh.PublicKey, error) {
	key, err := connect(ctx, address, algorithms(expected))
	if _, other := errors.AsType[*ssh.AlgorithmNegotiationError](err); other && len(expected) > 0 {
		return connect(ctx, address, nil)
	}
	return key, err
}

func connect(ctx context.Context, address string, algorithms []string) (ssh.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, oneLook)
	defer cancel()
	if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, "22")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
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
			return errors.New("seen enough")
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

func show(keys ...ssh.PublicKey) string {
	var prints []string
	for _, key := range keys {
		prints = append(prints, key.Type()+" "+ssh.FingerprintSHA256(key))
	}
	return strings.Join(prints, ", ")
}
