package machine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// mayFail are the units that may fail in a machine, since they need hardware or kernel modules.
func mayFail() map[string]bool {
	return map[string]bool{"run-rpc_pipefs.mount": true, "rpc-gssd.service": true}
}

func TestSystemdRunsInAMachine(t *testing.T) {
	installed := needs.Systemd(t, "../..")
	for release, base := range map[string]string{"bookworm": installed.Systemd, "trixie": installed.Trixie} {
		t.Run(release, func(t *testing.T) {
			lab := newLabOf(t, base)
			a := lab.spec(t, 1)
			lab.boot(t, a)
			awaitSystemd(t, lab, a)
			for _, unit := range []string{"systemd-journald", "dbus", "systemd-logind", "ssh"} {
				if state := lab.inside(t, a, "systemctl", "show", "--value", "-p", "ActiveState", unit); state != "active" {
					t.Errorf("%s is %s", unit, state)
				}
			}
			if text := lab.inside(t, a, "journalctl", "--no-pager", "-u", "ssh"); !strings.Contains(text, "listening") {
				t.Errorf("the journal of sshd:\n%s", text)
			}
			if got := lab.ssh(t, a, "loginctl list-sessions --no-legend"); !strings.Contains(got, "debian") {
				t.Errorf("the login's session is unknown: %q", got)
			}
			if got := lab.ssh(t, a, ". /etc/os-release; echo $VERSION_CODENAME"); got != release {
				t.Errorf("the release is %s", got)
			}
			if got := lab.inside(t, a, "systemd-run", "--pipe", "--quiet", "-p", "MemoryMax=64M", "--wait", "tail",
				"/dev/null"); got != "" {
				t.Errorf("systemd-run says %q", got)
			}
			if text := lab.console(t, a); !strings.Contains(text, "\n-----END SSH HOST KEY KEYS-----\n") {
				t.Errorf("no keys in\n%s", text)
			}
		})
	}
}

func TestSystemdRebootsAndStopsAndLeavesNothing(t *testing.T) {
	lab := newLabOf(t, needs.Systemd(t, "../..").Systemd)
	a := lab.spec(t, 1)
	lab.boot(t, a)
	awaitSystemd(t, lab, a) // systemctl needs it
	for name, reboot := range map[string]func() error{
		"from inside": func() error {
			_ = lab.Command(a.ID, "systemctl", "reboot").Run() // its exit status may be lost
			return nil
		},
		"from outside": func() error { return lab.Reboot(t.Context(), a.ID, false) },
		"at once":      func() error { return lab.Reboot(t.Context(), a.ID, true) },
	} {
		before := lab.inside(t, a, "cat", "/proc/sys/kernel/random/boot_id")
		if err := reboot(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		eventually(t, func() error {
			now, err := lab.Command(a.ID, "cat", "/proc/sys/kernel/random/boot_id").Output()
			if err == nil && strings.TrimSpace(string(now)) == before {
				return fmt.Errorf("%s: it was not rebooted", name)
			}
			return err
		})
		lab.ssh(t, a, "true")
		awaitSystemd(t, lab, a)
	}
	spaces := namespaces(t, initOf(t, lab, a))
	if len(groupsOf(t, a)) == 0 {
		t.Error("the machine has no control group: the test proves nothing")
	}
	ended := now(t)
	if err := lab.Stop(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if text := lab.console(t, a); !strings.Contains(text, "Power") {
		t.Errorf("it was not shut down, but killed:\n%s", text)
	}
	if left := processesIn(t, spaces, ended); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if left := groupsOf(t, a); len(left) > 0 {
		t.Errorf("control groups of a stopped machine: %v", left)
	}
	lab.boot(t, a)
	if err := lab.Destroy(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if left := groupsOf(t, a); len(left) > 0 {
		t.Errorf("control groups of a removed machine: %v", left)
	}
}

// groupsOf returns the control groups of a machine.
func groupsOf(t *testing.T, m labcloud.Machine) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == m.ID {
			found = append(found, path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// awaitSystemd waits until all units have started, and checks that only those in mayFail have failed.
func awaitSystemd(t *testing.T, lab *testLab, m labcloud.Machine) {
	t.Helper()
	eventually(t, func() error {
		state, _ := lab.Command(m.ID, "systemctl", "is-system-running").Output() // exit status 1 if it is degraded
		switch strings.TrimSpace(string(state)) {
		case "running", "degraded":
			return nil
		}
		return fmt.Errorf("the system is %q", state)
	})
	for line := range strings.Lines(lab.inside(t, m, "systemctl", "--failed", "--plain", "--no-legend")) {
		if unit := strings.Fields(line)[0]; !mayFail()[unit] {
			out, _ := lab.Command(m.ID, "systemctl", "status", "--no-pager", unit).CombinedOutput()
			t.Errorf("%s failed:\n%s", unit, out)
		}
	}
}
