// Package trixie_test runs a small cluster of Debian 13. Its machines, including the control host, boot systemd.
// Without EIFFEL_MATRIX=1 it omits tests that do not depend on the release.
package trixie_test

import (
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
)

var lab generation.Lab

func TestMain(m *testing.M) { os.Exit(lab.Main(m, generation.Trixie())) }

func TestDebian13(t *testing.T) { lab.Run(t) }
