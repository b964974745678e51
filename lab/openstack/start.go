package openstack

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// keeperVariable, in the environment, has the test binary run a cloud.
const keeperVariable = "EIFFEL_LAB_OPENSTACK"

// Start starts a cloud and waits until it can be used; that takes minutes on a busy machine. The cloud ends, with all
// that it has on this machine, when the test ends or is killed. There can be one at a time.
func Start(t testing.TB) {
	t.Helper()
	needs.Lab(t)
	if os.Getuid() != 0 {
		t.Fatal("an OpenStack needs root, for its namespaces")
	}
	keeper := newKeeper()
	var problems strings.Builder
	keeper.Stderr = &problems
	stdin, err := keeper.StdinPipe()
	check(t, err)
	stdout, err := keeper.StdoutPipe()
	check(t, err)
	check(t, keeper.Start())
	t.Cleanup(func() {
		_ = stdin.Close() // an end before is reported below
		if err := keeper.Wait(); err != nil {
			t.Errorf("the cloud: %v\n%s", err, problems.String())
		}
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if lines.Text() == ready {
			return
		}
		t.Log(lines.Text())
	}
	t.Fatal("the cloud has ended")
}

// newKeeper returns the command that runs a cloud until its standard input ends.
func newKeeper() *exec.Cmd {
	keeper := exec.Command(os.Args[0])
	keeper.Env = append(os.Environ(), keeperVariable+"=1")
	keeper.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true, // so that Ctrl-C does not end it before the test
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
	}
	return keeper
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
