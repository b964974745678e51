// Command slurmexec starts a program as slurmctld does: see package slurmexec.
//
//	slurmexec [-conf FILE] [-resume-file FILE] PROGRAM [ARGUMENT...]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// stage is the name under which the command starts itself to prepare the child process, since Go runs no code between
// fork and exec.
const stage = "slurmctld-child"

func main() {
	// The signal mask and PR_SET_PDEATHSIG belong to a thread.
	runtime.LockOSThread()
	if os.Args[0] == stage {
		fatal(become(os.Args[1], os.Args[1:]))
	}
	conf := flag.String("conf", "/etc/slurm/slurm.conf", "the value of SLURM_CONF")
	resume := flag.String("resume-file", "", "a file with the content of SLURM_RESUME_FILE")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	status, err := play(*conf, *resume, flag.Args())
	if err != nil {
		fatal(err)
	}
	os.Exit(status)
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "slurmexec:", err)
	os.Exit(126)
}

// play acts as slurmctld: it provides the resume file, starts the program and waits for it.
func play(conf, resume string, argv []string) (status int, err error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{stage}, argv...)
	cmd.Env = []string{"SLURM_CONF=" + conf}
	cmd.Stderr = os.Stderr // only for the stage
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if resume != "" {
		file, err := memoryFile(resume)
		if err != nil {
			return 0, err
		}
		defer func() { _ = file.Close() }()
		cmd.Env = append(cmd.Env, fmt.Sprintf("SLURM_RESUME_FILE=/proc/%d/fd/%d", os.Getpid(), file.Fd()))
	}
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group must have no process left
	}
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if wait := cmd.ProcessState.Sys().(syscall.WaitStatus); wait.Signaled() {
		return 128 + int(wait.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// memoryFile copies a file to an unlinked one in memory.
func memoryFile(path string) (*os.File, error) {
	content, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	fd, err := unix.MemfdCreate("resumeprog", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "resumeprog")
	if _, err := io.Copy(file, content); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// become replaces this process with the program. It returns only after an error.
func become(program string, argv []string) error {
	var blocked unix.Sigset_t
	for _, signal := range []unix.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM, unix.SIGCHLD, unix.SIGTSTP, unix.SIGXCPU,
	} {
		blocked.Val[0] |= 1 << (signal - 1)
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &blocked, nil); err != nil {
		return os.NewSyscallError("sigprocmask", err)
	}
	// All descriptors close at the exec, so that an error of the exec can be written.
	if err := unix.CloseRange(0, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range", err)
	}
	unix.Umask(0o022)
	return &os.PathError{Op: "exec", Path: program, Err: syscall.Exec(program, argv, os.Environ())}
}
