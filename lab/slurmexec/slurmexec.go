// Package slurmexec starts a program as slurmctld starts ResumeProgram, SuspendProgram and the like, for tests of our
// programs that Slurm calls. The environment has only SLURM_CONF and, for a resume, SLURM_RESUME_FILE; descriptors 0 to
// 2 are closed; twelve signals are blocked, also for child processes; the program is in a process group of its own.
// What is left of the group when the program has ended is killed at once.
//
// This was observed with Slurm 22.05 on Debian 12, and the kill with Slurm 24.11 on Debian 13. There is one difference:
// the program ends with the process in the place of slurmctld, so that a cancelled test leaves no process behind.
package slurmexec

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Launcher starts programs. The zero value is not usable: see [Build].
type Launcher struct{ path string }

// Build builds the command slurmexec in dir, which needs Go and less than a
// second once its parts are compiled. The working folder must be in the module.
func Build(ctx context.Context, dir string) (Launcher, error) {
	path := filepath.Join(dir, "slurmexec")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path,
		"github.com/eiffel-hpc/eiffel/lab/slurmexec/cmd/slurmexec")
	if out, err := cmd.CombinedOutput(); err != nil {
		return Launcher{}, fmt.Errorf("build slurmexec: %w:\n%s", err, out)
	}
	return Launcher{path}, nil
}

// Options are what slurmctld passes to a program.
type Options struct {
	// Conf is the value of SLURM_CONF.
	Conf string
	// ResumeFile is a file whose content is in the file that SLURM_RESUME_FILE names, an unlinked memory file of the
	// program's parent; empty: the variable is not set.
	ResumeFile string
}

// Command returns a command that starts the program as slurmctld does. It ends with the program, with its exit status,
// or 128 plus the signal's number. The program cannot write to the command's output. Its working folder and user are
// the command's.
func (l Launcher) Command(ctx context.Context, opts Options, program string, args ...string) *exec.Cmd {
	argv := []string{"-conf", opts.Conf, "-resume-file", opts.ResumeFile, "--", program}
	return exec.CommandContext(ctx, l.path, append(argv, args...)...)
}
