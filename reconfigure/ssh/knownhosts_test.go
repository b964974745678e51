package ssh

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

func newKey(t *testing.T, kind string) ssh.Signer {
	t.Helper()
	var (
		key any
		err error
	)
	switch kind {
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "ecdsa":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func knownHosts(t *testing.T) KnownHosts {
	t.Helper()
	j, err := journal.Open(t.Context(), t.TempDir())
	noError(t, err)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return KnownHosts{filepath.Join(t.TempDir(), "known hosts"), j}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// learnt makes an address answer with only these keys, or with no known key, as after a Waiter.
func (k KnownHosts) learnt(t *testing.T, address string, keys ...ssh.PublicKey) {
	t.Helper()
	w := NewWaiter(Config{Known: k})
	learnt := hostKeys{address: knownhosts.Normalize(address), keys: format(keys, disk{})}
	_, err := w.keepKeys.Do(t.Context(), learnt)
	noError(t, err)
}

// forgotten removes all keys of an address, as when a Waiter begins to wait for a fresh instance.
func (k KnownHosts) forgotten(t *testing.T, address string) {
	t.Helper()
	w := NewWaiter(Config{Known: k})
	_, err := w.keepKeys.Do(t.Context(), hostKeys{address: knownhosts.Normalize(address), forget: true})
	noError(t, err)
}

func public(signers ...ssh.Signer) []ssh.PublicKey {
	var keys []ssh.PublicKey
	for _, s := range signers {
		keys = append(keys, s.PublicKey())
	}
	return keys
}

// expectKeys compares fingerprints of the keys that a Waiter expects and of those in the file.
func expectKeys(t *testing.T, k KnownHosts, address string, want ...ssh.PublicKey) {
	t.Helper()
	got, err := NewWaiter(Config{Known: k}).kept(t.Context(), reconfigure.Instance{Address: address})
	if diff := cmp.Diff(show(want...), show(got.keys...)); err != nil || diff != "" {
		t.Error(address, err, diff)
	}
	expectInFile(t, k, address, want...)
}

func expectInFile(t *testing.T, k KnownHosts, address string, want ...ssh.PublicKey) {
	t.Helper()
	text, err := k.read()
	noError(t, err)
	var got []ssh.PublicKey
	for _, key := range plain(text)[knownhosts.Normalize(address)] {
		parsed, _, err := parse(key)
		noError(t, err)
		got = append(got, parsed)
	}
	if diff := cmp.Diff(show(want...), show(got...)); diff != "" {
		t.Error(k.Path, address, diff)
	}
}

const byHand = "# by hand\n@cert-authority *.example.org ssh-rsa x\n"

func TestLearnReplacesWhatWasKnownOfAnAddressOnly(t *testing.T) {
	k := knownHosts(t)
	a, b, c := newKey(t, "ed25519"), newKey(t, "ecdsa"), newKey(t, "ed25519")
	expectKeys(t, k, "192.0.2.1")
	noError(t, os.WriteFile(k.Path, []byte(strings.TrimSuffix(byHand, "\n")), 0o600))
	for _, learn := range []struct {
		address string
		keys    []ssh.Signer
	}{
		{"192.0.2.1", []ssh.Signer{a, b}},
		{"192.0.2.11", []ssh.Signer{b}},
		{"192.0.2.1:2222", []ssh.Signer{a}},
		{"192.0.2.1", []ssh.Signer{c}},
	} {
		k.learnt(t, learn.address, public(learn.keys...)...)
	}
	expectKeys(t, k, "192.0.2.1", c.PublicKey())
	expectKeys(t, k, "192.0.2.1:22", c.PublicKey())
	expectKeys(t, k, "192.0.2.11", b.PublicKey())
	expectKeys(t, k, "192.0.2.1:2222", a.PublicKey())
	k.forgotten(t, "192.0.2.1")
	k.forgotten(t, "192.0.2.99")
	expectKeys(t, k, "192.0.2.1")
	expectKeys(t, k, "192.0.2.11", b.PublicKey())
	text, err := os.ReadFile(k.Path)
	if err != nil || !strings.HasPrefix(string(text), byHand) {
		t.Errorf("%q, error %v", text, err)
	}
}

func TestHostsShareWhatOneHasLearnt(t *testing.T) {
	one := knownHosts(t)
	other := KnownHosts{filepath.Join(t.TempDir(), "known_hosts"), one.Keeper}
	before, after := newKey(t, "ed25519").PublicKey(), newKey(t, "ed25519").PublicKey()
	one.learnt(t, "192.0.2.1", before)
	noError(t, other.Refresh(t.Context()))
	expectKeys(t, other, "192.0.2.1", before)
	one.learnt(t, "192.0.2.1", after) // another instance
	expectInFile(t, other, "192.0.2.1", before)
	noError(t, other.Refresh(t.Context()))
	expectKeys(t, other, "192.0.2.1", after)
	other.forgotten(t, "192.0.2.1")
	noError(t, one.Refresh(t.Context()))
	expectKeys(t, one, "192.0.2.1")
}

// TestAFileFromBeforeThereWasAKeeperIsAdopted also uses a second host with an old copy of the file.
func TestAFileFromBeforeThereWasAKeeperIsAdopted(t *testing.T) {
	one := knownHosts(t)
	other := KnownHosts{filepath.Join(t.TempDir(), "known_hosts"), one.Keeper}
	a, b := newKey(t, "ed25519").PublicKey(), newKey(t, "ecdsa").PublicKey()
	line := func(address string, key ssh.PublicKey) string { return knownhosts.Line([]string{address}, key) + "\n" }
	old := byHand + line("192.0.2.1", a) + line("192.0.2.1", b) + line("192.0.2.2:2222", a)
	noError(t, os.WriteFile(one.Path, []byte(old), 0o600))
	noError(t, os.WriteFile(other.Path, []byte(old), 0o600))
	noError(t, one.Adopt(t.Context()))
	noError(t, one.Refresh(t.Context()))
	expectKeys(t, one, "192.0.2.1", a, b)
	expectKeys(t, one, "192.0.2.2:2222", a)
	one.learnt(t, "192.0.2.1", b)
	one.forgotten(t, "192.0.2.2:2222")
	noError(t, other.Adopt(t.Context())) // too late
	noError(t, other.Refresh(t.Context()))
	expectKeys(t, other, "192.0.2.1", b)
	expectKeys(t, other, "192.0.2.2:2222")
	text, err := os.ReadFile(other.Path)
	if err != nil || !strings.HasPrefix(string(text), byHand) {
		t.Errorf("%q, error %v", text, err)
	}
}

func TestWhatIsUpToDateIsNotWrittenAgain(t *testing.T) {
	k := knownHosts(t)
	k.learnt(t, "192.0.2.1", newKey(t, "ed25519").PublicKey())
	before, err := os.Stat(k.Path)
	noError(t, err)
	noError(t, k.Adopt(t.Context()))
	noError(t, k.Refresh(t.Context()))
	after, err := os.Stat(k.Path)
	noError(t, err)
	if !os.SameFile(before, after) {
		t.Error("the file was written")
	}
}

// counting counts the calls of a Keeper.
type counting struct {
	Keeper
	pause               time.Duration // the duration of each call
	reads, writes, keys atomic.Int32
}

func (c *counting) HostKeys(ctx context.Context) (map[string][]string, error) {
	c.reads.Add(1)
	time.Sleep(c.pause)
	return c.Keeper.HostKeys(ctx)
}

func (c *counting) KeepHostKeys(ctx context.Context, keys map[string][]string) error {
	c.writes.Add(1)
	time.Sleep(c.pause)
	c.keys.Add(int32(len(keys)))
	return c.Keeper.KeepHostKeys(ctx, keys)
}

// ssh -G prints the configuration that OpenSSH reads from the words.
func TestOpenSSHTrustsOurFileOnly(t *testing.T) {
	k := KnownHosts{Path: "/srv/a b/100% \"known\"/known_hosts"}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	words := k.Command("debian", "192.0.2.1", key)
	out, err := exec.Command(words[0], append([]string{"-G"}, words[1:]...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		"user debian", "hostname 192.0.2.1", "userknownhostsfile /srv/a b/100% \"known\"/known_hosts",
		"globalknownhostsfile /dev/null", "stricthostkeychecking true", "updatehostkeys false", "batchmode yes",
		"identitiesonly yes", "identityfile " + key, "connecttimeout 10", "requesttty false",
	} {
		if !strings.Contains("\n"+string(out), "\n"+want+"\n") {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

// failing is a Keeper whose methods each fail once.
type failing struct {
	Keeper
	read, kept atomic.Bool
	err        error
}

func (f *failing) HostKeys(ctx context.Context) (map[string][]string, error) {
	if !f.read.Swap(true) {
		return nil, f.err
	}
	return f.Keeper.HostKeys(ctx)
}

func (f *failing) KeepHostKeys(ctx context.Context, keys map[string][]string) error {
	if !f.kept.Swap(true) {
		return f.err
	}
	return f.Keeper.KeepHostKeys(ctx, keys)
}

// TestTheSameKeyExchangeEverywhere reads the two files that call ssh themselves.
func TestTheSameKeyExchangeEverywhere(t *testing.T) {
	for _, file := range []string{"../../ansible/ansible.cfg", "../../slurmscripts/hand_over.sh.j2"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "KexAlgorithms="+keyExchange) {
			t.Errorf("%s has no KexAlgorithms=%s", file, keyExchange)
		}
	}
}
