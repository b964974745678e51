package terraform

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The local back end writes its file in place: it empties the file first. Before the first write of a run it copies
// the state to a file beside it. If Terraform is killed, or the disk is full, the file is left without a whole state,
// and the copy is whole (internal/states/statemgr/filesystem.go in Terraform's source).

// repair restores the state of a local file from the copy beside it, if the last write of the file was cut off. It
// returns true if the state may be read again, and an error that says what to do if it was not restored. A read-only
// driver restores nothing. The restored state lacks what Terraform has made since the copy: adoption finds that in the
// cloud.
func (d *Driver) repair() (restored bool, err error) {
	file := d.localState(d.cfg.Workspace)
	backup := file + ".backup"
	if !d.isLocal() || isState(file) || !isState(backup) {
		return false, nil
	}
	if d.cfg.ReadOnly && isLocked(file) {
		return false, fmt.Errorf("%s is being written by Terraform: try again in a moment", file)
	}
	cut := fmt.Errorf("the last write of %s was cut off: Terraform was killed, or the disk was full", file)
	if d.cfg.ReadOnly {
		return false, fmt.Errorf("%w. The next worker restores it from %s; instances that were made since then are found "+
			"in the cloud, and adopted or removed", cut, backup)
	}
	if err := restore(file, backup); err != nil {
		return false, fmt.Errorf("%w, and it could not be restored: %w. The next attempt may succeed when the disk has room; "+
			"or run `cp %s %s`", cut, err, backup, file)
	}
	d.cfg.Log.Warn("Terraform's state was restored: its last write was cut off", "file", file, "from", backup)
	return true, nil
}

// isLocked reports whether another process has locked a state, as Terraform does as long as it may write it.
func isLocked(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}

var errWritten = errors.New("another process has locked it")

// restore writes a copy of a state to its file, which has no whole state. It holds Terraform's lock meanwhile, which
// is for the file itself, so the file is not replaced by another one. If restore is interrupted, it may be called
// again.
func restore(file, backup string) (err error) {
	text, err := os.ReadFile(backup)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// A lock of the open file, since this process reads the state with other descriptors meanwhile: closing one of them
	// would release a lock of the process (fcntl(2)).
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		return errWritten
	}
	if isState(file) {
		return nil // its writer has ended meanwhile
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	return f.Sync()
}
