// Package ssh sees to it that the nodes' host keys are known, so that everything that logs in to them, Ansible and Slurm's commands, can check whom it talks to.
// The Greeter learns them when instances come up: from their console logs, which the cloud's authenticated API gives out, so that the very first connection is
// checked. A Keeper keeps them for all control hosts, and ssh reads them from a known_hosts file (sshd(8)) that is made from what the Keeper has. Nothing here
// ever switches the check off.
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
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Keeper keeps the host keys where all control hosts find them: by address as known_hosts has it, each key as known_hosts has it behind the address.
type Keeper interface {
	// HostKeys is all of them. An address whose keys were forgotten has none.
	HostKeys(ctx context.Context) (map[string][]string, error)
	// KeepHostKeys has keys take the place of those of the same addresses. Who leads no more MUST be refused.
	KeepHostKeys(ctx context.Context, keys map[string][]string) error
	// AdoptHostKeys keeps the keys of addresses of which nothing was kept or forgotten yet.
	AdoptHostKeys(ctx context.Context, keys map[string][]string) error
}

// KnownHosts is the keys that addresses may answer with. Addresses are IP addresses, with a port where it is not 22.
//
// Of an address that the Keeper knows the file says what the Keeper says, from each Refresh on; other lines of it stay as they are. Several processes may refresh
// it at once; a reader never sees half of a change.
type KnownHosts struct {
	Path string
	// Keeper may be nil for those who learn nothing and are content with the file as it is.
	Keeper Keeper
}

// Refresh brings the file up to date.
func (k KnownHosts) Refresh(ctx context.Context) error {
	if k.Keeper == nil {
		return nil
	}
	return k.locked(ctx, func(before []byte) error {
		kept, err := k.Keeper.HostKeys(ctx)
		if err != nil {
			return err
		}
		after := render(before, kept)
		if bytes.Equal(before, after) {
			return nil
		}
		if err := renameio.WriteFile(k.Path, after, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", k.Path, err)
		}
		return nil
	})
}

// Adopt has the Keeper keep the keys that stand in the file alone.
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

// locked gives the file's content to do, while no other process of this host writes it: what is written must not be older than what is there.
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

// read ends the last line where somebody's editor did not.
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

// others is the lines of the file that are not of addresses of which anything is kept.
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

// render is the file with what is kept: first what stood there of others, then the addresses in their order.
func render(before []byte, kept map[string][]string) []byte {
	after := others(before, kept)
	for _, address := range slices.Sorted(maps.Keys(kept)) {
		for _, key := range kept[address] {
			after = fmt.Appendf(after, "%s %s\n", address, key)
		}
	}
	return after
}

// plain is the keys of a file by address, of those lines that are as we write them: no comments, patterns, several hosts, hashes or marks.
func plain(text []byte) map[string][]string {
	keys := map[string][]string{}
	for line := range bytes.Lines(text) {
		host, key, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if host == "" || strings.ContainsAny(host, "#@|*?!,") {
			continue
		}
		if _, err := parse(key); err == nil {
			keys[host] = append(keys[host], key)
		}
	}
	return keys
}

// parse reads a key as the Keeper has it.
func parse(text string) (ssh.PublicKey, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	return key, err
}

// format is what parse reads.
func format(keys []ssh.PublicKey) []string {
	all := []string{}
	for _, key := range keys {
		all = append(all, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
	}
	return all
}

// Command is the words that run what follows them in a shell of user's at address, trusting this file and nothing else. The file keyFile holds the private key.
// It asks nobody anything, looks at nobody's configuration, and gives up on a peer that is silent for a minute (ssh_config(5)).
func (k KnownHosts) Command(user, address, keyFile string) []string {
	path := strings.NewReplacer(`%`, `%%`, `\`, `\\`, `"`, `\"`).Replace(k.Path)
	return []string{
		"ssh", "-F", "none", "-T",
		"-o", `UserKnownHostsFile="` + path + `"`, "-o", "GlobalKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=yes",
		"-o", "UpdateHostKeys=no", // else ssh would write to the file, past our lock
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3",
		"-o", "IdentitiesOnly=yes", "-i", keyFile,
		user + "@" + address,
	}
}

// ring is the keys as a batch knows them, and learns more. It may be used from several goroutines.
type ring struct {
	keeper  Keeper
	keys    map[string][]string // as they were at the start
	writing sync.Mutex
	lock    sync.Mutex
	learnt  map[string][]string // and not written yet
}

// open reads the keys, less those of the addresses that were given to new instances: whatever was known of them is forgotten.
func (k KnownHosts) open(ctx context.Context, forget []string) (*ring, error) {
	kept, err := k.Keeper.HostKeys(ctx)
	if err != nil {
		return nil, err
	}
	forgotten := map[string][]string{}
	for _, address := range forget {
		address = knownhosts.Normalize(address)
		if len(kept[address]) > 0 {
			forgotten[address] = nil
		}
	}
	if len(forgotten) > 0 {
		if err := k.Keeper.KeepHostKeys(ctx, forgotten); err != nil {
			return nil, err
		}
	}
	maps.Copy(kept, forgotten)
	return &ring{keeper: k.Keeper, keys: kept, learnt: map[string][]string{}}, nil
}

// of is the keys that an address may answer with; none where it is unknown.
func (r *ring) of(address string) ([]ssh.PublicKey, error) {
	var keys []ssh.PublicKey
	for _, text := range r.keys[knownhosts.Normalize(address)] {
		key, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("the host keys that are known of %s: %w", address, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// learn makes keys the only ones that an address may answer with. What others learn while somebody writes is written together: instances come up by the hundred.
func (r *ring) learn(ctx context.Context, address string, keys []ssh.PublicKey) error {
	address = knownhosts.Normalize(address)
	texts := format(keys)
	if slices.Equal(r.keys[address], texts) {
		return nil
	}
	r.lock.Lock()
	r.learnt[address] = texts
	r.lock.Unlock()
	return r.flush(ctx)
}

// flush returns when all that was learnt before is written, by this one or by another one.
func (r *ring) flush(ctx context.Context) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.lock.Lock()
	together := maps.Clone(r.learnt)
	r.lock.Unlock()
	if len(together) == 0 {
		return nil
	}
	if err := r.keeper.KeepHostKeys(ctx, together); err != nil {
		return err // the next one tries again
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	maps.DeleteFunc(r.learnt, func(address string, keys []string) bool { return slices.Equal(together[address], keys) })
	return nil
}
