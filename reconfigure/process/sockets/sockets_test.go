package sockets_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/scratch"
	"github.com/eiffel-hpc/eiffel/reconfigure/process/sockets"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// makes is an environment variable that makes the test binary make a folder with a socket, print its name, and die.
const makes = "TEST_SOCKETS"

func TestMain(m *testing.M) {
	if os.Getenv(makes) == "" {
		os.Exit(m.Run())
	}
	dir, err := sockets.New()
	if err == nil {
		_, err = net.Listen("unix", filepath.Join(dir.Path, "s"))
	}
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(dir.Path)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	panic(err)
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if !os.IsNotExist(err) {
		check(t, err)
	}
	return err == nil
}

func TestFoldersOfKilledProcessesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", scratch.Dir(t, "", "s"))
	self, err := os.Executable()
	check(t, err)
	child := exec.Command(self)
	child.Env = append(os.Environ(), makes+"=1")
	out, err := child.Output()
	if child.ProcessState.ExitCode() != -1 {
		t.Fatalf("it was not killed: %v", err)
	}
	killed := string(out)

	mine, err := sockets.New()
	check(t, err)
	socket, err := net.Listen("unix", filepath.Join(mine.Path, "s"))
	check(t, err)
	defer socket.Close()
	var others []string
	for _, name := range []string{"reconfigure-not-locked-yet", "reconfigure-notes", "slurm-1"} {
		others = append(others, filepath.Join(os.TempDir(), name))
		check(t, os.Mkdir(others[len(others)-1], 0o700))
	}
	check(t, os.WriteFile(filepath.Join(others[1], "an administrator's"), nil, 0o600))
	link := filepath.Join(os.TempDir(), "reconfigure-link")
	check(t, os.Symlink(mine.Path, link))

	if !exists(t, killed) {
		t.Fatal("it has made no folder")
	}
	check(t, sockets.Sweep())
	if exists(t, killed) {
		t.Error("the folder of a killed process still exists")
	}
	for _, path := range append(others, filepath.Join(mine.Path, "s"), link) {
		if !exists(t, path) {
			t.Errorf("%s is gone", path)
		}
	}
	check(t, mine.Remove())
	if exists(t, mine.Path) {
		t.Error("a removed folder still exists")
	}
}

func TestTheNamesOfFoldersAreShort(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	check(t, os.Mkdir(long, 0o700))
	t.Setenv("TMPDIR", long)
	dir, err := sockets.New()
	check(t, err)
	defer func() { check(t, dir.Remove()) }()
	if info, err := os.Stat(dir.Path); err != nil || info.Mode().Perm() != 0o700 || len(dir.Path) > 60 {
		t.Errorf("%s is %v, error %v", dir.Path, info, err)
	}
}
