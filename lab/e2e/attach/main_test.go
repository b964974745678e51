// Package attach_test tests on a lab a cluster that the project's playbooks did not make. reconfigure attaches to it,
// and detaches again.
package attach_test

import (
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/existing"
)

var lab existing.Lab

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, existing.Place{Name: "attach", Gateway: "10.83.0.1/24"},
		existing.Place{Name: "attach-13", Gateway: "10.84.0.1/24"}))
}
