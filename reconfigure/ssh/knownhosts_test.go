package ssh

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
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
	return KnownHosts{Path: filepath.Join(t.TempDir(), "known hosts")}
}

func public(signers ...ssh.Signer) []ssh.PublicKey {
	var keys []ssh.PublicKey
	for _, s := range signers {
		keys = append(keys, s.PublicKey())
	}
	return keys
}

// expectKeys compares by fingerprint.
func expectKeys(t *testing.T, k KnownHosts, address string, want ...ssh.PublicKey) {
	t.Helper()
	got, err := k.Keys(address)
	if diff := cmp.Diff(show(want...), show(got...)); err != nil || diff != "" {
		t.Error(address, err, diff)
	}
}

func TestLearnReplacesWhatWasKnownOfAnAddressOnly(t *testing.T) {
	k := knownHosts(t)
	a, b, c := newKey(t, "ed25519"), newKey(t, "ecdsa"), newKey(t, "ed25519")
	expectKeys(t, k, "192.0.2.1")
	if err := os.WriteFile(k.Path, []byte("# by hand\n@cert-authority *.example.org ssh-rsa x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, learn := range []struct {
		address string
		keys    []ssh.Signer
	}{{"192.0.2.1", []ssh.Signer{a, b}}, {"192.0.2.11", []ssh.Signer{b}}, {"192.0.2.1:2222", []ssh.Signer{a}}, {"192.0.2.1", []ssh.Signer{c}}} {
		if err := k.Learn(learn.address, public(learn.keys...)); err != nil {
			t.Fatal(err)
		}
	}
	expectKeys(t, k, "192.0.2.1", c.PublicKey())
	expectKeys(t, k, "192.0.2.1:22", c.PublicKey())
	expectKeys(t, k, "192.0.2.11", b.PublicKey())
	expectKeys(t, k, "192.0.2.1:2222", a.PublicKey())
	if err := k.Forget("192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	expectKeys(t, k, "192.0.2.1")
	expectKeys(t, k, "192.0.2.11", b.PublicKey())
	text, err := os.ReadFile(k.Path)
	if err != nil || !strings.HasPrefix(string(text), "# by hand\n@cert-authority *.example.org ssh-rsa x\n") {
		t.Errorf("%q, error %v", text, err)
	}
}

func TestManyLearnAtOnceAndNothingIsLost(t *testing.T) {
	k := knownHosts(t)
	key := newKey(t, "ed25519").PublicKey()
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			if err := k.Learn(fmt.Sprintf("192.0.2.%d", i), []ssh.PublicKey{key}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for i := range 40 {
		expectKeys(t, k, fmt.Sprintf("192.0.2.%d", i), key)
	}
}

// ssh -G prints the configuration that OpenSSH makes of the words.
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
		"user debian", "hostname 192.0.2.1", "userknownhostsfile /srv/a b/100% \"known\"/known_hosts", "globalknownhostsfile /dev/null", "stricthostkeychecking true",
		"updatehostkeys false", "batchmode yes", "identitiesonly yes", "identityfile " + key, "connecttimeout 10", "requesttty false",
	} {
		if !strings.Contains("\n"+string(out), "\n"+want+"\n") {
			t.Errorf("no %q in %s", want, out)
		}
	}
}
