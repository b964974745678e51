package existing

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/crypto/ssh"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
)

// hasHome reports whether the nodes mount alice's home from the control node. A site would use NFS, which the lab's
// kernel does not have.
func (l *Lab) hasHome() bool { return l.Kind == Packages && l.hasAccounting() }

const (
	// mountHome mounts the home from a host. Root on the node has alice's rights there.
	mountHome = `#!/bin/sh
set -e
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq --yes --no-install-recommends install sshfs >/dev/null
install -m 0600 /etc/home/key /run/home.key
exec sshfs -o allow_other,default_permissions,IdentityFile=/run/home.key -o StrictHostKeyChecking=no \
	-o UserKnownHostsFile=/dev/null "alice@$1:/home/alice" /home/alice
`
	// serveHome lets the nodes log in to the control node as alice.
	serveHome = `install -d -o alice -g alice -m 0700 /home/alice/.ssh
install -o alice -g alice -m 0600 /etc/home/key.pub /home/alice/.ssh/authorized_keys
`
	// homeAtBoot has the new nodes mount the home.
	homeAtBoot = `#!/bin/sh
[ "$1" != start ] || exec /usr/local/sbin/mount-home "$(cat /etc/home/server)"
`
)

// addHome adds to both images what mountHome and serveHome need. No machine of the images may exist.
func (l *Lab) addHome() error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	login, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return err
	}
	for _, name := range []string{cluster.ImageV1, cluster.ImageV2} {
		err = errors.Join(err, l.addToImage(name, map[string]string{
			"usr/local/sbin/mount-home": mountHome,
			"etc/home/key":              string(pem.EncodeToMemory(block)),
			"etc/home/key.pub":          string(ssh.MarshalAuthorizedKey(login)),
		}), l.addFUSE(name))
	}
	return err
}

// addFUSE adds the kernel's device of FUSE to an image.
func (l *Lab) addFUSE(name string) error {
	const major, minor = 10, 229 // Documentation/admin-guide/devices.txt of Linux
	path := filepath.Join(l.layer(name), "dev", "fuse")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, major<<8|minor); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return nil
}
