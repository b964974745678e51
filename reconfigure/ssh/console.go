package ssh

import (
	"regexp"
	"strings"

	"golang.org/x/crypto/ssh"
)

// The lines between which cloud-init prints the host keys of an instance on its console, at its first boot (cloud-init,
// module keys_to_console).
const (
	blockBegin = "-----BEGIN SSH HOST KEY KEYS-----"
	blockEnd   = "-----END SSH HOST KEY KEYS-----"
)

// truncated reports whether the log begins in the middle of a block of keys: a cloud keeps the end of a log only (Nova
// reads 100 KiB).
func truncated(log string) bool {
	end := strings.LastIndex(log, blockEnd)
	return end >= 0 && !strings.Contains(log[:end], blockBegin)
}

// publicKey finds a key in a line that a console may have put a time before.
var publicKey = regexp.MustCompile(`(?:ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/]+={0,2}`)

// ParseConsole reads the host keys from a console log. The last whole block counts, since a rebuilt instance goes on
// writing to the log of the old one. False means that there is no such block, or no key in it.
func ParseConsole(log string) ([]ssh.PublicKey, bool) {
	end := strings.LastIndex(log, blockEnd)
	if end < 0 {
		return nil, false
	}
	begin := strings.LastIndex(log[:end], blockBegin)
	if begin < 0 {
		return nil, false
	}
	var keys []ssh.PublicKey
	for line := range strings.Lines(log[begin+len(blockBegin) : end]) {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(publicKey.FindString(line)))
		if err == nil { // a message of the kernel's may stand between the keys, or in the middle of one
			keys = append(keys, key)
		}
	}
	return keys, len(keys) > 0
}
