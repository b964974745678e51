package terraform

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// localStates is a driver of a shard whose state is a file. Its Terraform answers `state pull` with another file, and
// counts the calls.
type localStates struct {
	*testing.T
	*Driver
	file, remote, calls string
}

func newLocalStates(t *testing.T) localStates {
	t.Helper()
	dir := t.TempDir()
	l := localStates{
		T: t, remote: filepath.Join(dir, "remote"), calls: filepath.Join(dir, "calls"),
		Driver: &Driver{cfg: Config{Module: kinds,
			Dir: filepath.Join(dir, "module"), PlanDir: dir, Workspace: "g-0", Log: slog.New(slog.DiscardHandler),
		}},
	}
	l.file = l.localState("g-0")
	l.launcher = filepath.Join(dir, "terraform")
	l.write(l.launcher, fmt.Sprintf(`#!/bin/sh
case $1 in
version) echo '{"terraform_version": "1.5.7"}' ;;
*) echo "$@" >>'%s' && exec cat '%s' ;;
esac
`, l.calls, l.remote))
	noError(t, os.Chmod(l.launcher, 0o700))
	return l
}

func (l localStates) write(path, text string) {
	l.Helper()
	noError(l.T, os.MkdirAll(filepath.Dir(path), 0o700))
	noError(l.T, os.WriteFile(path, []byte(text), 0o600))
}

// expect checks the address of n1, and the number of starts of Terraform for it.
func (l localStates) expect(want string, fresh bool, starts int) {
	l.Helper()
	noError(l.T, os.RemoveAll(l.calls))
	got, err := l.Addresses(l.Context(), fresh)
	noError(l.T, err)
	if diff := cmp.Diff(map[string]string{"n1": want}, got); diff != "" {
		l.Errorf("addresses (-want +got):\n%s", diff)
	}
	calls, _ := os.ReadFile(l.calls) // Terraform was never started, so there is no file
	if n := strings.Count(string(calls), "state pull"); n != starts {
		l.Errorf("Terraform was started %d times, want %d", n, starts)
	}
}

// stateWith returns a state with the port of n1, and with resources that must not be mistaken for it.
func stateWith(address string) string {
	const object = `{"index_key": "n1", %s"attributes": {"all_fixed_ips": ["fd00::1", %q, "192.0.2.99"]}}`
	return fmt.Sprintf(`{"version": 4, "serial": 1, "lineage": "x", "resources": [
{"mode": "data", "type": "openstack_networking_port_v2", "name": "node", "instances": [%s]},
{"mode": "managed", "type": "openstack_networking_port_v2", "name": "storage", "instances": [%s]},
{"mode": "managed", "type": "openstack_networking_port_v2", "name": "node", "instances": [%s, %s]}]}`,
		fmt.Sprintf(object, "", "192.0.2.91"), fmt.Sprintf(object, "", "192.0.2.92"),
		fmt.Sprintf(object, `"deposed": "1", `, "192.0.2.93"), fmt.Sprintf(object, "", address))
}

func TestAddressesAreThoseOfTheStateAsItIs(t *testing.T) {
	l := newLocalStates(t)
	l.write(l.file, stateWith("192.0.2.1"))
	l.expect("192.0.2.1", false, 0)
	l.expect("192.0.2.1", false, 0)
	was, err := os.Stat(l.file)
	noError(t, err)
	l.write(l.file, stateWith("192.0.2.2")) // of the same length, at the same time
	noError(t, os.Chtimes(l.file, was.ModTime(), was.ModTime()))
	l.expect("192.0.2.2", false, 0)

	l.write(l.remote, stateWith("192.0.2.3"))
	l.write(l.file, stateWith("192.0.2.2")[:200]) // it is being written
	l.expect("192.0.2.3", false, 1)
	noError(t, os.Remove(l.file)) // there is none yet
	l.expect("192.0.2.3", true, 1)
}

func TestAStateThatHasNotChangedIsParsedOnce(t *testing.T) {
	l := newLocalStates(t)
	l.write(l.file, stateWith("192.0.2.1"))
	l.expect("192.0.2.1", false, 0)
	kept := filepath.Join(l.cfg.PlanDir, "addresses-g-0.json")
	text, err := os.ReadFile(kept)
	noError(t, err)
	l.write(kept, strings.Replace(string(text), "192.0.2.1", "192.0.2.7", 1))
	l.expect("192.0.2.7", false, 0) // so it comes from there
	l.write(kept, "half a f")
	l.expect("192.0.2.1", false, 0)
}

// The file beside the module may be left from the time before the backend.
func TestTheStateOfAnotherBackEndIsAskedFor(t *testing.T) {
	l := newLocalStates(t)
	l.write(l.file, stateWith("192.0.2.1"))
	l.write(filepath.Join(l.cfg.Dir, ".terraform", "terraform.tfstate"), `{"backend": {"type": "pg"}}`)
	l.write(l.remote, stateWith("192.0.2.2"))
	l.expect("192.0.2.2", false, 1)
	l.write(l.remote, stateWith("192.0.2.3"))
	l.expect("192.0.2.2", false, 0)
	l.expect("192.0.2.3", true, 1)

	l.lane, _ = l.terraform(l.launcher)
	l.write(l.remote, stateWith("192.0.2.4"))
	noError(t, l.push(t.Context(), &stateFile{})) // this driver changes the state
	l.expect("192.0.2.4", false, 1)
	l.expect("192.0.2.4", false, 0)
}
