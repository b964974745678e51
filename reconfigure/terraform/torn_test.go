package terraform

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// onPull is a log that calls do before each state pull, with the number of earlier pulls.
type onPull struct {
	slog.Handler
	seen int
	do   func(before int)
}

func (h *onPull) Enabled(context.Context, slog.Level) bool { return true }

func (h *onPull) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "state pull") {
		h.do(h.seen)
		h.seen++
	}
	return nil
}

// TestAStateThatIsBeingWrittenIsReadAgain stops Terraform's local backend in the middle of a write: it has emptied the
// file, or written half of it. Only Terraform may read such a file.
func TestAStateThatIsBeingWrittenIsReadAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.deploy(c.open(), c.deployed("node01"))
	file := c.open().localState(reconfigure.DefaultShard)
	whole, err := os.ReadFile(file)
	c.must(err)
	for name, part := range map[string][]byte{"empty": nil, "half": whole[:len(whole)/2]} {
		c.must(os.WriteFile(file, part, 0o600))
		log := &onPull{Handler: slog.DiscardHandler, do: func(before int) {
			if text := [][]byte{part, whole}; before < len(text) {
				c.must(os.WriteFile(file, text[before], 0o600))
			}
		}}
		c.cfg.Log = slog.New(log)
		found, err := c.open().Instances(t.Context())
		if err != nil || len(found) != 2 || log.seen != 2 {
			t.Errorf("%s: %d instances, read %d times, error %v", name, len(found), log.seen, err)
		}
	}
}

// TestAStateThatWasCutOffIsRestored makes Terraform's state look as after a kill of Terraform in the middle of a write:
// a copy from before that run is beside it.
func TestAStateThatWasCutOffIsRestored(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.deploy(c.open(), c.deployed("node01"))
	file := c.open().localState(reconfigure.DefaultShard)
	whole, err := os.ReadFile(file)
	c.must(err)
	c.must(os.WriteFile(file+".backup", whole, 0o600))
	for name, part := range map[string][]byte{"empty": nil, "half": whole[:len(whole)/2]} {
		c.must(os.WriteFile(file, part, 0o600))
		c.cfg.ReadOnly = true
		_, err := c.open().Instances(t.Context())
		wantError(t, name+": a reader", err, "The next worker restores it from "+file+".backup")
		release := locks(t, file)
		_, err = c.open().Instances(t.Context())
		wantError(t, name+": a reader during a write", err, file+" is being written by Terraform")
		c.cfg.ReadOnly = false
		_, err = c.open().Instances(t.Context())
		wantError(t, name+": Terraform still has the lock", err, "another process has locked it")
		release()
		if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, part) {
			t.Errorf("%s: the file was changed: %q, %v", name, is, err)
		}

		d := c.open()
		if found, err := d.Instances(t.Context()); err != nil || len(found) != 2 {
			t.Errorf("%s: %d instances, error %v", name, len(found), err)
		}
		if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, whole) {
			t.Errorf("%s: restored %q, %v", name, is, err)
		}
		c.wantClean(d)
	}
	c.must(os.Remove(file + ".backup"))
	c.must(os.WriteFile(file, whole[:len(whole)/2], 0o600))
	if _, err := c.open().Instances(t.Context()); err == nil {
		t.Error("there is no error without a copy of the state")
	}
}

func wantError(t *testing.T, name string, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: no %q in %v", name, words, err)
	}
}

// locks locks a file as Terraform does, but for its descriptor instead of this process.
func locks(t *testing.T, file string) (release func()) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}
