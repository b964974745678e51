package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// RevokeKeys removes the lines for which revoked returns true from a file in the format of authorized_keys (sshd(8)).
// It does not change empty lines and comments. A missing file has no lines.
//
// The lock is that of Ansible's plugin authorize_key: flock(2) on the folder of the file. Choose runs under the lock
// and returns revoked; nil: no line is removed.
func RevokeKeys(ctx context.Context, path string, choose func() (revoked func(line string) bool, err error)) error {
	path, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("revoke keys: %w", err)
	}
	lock := flock.New(filepath.Dir(path), flock.SetFlag(os.O_RDONLY))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("revoke keys: lock %s: %w", lock.Path(), err)
	}
	err = revokeLocked(path, choose)
	return errors.Join(err, lock.Close())
}

func revokeLocked(path string, choose func() (func(line string) bool, error)) error {
	before, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("revoke keys: %w", err)
	}
	revoked, err := choose()
	if err != nil || revoked == nil {
		return err
	}
	after := without(before, revoked)
	if len(after) == len(before) {
		return nil
	}
	if err := renameio.WriteFile(path, after, 0o600); err != nil {
		return fmt.Errorf("revoke keys: %w", err)
	}
	return nil
}

func without(text []byte, revoked func(line string) bool) (rest []byte) {
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) == 0 || words[0][0] == '#' || !revoked(string(line)) {
			rest = append(rest, line...)
		}
	}
	return rest
}
