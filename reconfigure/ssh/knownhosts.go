// Package ssh sees to it that the nodes' host keys are known, so that everything that logs in to them, Ansible and Slurm's commands, can check whom it talks to.
// The keys stand in one known_hosts file (sshd(8)) of ours, which the Greeter fills when instances come up: from their console logs, which the cloud's
// authenticated API gives out, so that the very first connection is checked. Nothing here ever switches the check off.
package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// KnownHosts is a known_hosts file. Addresses are IP addresses, with a port where it is not 22. Several processes may change it at once; a reader never sees
// half of a change.
type KnownHosts struct{ Path string }

// Learn makes keys the only ones that an address may answer with. Whatever was known of it is forgotten: addresses are given to new instances.
func (k KnownHosts) Learn(address string, keys []ssh.PublicKey) error {
	var lines []byte
	for _, key := range keys {
		lines = fmt.Appendln(lines, knownhosts.Line([]string{address}, key))
	}
	return k.replace(address, lines)
}

// Forget drops the keys of an address.
func (k KnownHosts) Forget(address string) error { return k.replace(address, nil) }

// Keys is the keys that an address may answer with; none where it is unknown.
func (k KnownHosts) Keys(address string) ([]ssh.PublicKey, error) {
	text, err := k.read()
	if err != nil {
		return nil, err
	}
	var keys []ssh.PublicKey
	for line := range bytes.Lines(text) {
		if !of(line, address) {
			continue
		}
		_, _, key, _, _, err := ssh.ParseKnownHosts(line)
		if err != nil {
			return nil, fmt.Errorf("%s: the entry of %s: %w", k.Path, address, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func (k KnownHosts) replace(address string, lines []byte) (err error) {
	lock := flock.New(k.Path + ".lock")
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock %s: %w", k.Path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	before, err := k.read()
	if err != nil {
		return err
	}
	var after []byte
	for line := range bytes.Lines(before) {
		if !of(line, address) {
			after = append(after, line...)
		}
	}
	after = append(after, lines...)
	if bytes.Equal(before, after) {
		return nil
	}
	if err := renameio.WriteFile(k.Path, after, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", k.Path, err)
	}
	return nil
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

func of(line []byte, address string) bool {
	host, _, _ := bytes.Cut(line, []byte(" "))
	return string(host) == knownhosts.Normalize(address)
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
