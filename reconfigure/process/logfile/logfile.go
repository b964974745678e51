// Package logfile keeps the logs of workers. Any number of processes append to a log at the same time; it is rotated
// once a day, and removed when it is old. A rotation library for one process would rename the log while other
// processes write to it.
package logfile

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Folder is a folder of logs. Any number of processes append to a log; once a day it is set aside, that is, renamed
// to its name and the date, and it is removed when its last line is old. Each process that has a log open holds a
// shared lock on it (flock(2)), which ends with the last process that has inherited it. So a log in use is neither
// set aside nor removed.
type Folder struct{ Dir string }

// Open opens a log for appending.
func (l Folder) Open(name string) (*os.File, error) {
	if err := os.MkdirAll(l.Dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(l.Dir, name)
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(file, unix.LOCK_SH); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if isAt(file, path) {
			return file, nil
		}
		if err := file.Close(); err != nil { // the log was set aside meanwhile
			return nil, err
		}
	}
}

// Prune sets the logs aside, and removes those that were set aside and not written to after before.
func (l Folder) Prune(now, before time.Time) error {
	logs, err := filepath.Glob(filepath.Join(l.Dir, "*.log"))
	if err != nil {
		return err
	}
	aside, err := filepath.Glob(filepath.Join(l.Dir, "*.log.*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range logs {
		errs = append(errs, setAside(path, path+"."+now.Format(time.DateOnly)))
	}
	for _, path := range aside {
		errs = append(errs, unlessInUse(path, func(info os.FileInfo) error {
			if !info.ModTime().Before(before) {
				return nil
			}
			return os.Remove(path)
		}))
	}
	return errors.Join(errs...)
}

// setAside renames a log, unless it is empty or another process has it open. If this process writes to it, this
// process continues in a new log; else a long-running worker would always write to the same one.
func setAside(path, name string) error {
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	if isAt(os.Stderr, path) {
		return renew(path, name)
	}
	return unlessInUse(path, func(info os.FileInfo) error {
		if info.Size() == 0 {
			return nil
		}
		return os.Rename(path, name)
	})
}

// renew sets aside the log that this process has inherited as its output, and opens a new one.
func renew(path, name string) (err error) {
	if err := flock(os.Stderr, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, flock(os.Stderr, unix.LOCK_SH))
		}
	}()
	if err := os.Rename(path, name); err != nil {
		return err
	}
	file, err := Folder{filepath.Dir(path)}.Open(filepath.Base(path))
	if err != nil {
		return err
	}
	for _, output := range []*os.File{os.Stdout, os.Stderr} {
		err = errors.Join(err, unix.Dup3(int(file.Fd()), int(output.Fd()), 0))
	}
	return errors.Join(err, file.Close())
}

// unlessInUse calls do for a log that no process has open.
func unlessInUse(path string, do func(os.FileInfo) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := flock(file, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	} else if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return do(info)
}

// flock takes a lock, or returns EWOULDBLOCK.
func flock(file *os.File, how int) error {
	for {
		if err := unix.Flock(int(file.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// isAt reports whether an open file is the one at a path.
func isAt(file *os.File, path string) bool {
	is, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(is, there)
}
