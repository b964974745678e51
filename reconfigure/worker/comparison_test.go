package worker

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// TestWhenAWorkerComparesNext never compares, since that would need a cloud. The script unattended.txtar does.
func TestWhenAWorkerComparesNext(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join("..", "..", "group_vars", "all.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		from, to string        // in the shipped declaration
		age      time.Duration // of the last comparison
		change   func(*comparer)
		nodes    map[string]reconfigure.Spec // nil: no map was kept
		next     time.Duration               // zero: none
	}{
		"the next one is not due":   {age: time.Minute, next: 4 * time.Minute},
		"none is declared any more": {from: "reconcile_minutes: 5", to: "reconcile_minutes: 0"},
		"there is a slip in the declaration": {
			from: "reconcile_minutes: 5", to: "reconcile_minutes: five", next: 10 * time.Second,
		},
		"it is due, and there is a pause": {age: time.Hour, next: time.Minute},
		"spare nodes are declared, and there is a pause": {
			from: `gres: ""`, to: "spare: 1", age: time.Minute, next: time.Minute,
		},
		"the last one is in the future": {age: -time.Hour, next: time.Minute},
		"the program was replaced": {age: time.Minute, change: func(r *comparer) {
			r.self.path = "/bin/true"
		}},
		"the cluster was destroyed": {age: time.Minute, nodes: map[string]reconfigure.Spec{}},
		"the control node is left": {
			age: time.Minute, nodes: map[string]reconfigure.Spec{"ctl": {}}, next: 4 * time.Minute,
		},
		"another journal is declared": {from: "state_directory: state", to: "state_directory: elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			s := site.Site{Dir: t.TempDir()}
			s.Cluster.Settings.StateDir = s.File("state")
			if err := os.MkdirAll(s.File("group_vars"), 0o755); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(shipped), test.from) {
				t.Fatalf("the shipped declaration has no %q", test.from)
			}
			edited := strings.Replace(string(shipped), test.from, test.to, 1)
			if err := os.WriteFile(s.File("group_vars", "all.yml"), []byte(edited), 0o644); err != nil {
				t.Fatal(err)
			}
			log, err := journal.Open(t.Context(), s.StateFile())
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			if err := log.Pause(t.Context(), "a comparison would need a cloud", "test"); err != nil {
				t.Fatal(err)
			}
			if test.nodes != nil {
				if err := log.AdoptNodes(t.Context(), test.nodes); err != nil {
					t.Fatal(err)
				}
			}
			compared := time.Now().Add(-test.age)
			if err := keepLook(s, reconcile.Look{Time: compared}); err != nil {
				t.Fatal(err)
			}
			self, err := thisProgram()
			if err != nil {
				t.Fatal(err)
			}
			r := comparer{
				dir:  s.Dir,
				log:  log,
				out:  slog.New(slog.NewTextHandler(io.Discard, nil)),
				at:   s.Location(),
				self: self,
			}
			if test.change != nil {
				test.change(&r)
			}
			next, ok := r.reconcile(t.Context())
			if ok != (test.next > 0) || next > test.next || ok && next < test.next-20*time.Second {
				t.Errorf("the next one is in %s (%t), want %s", next, ok, test.next)
			}
			if last, err := LastLook(s); err != nil || !last.Time.Equal(compared) {
				t.Errorf("it has compared: %v, error %v", last.Time, err)
			}
		})
	}
}
