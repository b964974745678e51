// Package ssh knows the nodes' host keys, so that everything that logs in to them, Ansible and Slurm's tools, checks
// what it talks to. A Waiter learns them when instances come up: from their console logs, which the cloud's
// authenticated API gives out, so that the very first connection is checked. A Keeper keeps them for all control hosts,
// and ssh reads them from a known_hosts file (sshd(8)) that is made of what the Keeper has. Nothing here ever switches
// the check off.
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

// Keeper keeps the host keys where all control hosts find them: by address as known_hosts has it, each key as
// known_hosts has it after the address. The comment of a key says which disk it is of.
type Keeper interface {
	// HostKeys is all of them. An address whose keys were forgotten has none.
	HostKeys(ctx context.Context) (map[string][]string, error)
	// KeepHostKeys puts keys in the place of those of the same addresses. A caller that has lost its lease MUST be
	// refused.
	KeepHostKeys(ctx context.Context, keys map[string][]string) error
	// AdoptHostKeys keeps the keys of addresses of which nothing was kept or forgotten yet.
	AdoptHostKeys(ctx context.Context, keys map[string][]string) error
}

// KnownHosts is the keys that addresses may answer with. Addresses are IP addresses, with a port where it is not 22.
//
// Of an address that the Keeper knows the file says what the Keeper says, from each Refresh on; other lines of it stay
// as they are. Several processes may refresh it at once; a reader never sees half of a change.
type KnownHosts struct {
	Path string
	// Keeper may be nil where nothing is learnt, and the file is good as it is.
	Keeper Keeper
}

// Refresh brings the file up to date. A file that is, is not touched, and no lock is made.
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

// upToDate is what the file is to have instead of this.
func (k KnownHosts) upToDate(ctx context.Context, before []byte) ([]byte, error) {
	kept, err := k.Keeper.HostKeys(ctx)
	if err != nil {
		return nil, err
	}
	return render(before, kept), nil
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

// locked gives the file's content to do, while no other process of this host writes it: what is written must not be
// older than what is there.
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

// plain is the keys of a file by address, of those lines that are as we write them: no comments, patterns, several
// hosts, hashes or marks.
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

// Command is the words of an ssh that runs what follows them in a shell of user's at address, trusting this file and
// nothing else. The file keyFile has the private key. It asks for no input, reads no configuration of anybody's, and
// gives up on a peer that is silent for a minute (ssh_config(5)).
func (k KnownHosts) Command(user, address, keyFile string) []string {
	path := strings.NewReplacer(`%`, `%%`, `\`, `\\`, `"`, `\"`).Replace(k.Path)
	return []string{
		"ssh", "-F", "none", "-T",
		"-o", `UserKnownHostsFile="` + path + `"`, "-o", "GlobalKnownHostsFile=/dev/null",
		"-o", "StrictHostKeyChecking=yes",
		"-o", "UpdateHostKeys=no", // else ssh would write to the file, past our lock
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3",
		"-o", "IdentitiesOnly=yes", "-i", keyFile,
		user + "@" + address,
	}
}
