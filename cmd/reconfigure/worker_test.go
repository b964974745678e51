package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A declaration that cannot be read, or that was edited since, is nothing unusual while a worker lives.
func TestTheWindowIsAsDeclaredNow(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "group_vars", "all.yml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "group_vars"), 0o700); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]time.Duration{"gather_seconds: 0": 0, "gather_seconds: 7": 7 * time.Second, "gather_seconds: soon": time.Second, "": time.Second} {
		edited := strings.Replace(string(text), "gather_seconds: 1", line, 1)
		if err := os.WriteFile(filepath.Join(dir, "group_vars", "all.yml"), []byte(edited), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := gatherWindow(dir); got != want {
			t.Errorf("%q: %s, not %s", line, got, want)
		}
	}
}
