package ssh

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
)

// block is cloud-init's output.
func block(keys ...ssh.PublicKey) string {
	lines := []string{blockBegin}
	for _, key := range keys {
		lines = append(lines, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))+" root@node01")
	}
	return strings.Join(append(lines, blockEnd), "\n") + "\n"
}

func TestParseConsole(t *testing.T) {
	a, b, c := newKey(t, "ed25519").PublicKey(), newKey(t, "ecdsa").PublicKey(), newKey(t, "rsa").PublicKey()
	boot := "[    0.000000] Linux version\nssh-ed25519 AAAA not in a block\n"
	interrupted := strings.Replace(block(a, b), "\n", "\n[  9.9] eth0: link up\n", 1)
	prefixed := strings.ReplaceAll(block(a, b), "\n", "\r\n[   12.3] cloud-init[321]: ")
	for name, test := range map[string]struct {
		log  string
		want []ssh.PublicKey
	}{
		"nothing yet":                     {boot, nil},
		"a block":                         {boot + block(a, b, c) + "login: ", []ssh.PublicKey{a, b, c}},
		"a console that adds to lines":    {boot + prefixed, []ssh.PublicKey{a, b}},
		"the last of two":                 {block(a) + boot + block(b), []ssh.PublicKey{b}},
		"the last whole one":              {block(a) + boot + blockBegin + "\nssh-ed25519 AAA", []ssh.PublicKey{a}},
		"begin lost":                      {strings.TrimPrefix(block(a), blockBegin), nil},
		"no end yet":                      {strings.TrimSuffix(block(a), blockEnd+"\n"), nil},
		"a message between":               {interrupted, []ssh.PublicKey{a, b}},
		"no key in it":                    {boot + blockBegin + "\n" + blockEnd, nil},
		"a spoilt block is not passed by": {block(a) + blockBegin + "\nssh-ed25519 AAAA\n" + blockEnd, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ParseConsole(test.log)
			if diff := cmp.Diff(show(test.want...), show(got...)); diff != "" || ok != (len(test.want) > 0) {
				t.Error(ok, diff)
			}
		})
	}
}

func FuzzParseConsole(f *testing.F) {
	f.Add(blockBegin + "\nssh-ed25519 AAAA\n" + blockEnd)
	f.Add(blockEnd + blockBegin)
	f.Fuzz(func(t *testing.T, log string) {
		if keys, ok := ParseConsole(log); ok != (len(keys) > 0) {
			t.Errorf("%v, %v", keys, ok)
		}
	})
}
