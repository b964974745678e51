package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
)

// TestWhetherAWorkerStaysToLook never comes to a look: it would need a cloud. The script tend.txtar does.
func TestWhetherAWorkerStaysToLook(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join("..", "..", "group_vars", "all.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		from, to string        // in the shipped declaration
		age      time.Duration // of the last look
		change   func(*tender)
		stays    bool
		next     time.Duration // when there is something to do again
	}{
		"the next look is not due":           {age: time.Minute, stays: true, next: 4 * time.Minute},
		"it is not declared any more":        {from: "reconcile_minutes: 5", to: "reconcile_minutes: 0", change: func(d *tender) { d.stay = true }, next: time.Minute},
		"there is a slip in the declaration": {from: "reconcile_minutes: 5", to: "reconcile_minutes: five", change: func(d *tender) { d.stay = true }, stays: true, next: time.Minute},
		"it is due, and there is a pause":    {age: time.Hour, stays: true, next: time.Minute},
		"the last look is in the future":     {age: -time.Hour, stays: true, next: time.Minute},
		"the program was replaced":           {age: time.Minute, change: func(d *tender) { d.self.path = "/bin/true" }, next: time.Minute},
		"the program of a service was":       {age: time.Minute, change: func(d *tender) { d.self.path, d.fixed = "/bin/true", true }, stays: true, next: 4 * time.Minute},
		"another journal is declared":        {from: "state_directory: state", to: "state_directory: elsewhere", change: func(d *tender) { d.stay = true }, next: time.Minute},
		"it is not time for anything":        {change: func(d *tender) { d.next, d.stay = time.Now().Add(time.Hour), true }, stays: true, next: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := site{dir: t.TempDir()}
			s.cluster.Settings.StateDir = s.file("state")
			if err := os.MkdirAll(s.file("group_vars"), 0o755); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(shipped), test.from) {
				t.Fatalf("the shipped declaration has no %q", test.from)
			}
			if err := os.WriteFile(s.file("group_vars", "all.yml"), []byte(strings.Replace(string(shipped), test.from, test.to, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			log, err := journal.Open(t.Context(), s.state())
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			if err := log.Pause(t.Context(), "a look would need a cloud", "test"); err != nil {
				t.Fatal(err)
			}
			looked := time.Now().Add(-test.age)
			if err := s.keepLook(lastLook{Look: reconcile.Look{Time: looked}}); err != nil {
				t.Fatal(err)
			}
			self, err := thisProgram()
			if err != nil {
				t.Fatal(err)
			}
			d := tender{dir: s.dir, log: log, out: slog.New(slog.NewTextHandler(io.Discard, nil)), where: s.whereabouts(), self: self}
			if test.change != nil {
				test.change(&d)
			}
			if got := d.tend(t.Context()); got != test.stays {
				t.Errorf("it stays: %t", got)
			}
			if in := time.Until(d.next); in > test.next || in < test.next-30*time.Second {
				t.Errorf("there is something to do in %v, want %v", in, test.next)
			}
			if last, err := s.lastLook(); err != nil || !last.Time.Equal(looked) {
				t.Errorf("it has looked: %v, error %v", last.Time, err)
			}
		})
	}
}
