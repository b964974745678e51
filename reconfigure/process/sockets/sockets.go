// Package sockets makes private folders with short names for the sockets of SSH connections, and removes those of
// killed processes.
package sockets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

const prefix = "reconfigure-"

// Dir is a folder of this process. The kernel releases its lock when the process ends in any way.
type Dir struct {
	Path string
	lock *flock.Flock
}

// New makes a folder.
func New() (Dir, error) {
	path, err := os.MkdirTemp(parent(), prefix)
	if err != nil {
		return Dir{}, fmt.Errorf("make a folder for sockets: %w", err)
	}
	lock := lockOf(path)
	if _, err := lock.TryLock(); err != nil {
		return Dir{}, errors.Join(fmt.Errorf("lock the folder for sockets: %w", err), os.RemoveAll(path))
	}
	return Dir{path, lock}, nil
}

// Remove removes the folder.
func (d Dir) Remove() error {
	return errors.Join(os.RemoveAll(d.Path), d.lock.Unlock())
}

// parent returns the folder for temporary files, or /tmp if the name of that is too long: a socket's path has at most
// 107 bytes (unix(7)), of which ssh needs 17 for itself.
func parent() string {
	const longest = 55
	if dir := os.TempDir(); len(dir) <= longest {
		return dir
	}
	return "/tmp"
}

// lockOf returns the lock of a folder, on the folder itself.
func lockOf(path string) *flock.Flock { return flock.New(path, flock.SetFlag(os.O_RDONLY)) }

// Sweep removes the folders of this user whose processes have ended. It keeps a folder without a socket, since its
// process may be about to lock it, and one with other content, since it is not ours.
func Sweep() error {
	all, err := filepath.Glob(filepath.Join(parent(), prefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range all {
		if err := sweep(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the sockets of a process that was killed: %w", err))
		}
	}
	return errors.Join(errs...)
}

func sweep(path string) error {
	var is unix.Stat_t
	if err := unix.Lstat(path, &is); err != nil || is.Mode&unix.S_IFMT != unix.S_IFDIR || int(is.Uid) != os.Getuid() {
		return err
	}
	lock := lockOf(path)
	if ours, err := lock.TryLock(); err != nil || !ours {
		return err
	}
	defer lock.Unlock() //nolint:errcheck // the folder was only read
	files, err := os.ReadDir(path)
	other := func(f fs.DirEntry) bool { return f.Type() != fs.ModeSocket }
	if err != nil || len(files) == 0 || slices.ContainsFunc(files, other) {
		return err
	}
	return os.RemoveAll(path)
}
