// Package slurmexec starts a program as slurmctld starts ResumeProgram, SuspendProgram and the like, for tests of our
// programs that Slurm calls. The environment has only SLURM_CONF and, for a resume, SLURM_RESUME_FILE; descriptors 0 to
// 2 are closed; twelve signals are blocked, also for child processes; the program has its own process group. When the
// program ends, the other processes of the group are killed at once.
//
// This was observed with Slurm 22.05 on Debian 12, and the kill with Slurm 24.11 on Debian 13. There is one difference:
// the program ends with the process that stands in for slurmctld, so that a cancelled test leaves no process behind.
package slurmexec

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Launcher starts programs. The zero value is not usable: see [Build].
type Launcher struct{ path string }

// Build builds the command slurmexec in dir, for which it needs Go; this takes less than a second if the packages are
// in the build cache. The working folder must be in the module.
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
	// ResumeFile is a file. SLURM_RESUME_FILE names an unlinked memory file of the program's parent with the same
	// content. If ResumeFile is empty, the variable is not set.
	ResumeFile string
}

// Command returns a command that starts the program as slurmctld does. It ends when the program ends, with the
// program's exit status, or 128 plus the number of the signal that killed it. The program cannot write to the command's
// output. The program has the command's working folder and user.
func (l Launcher) Command(ctx context.Context, opts Options, program string, args ...string) *exec.Cmd {
	argv := []string{"-conf", opts.Conf, "-resume-file", opts.ResumeFile, "--", program}
	return exec.CommandContext(ctx, l.path, append(argv, args...)...)
}
