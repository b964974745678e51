// Package scratch makes folders for tests that cannot use [testing.T.TempDir], whose folders have long names and are
// all in one place.
package scratch

import (
	"os"
	"testing"
)

// Dir makes a folder in parent, or in the folder for temporary files if parent is "". Its name is short: the path of a
// socket has at most 107 bytes (unix(7)). It is removed at the end of the test, after the functions that are later
// given to t.Cleanup have run.
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
