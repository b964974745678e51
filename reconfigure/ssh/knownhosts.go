// Package ssh manages the nodes' host keys, so that every login to them, by Ansible and by Slurm's tools, checks the
// host key. A Waiter learns the keys when instances come up: from their console logs, which it reads through the
// cloud's authenticated API, so that even the first connection is checked. A Keeper stores the keys for all control
// hosts, and ssh reads them from a known_hosts file (sshd(8)) that is written from the Keeper's keys. The package
// never disables the check.
package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// Keeper stores the host keys for all control hosts, by address. Addresses and keys have the form that they have in
// known_hosts. The comment of a key identifies its disk.
type Keeper interface {
	// HostKeys returns all host keys. An address whose keys were removed has an empty list.
	HostKeys(ctx context.Context) (map[string][]string, error)
	// KeepHostKeys replaces the keys of these addresses. It MUST fail for a caller that has lost its lease.
	KeepHostKeys(ctx context.Context, keys map[string][]string) error
	// AdoptHostKeys stores the keys of those addresses that have no entry yet, also no empty one.
	AdoptHostKeys(ctx context.Context, keys map[string][]string) error
}

// KnownHosts is a known_hosts file with the keys that addresses may answer with. Addresses are IP addresses, with a
// port if it is not 22.
//
// Refresh updates the addresses that the Keeper knows to the Keeper's keys; it does not change other lines. Several
// processes may refresh the file at the same time; a reader never sees a partial change.
type KnownHosts struct {
	Path string
	// Keeper may be nil if no keys are learnt and the file needs no refresh.
	Keeper Keeper
}

// Refresh updates the file. If the file is up to date, Refresh neither writes nor locks it.
func (k KnownHosts) Refresh(ctx context.Context) error {
	if k.Keeper == nil {
		return nil
	}
	text, err := k.read()
	if err != nil {
		return err
	}
	if after, err := k.upToDate(ctx, text); err != nil || bytes.Equal(text, after) {
		return err
	}
	return k.locked(ctx, func(before []byte) error {
		after, err := k.upToDate(ctx, before)
		if err != nil || bytes.Equal(before, after) {
			return err
		}
		if err := renameio.WriteFile(k.Path, after, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", k.Path, err)
		}
		return nil
	})
}

// upToDate returns the new content of the file.
func (k KnownHosts) upToDate(ctx context.Context, before []byte) ([]byte, error) {
	kept, err := k.Keeper.HostKeys(ctx)
	if err != nil {
		return nil, err
	}
	return render(before, kept), nil
}

// Adopt stores the keys that only the file has in the Keeper.
func (k KnownHosts) Adopt(ctx context.Context) error {
	kept, err := k.Keeper.HostKeys(ctx)
	if err != nil {
		return err
	}
	text, err := k.read()
	if err != nil {
		return err
	}
	if strange := plain(others(text, kept)); len(strange) > 0 {
		return k.Keeper.AdoptHostKeys(ctx, strange)
	}
	return nil
}

// locked calls do with the file's content while no other process of this host writes the file, so that newer content
// is never replaced by older.
func (k KnownHosts) locked(ctx context.Context, do func(text []byte) error) (err error) {
	lock := flock.New(k.Path + ".lock")
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("lock %s: %w", k.Path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	text, err := k.read()
	if err != nil {
		return err
	}
	return do(text)
}

// read returns the file's content. It adds a missing newline at the end, which some editors leave out.
func (k KnownHosts) read() ([]byte, error) {
	text, err := os.ReadFile(k.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return text, err
}

// others returns the lines of the file except those of addresses that have an entry in kept.
func others(text []byte, kept map[string][]string) []byte {
	var rest []byte
	for line := range bytes.Lines(text) {
		host, _, _ := bytes.Cut(line, []byte(" "))
		if _, known := kept[string(host)]; !known {
			rest = append(rest, line...)
		}
	}
	return rest
}

// render returns the new file: first the other lines, then the kept addresses, sorted.
func render(before []byte, kept map[string][]string) []byte {
	after := others(before, kept)
	for _, address := range slices.Sorted(maps.Keys(kept)) {
		for _, key := range kept[address] {
			after = fmt.Appendf(after, "%s %s\n", address, key)
		}
	}
	return after
}

// plain returns the keys in a file by address. It ignores lines in forms that we do not write: comments, patterns,
// several hosts, hashes and markers.
func plain(text []byte) map[string][]string {
	keys := map[string][]string{}
	for line := range bytes.Lines(text) {
		host, key, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if host == "" || strings.ContainsAny(host, "#@|*?!,") {
			continue
		}
		if _, _, err := parse(key); err == nil {
			keys[host] = append(keys[host], key)
		}
	}
	return keys
}

// keyExchange is a value of KexAlgorithms (ssh_config(5)): the default without sntrup761, the first choice of OpenSSH
// 9.0 to 9.8. That one takes most of the CPU of the ssh process (docs/how-it-works/security.md). Older releases do not
// have it, and newer ones prefer mlkem768x25519, which is as fast as Curve25519. ansible.cfg and hand_over.sh have it,
// too.
const keyExchange = "-sntrup761*"

// Command returns the words of an ssh command that runs the words that follow in user's shell at address, and trusts
// only this file. The file keyFile has the private key. The ssh asks for no input, reads no configuration file, and
// gives up on a peer that is silent for a minute (ssh_config(5)).
func (k KnownHosts) Command(user, address, keyFile string) []string {
	path := strings.NewReplacer(`%`, `%%`, `\`, `\\`, `"`, `\"`).Replace(k.Path)
	return []string{
		"ssh", "-F", "none", "-T",
		"-o", `UserKnownHostsFile="` + path + `"`, "-o", "GlobalKnownHostsFile=/dev/null",
		"-o", "StrictHostKeyChecking=yes",
		"-o", "UpdateHostKeys=no", // else ssh would write to the file without our lock
		"-o", "KexAlgorithms=" + keyExchange,
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3",
		"-o", "IdentitiesOnly=yes", "-i", keyFile,
		user + "@" + address,
	}
}
