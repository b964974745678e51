// Package scratch makes folders for tests that [testing.T.TempDir] does not suit, since its folders have long names and
// are in one place.
package scratch

import (
	"os"
	"testing"
)

// Dir makes a folder in parent, or in that for temporary files if parent is "". Its name is short: the path of a
// socket has at most 107 bytes (unix(7)). It is removed when the test has ended, after what functions that are given to
// t.Cleanup later clean up.
func Dir(t testing.TB, parent, prefix string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
