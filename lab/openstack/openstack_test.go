package openstack

import (
	"bufio"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// TestMain runs the cloud if this process was started for that.
func TestMain(m *testing.M) {
	KeepIfAsked()
	os.Exit(m.Run())
}

// released skips a test that takes minutes and 3.5 GB of packages, unless `make release-check` runs it.
func released(t *testing.T) {
	t.Helper()
	if os.Getenv("EIFFEL_RELEASE_CHECK") == "" {
		t.Skip(`it runs a whole OpenStack, for minutes: only "make release-check" does`)
	}
}

// TestItLeavesNothingWhenItIsKilled kills the first process while services run and others start.
func TestItLeavesNothingWhenItIsKilled(t *testing.T) {
	released(t)
	t.Attr("scenario", "a cloud that is killed leaves nothing on the computer")
	keeper, err := newKeeper(newSettings(defaults(), ""))
	check(t, err)
	_, err = keeper.StdinPipe() // kept open
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
	keeper, err := newKeeper(newSettings(defaults(), ""))
	check(t, err)
	_, err = keeper.StdinPipe()
	check(t, err)
	out, err := keeper.CombinedOutput()
	check(t, taken.Close())
	if err == nil || !strings.Contains(string(out), "port 18708 of 127.0.0.1 is in use") {
		t.Errorf("%v:\n%s", err, out)
	}
	nothingIsLeft(t)
}

// nothingIsLeft checks that nothing remains of a cloud on this computer.
func nothingIsLeft(t *testing.T) {
	t.Helper()
	if err := Left(); err != nil {
		t.Error(err)
	}
}
