package openstack

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// TestMain runs the cloud where this process was started for that.
func TestMain(m *testing.M) {
	KeepIfAsked()
	os.Exit(m.Run())
}

// released skips a test that takes minutes and 3.5 GB of packages, unless `make release-check` asks for it.
func released(t *testing.T) {
	t.Helper()
	if os.Getenv("EIFFEL_RELEASE_CHECK") == "" {
		t.Skip(`it runs a whole OpenStack, for minutes: only "make release-check" does`)
	}
}

// TestItLeavesNothingWhenItIsKilled kills the first process while services run and others start.
func TestItLeavesNothingWhenItIsKilled(t *testing.T) {
	released(t)
	keeper := newKeeper()
	_, err := keeper.StdinPipe() // kept open
	check(t, err)
	out, err := keeper.StdoutPipe()
	check(t, err)
	check(t, keeper.Start())
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.HasPrefix(lines.Text(), "MariaDB"); {
	}
	check(t, keeper.Process.Kill())
	if err := keeper.Wait(); err == nil {
		t.Error("the cloud has ended by itself")
	}
	nothingIsLeft(t)
}

// TestItSaysThatAPortIsInUse needs none of OpenStack's packages.
func TestItSaysThatAPortIsInUse(t *testing.T) {
	needs.Lab(t)
	taken, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(thePorts().Compute)))
	check(t, err)
	keeper := newKeeper()
	_, err = keeper.StdinPipe()
	check(t, err)
	out, err := keeper.CombinedOutput()
	check(t, taken.Close())
	if err == nil || !strings.Contains(string(out), "port 18708 of 127.0.0.1 is in use") {
		t.Errorf("%v:\n%s", err, out)
	}
	nothingIsLeft(t)
}

// nothingIsLeft checks that no process of a cloud runs, that no port is open, and that no file is there.
func nothingIsLeft(t *testing.T) {
	t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range environments {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && pid != os.Getpid() && bytes.Contains(text, []byte("EIFFEL_LAB_OPENSTACK=1")) {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
			t.Errorf("process %d is left: %s", pid, name)
		}
	}
	for port := firstPort; port <= lastPort; port++ {
		if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			t.Errorf("port %d is open", port)
			_ = c.Close()
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "etc", "nova", "nova.conf")); err == nil {
		t.Errorf("files are left in %s", dir)
	}
}
