// Package needs skips tests that need more than Go: the tools that `make tools` installs, or root.
package needs

import (
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/tools"
)

// Skipper is the part of a test that Lab uses.
type Skipper interface{ Skip(...any) }

// Lab skips the test under -short, with which `make check` runs the tests that need neither tools nor root. `make test`
// does not give -short: then the test runs, and fails if something is missing.
func Lab(t Skipper) {
	if testing.Short() {
		t.Skip("it needs the lab's tools or root, and does not run with -short")
	}
}

// Tools returns the paths of the checkout's tools. If they are missing, it fails the test; under -short it skips the
// test.
func Tools(t testing.TB, checkout string) tools.Paths {
	t.Helper()
	return found(t, checkout, tools.Find)
}

// Systemd is Tools for a test that also needs the images with systemd.
func Systemd(t testing.TB, checkout string) tools.Paths {
	t.Helper()
	return found(t, checkout, tools.FindSystemd)
}

// Libvirt is Tools for a test with virtual machines, which takes minutes: only `make test-libvirt` runs it.
func Libvirt(t testing.TB, checkout string) tools.Paths {
	t.Helper()
	if os.Getenv("EIFFEL_LIBVIRT") == "" {
		t.Skip(`it runs virtual machines: only "make test-libvirt" does`)
	}
	return found(t, checkout, tools.FindLibvirt)
}

// VSphere is Tools for a test with Terraform's provider for vSphere, which only `make test-vsphere` builds.
func VSphere(t testing.TB, checkout string) tools.Paths {
	t.Helper()
	if os.Getenv("EIFFEL_VSPHERE") == "" {
		t.Skip(`it needs Terraform's provider for vSphere: only "make test-vsphere" runs it`)
	}
	return found(t, checkout, tools.FindVSphere)
}

func found(t testing.TB, checkout string, find func(string) (tools.Paths, error)) tools.Paths {
	t.Helper()
	Lab(t)
	paths, err := find(checkout)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
