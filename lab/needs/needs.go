// Package needs lets a test say what it needs beside Go: the tools that
// `make tools` installs, or root.
package needs

import (
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// Skipper is what Lab takes of a test.
type Skipper interface{ Skip(...any) }

// Lab skips the test under -short, with which `make check` runs the tests that
// need neither tools nor root. `make test` does not give -short: there the test
// runs, and fails where something is missing.
func Lab(t Skipper) {
	if testing.Short() {
		t.Skip("it needs the lab's tools or root, and does not run with -short")
	}
}

// Tools returns where the checkout's tools are. Without them the test fails, or
// under -short is skipped.
func Tools(t testing.TB, checkout string) tools.Paths {
	t.Helper()
	Lab(t)
	paths, err := tools.Find(checkout)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
