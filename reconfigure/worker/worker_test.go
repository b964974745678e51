package worker

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// TestAdaptersAreMadeAnewWhereTheSiteHasChanged edits the shipped declaration and the file of the clouds. A changed
// password must reach a running worker.
func TestAdaptersAreMadeAnewWhereTheSiteHasChanged(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join("..", "..", "group_vars", "all.yml"))
	if err != nil {
		t.Fatal(err)
	}
	s := site.Site{Dir: t.TempDir()}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	declaration := s.File("group_vars", "all.yml")
	write(declaration, string(shipped))
	write(s.File("clouds.yaml"), "clouds: {}\n")
	log, err := journal.Open(t.Context(), s.File("state"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ctx := t.Context()
	release, held, err := log.Acquire(ctx)
	if err != nil || !held {
		t.Fatalf("%v, error %v", held, err)
	}
	defer release()
	o := &opener{dir: s.Dir, log: log, logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	defer o.close()
	open := func() *site.Adapters {
		t.Helper()
		if _, err := o.open(ctx); o.last == nil {
			t.Fatal(err)
		}
		return o.last
	}
	first := open()
	if open() != first {
		t.Error("there are new adapters, although nothing has changed")
	}
	changed := time.Now().Add(-time.Hour)
	if err := os.Chtimes(s.File("clouds.yaml"), changed, changed); err != nil {
		t.Fatal(err)
	}
	second := open()
	if second == first {
		t.Error("they are the same after a change of the file of the clouds")
	}
	write(declaration, strings.Replace(string(shipped), "suspend_time: ", "suspend_time: 1", 1))
	if open() == second {
		t.Error("they are the same after a change of the declaration")
	}
}

// TestSystemdStartsTheWorkerWhereThatIsDeclared uses a systemctl that records its arguments.
func TestSystemdStartsTheWorkerWhereThatIsDeclared(t *testing.T) {
	dir := t.TempDir()
	noted := filepath.Join(dir, "noted")
	program := "#!/bin/sh\necho \"$@\" >>" + noted + "\n[ \"$1\" = start ]\n"
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	s := site.Site{Dir: "/opt/eiffel", Starter: reconfigure.WorkerSystemd}
	if err := Start(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(noted)
	const want = "is-active --quiet reconfigure-worker@opt-eiffel.service\n" +
		"start --no-block --no-ask-password reconfigure-worker@opt-eiffel.service\n"
	if err != nil || string(got) != want {
		t.Errorf("systemctl was called with\n%s, error %v", got, err)
	}
}

// TestAChangedFileOfCloudsIsSeen makes a worker read the file again.
func TestAChangedFileOfCloudsIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "paper.yaml")
	var s site.Site
	s.Provider.Credentials = func(string) string { return path }
	seen := map[string]bool{credentials(s): true}
	for i := range 2 {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		changed := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
		seen[credentials(s)] = true
	}
	if len(seen) != 3 {
		t.Errorf("%v", seen)
	}
}
