package ssh

import (
	"cmp"
	"net/url"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// disk identifies the disk that a host key belongs to: the disk of an instance, made from an image. A new instance or
// a rebuild makes a new disk with a new key; a reboot keeps both. The zero value is an unknown disk, of keys that
// were stored without one.
type disk struct{ instance, image string }

func diskOf(i reconfigure.Instance) disk { return disk{i.ID, i.Made.ImageID} }

// may reports whether two disks may be the same. Unknown parts match everything.
func (d disk) may(is disk) bool {
	same := func(a, b string) bool { return a == "" || b == "" || a == b }
	return same(d.instance, is.instance) && same(d.image, is.image)
}

const diskMark = "disk="

// String returns the comment of a key in known_hosts (sshd(8)) that identifies the key's disk; empty for an unknown
// one.
func (d disk) String() string {
	if d.instance == "" {
		return ""
	}
	return diskMark + url.PathEscape(d.instance) + "/" + url.PathEscape(d.image)
}

// parseDisk reads what String returns. Any other comment means an unknown disk.
func parseDisk(comment string) disk {
	text, marked := strings.CutPrefix(comment, diskMark)
	instance, image, whole := strings.Cut(text, "/")
	id, err := url.PathUnescape(instance)
	made, err2 := url.PathUnescape(image)
	if !marked || !whole || cmp.Or(err, err2) != nil {
		return disk{}
	}
	return disk{id, made}
}

// parse reads a key in the Keeper's form, with its disk.
func parse(text string) (ssh.PublicKey, disk, error) {
	key, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	return key, parseDisk(comment), err
}

// format is the inverse of parse.
func format(keys []ssh.PublicKey, of disk) []string {
	all := []string{}
	for _, key := range keys {
		text := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
		if comment := of.String(); comment != "" {
			text += " " + comment
		}
		all = append(all, text)
	}
	return all
}
