package terraform

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

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

// TestAStateThatWasNotWrittenToItsEndIsAnError makes Terraform's state look as after a full disk: a copy from before
// that run is beside it.
func TestAStateThatWasNotWrittenToItsEndIsAnError(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.deploy(c.open(), c.deployed("node01"))
	file := c.open().localState(reconfigure.DefaultShard)
	whole, err := os.ReadFile(file)
	c.must(err)
	c.must(os.WriteFile(file+".backup", whole, 0o600))
	for name, part := range map[string][]byte{"empty": nil, "half": whole[:len(whole)/2]} {
		c.must(os.WriteFile(file, part, 0o600))
		_, err := c.open().Instances(t.Context())
		if want := "cp " + file + ".backup " + file + "`"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: no %q in %v", name, want, err)
		}
	}
	c.must(os.Rename(file+".backup", file))
	if found, err := c.open().Instances(t.Context()); err != nil || len(found) != 2 {
		t.Errorf("restored: %d instances, error %v", len(found), err)
	}
}
