package ssh

import (
	"regexp"
	"strings"

	"golang.org/x/crypto/ssh"
)

// The lines that enclose the host keys on the console of an instance, which cloud-init prints at its first boot
// (cloud-init, module keys_to_console).
const (
	blockBegin = "-----BEGIN SSH HOST KEY KEYS-----"
	blockEnd   = "-----END SSH HOST KEY KEYS-----"
)

// truncated reports whether the log begins in the middle of a block of keys: a cloud keeps only the end of a log
// (Nova reads 100 KiB).
func truncated(log string) bool {
	end := strings.LastIndex(log, blockEnd)
	return end >= 0 && !strings.Contains(log[:end], blockBegin)
}

// publicKey matches a key in a line, which may begin with the console's time.
var publicKey = regexp.MustCompile(`(?:ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/]+={0,2}`)

// ParseConsole reads the host keys from a console log. The last complete block counts, since a rebuilt instance
// continues the log of the old one. False means that there is no such block, or that it has no key.
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
		if err == nil { // a kernel message may be between the keys, or inside one
			keys = append(keys, key)
		}
	}
	return keys, len(keys) > 0
}
