// Package bookworm_test runs a small cluster of Debian 12. Its machines, including the control host, boot systemd.
package bookworm_test

import (
	"os"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/e2e/generation"
)

var lab generation.Lab

func TestMain(m *testing.M) { os.Exit(lab.Main(m, generation.Bookworm())) }

func TestDebian12(t *testing.T) { lab.Run(t) }
