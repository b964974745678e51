// Package slurmexec starts a program as slurmctld starts ResumeProgram,
// SuspendProgram and their like, which is unlike any shell: with no environment
// but SLURM_CONF and, for a resume, SLURM_RESUME_FILE; with descriptors 0 to 2
// closed; with twelve signals blocked, which children inherit; in a process
// group of its own. Every program of ours that Slurm calls is tested this way.
//
// What slurmctld does was observed with Slurm 22.05 on Debian 12. One thing is
// added: the program dies with the process that plays slurmctld, so that a test
// that is cancelled leaves nothing behind.
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
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/eiffel-hpc/eiffel/lab/slurmexec/cmd/slurmexec")
	if out, err := cmd.CombinedOutput(); err != nil {
		return Launcher{}, fmt.Errorf("build slurmexec: %w:\n%s", err, out)
	}
	return Launcher{path}, nil
}

// Options are what a program sees of its slurmctld.
type Options struct {
	// Conf is the value of SLURM_CONF.
	Conf string
	// ResumeFile is a file whose content the program finds where
	// SLURM_RESUME_FILE says, an unlinked memory file of its parent, for as
	// long as it runs; empty: the variable is not set.
	ResumeFile string
}

// Command returns a command that plays slurmctld for one program: it ends when
// the program does, with the program's exit status, or 128 and the signal's
// number. The program cannot write to the command's output. Its working folder
// and user are the command's.
func (l Launcher) Command(ctx context.Context, opts Options, program string, args ...string) *exec.Cmd {
	argv := []string{"-conf", opts.Conf, "-resume-file", opts.ResumeFile, "--", program}
	return exec.CommandContext(ctx, l.path, append(argv, args...)...)
}
