package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

func isOf(node string) func() (func(string) bool, error) {
	return func() (func(string) bool, error) {
		return func(line string) bool { return slices.Contains(strings.Fields(line), "reboot@a/"+node) }, nil
	}
}

func TestRevokedKeysGoAndOtherLinesStay(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "keys"), filepath.Join(dir, "link")
	const (
		foreign = "# reboot@a/n1\n\nssh-rsa AAAA me@home\n\xff\u2028\r\n"
		rest    = "restrict,command=\"x\" ssh-ed25519 AAAA reboot@a/n11\nssh-ed25519 AAAA last line"
	)
	err := errors.Join(os.Symlink(file, link),
		os.WriteFile(file, []byte(foreign+"restrict ssh-ed25519 AAAA reboot@a/n1\n"+rest), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := RevokeKeys(t.Context(), link, isOf("n1")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != foreign+rest {
		t.Errorf("%v, %q", err, got)
	}
	none := func() (func(string) bool, error) { return nil, nil }
	if err := RevokeKeys(t.Context(), filepath.Join(dir, "missing"), none); err != nil {
		t.Errorf("without a file: %v", err)
	}
}

func TestKeysAreRevokedByOneWriterAtATime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	const lines = 20
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, "ssh-ed25519 AAAA reboot@a/n%d\n", i)
	}
	if err := os.WriteFile(file, []byte(text.String()+"# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range lines {
		group.Go(func() {
			if err := RevokeKeys(t.Context(), file, isOf(fmt.Sprint("n", i))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got, err := os.ReadFile(file); err != nil || string(got) != "# mine\n" {
		t.Errorf("%v, %q", err, got)
	}

	lock := flock.New(filepath.Dir(file), flock.SetFlag(os.O_RDONLY)) // in the form of authorize_key
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := RevokeKeys(ctx, file, isOf("n1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another process has the lock: %v", err)
	}
}
