package machine_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/machine"
)

func TestMachinesAndHostReachEachOtherBySSH(t *testing.T) {
	lab := newLab(t)
	a, b := lab.spec(t, 1), lab.spec(t, 2)
	lab.boot(t, a)
	lab.boot(t, b)
	if got := lab.ssh(t, a, "hostname; sudo whoami; cat /etc/image-release"); got != "node1\nroot\nv1" {
		t.Errorf("node1 says %q", got)
	}
	key, err := os.ReadFile(lab.key)
	if err != nil {
		t.Fatal(err)
	}
	got := lab.ssh(t, a, "umask 077; echo '"+string(key)+"' > key; ssh -i key -o StrictHostKeyChecking=no -o "+
		"LogLevel=ERROR "+address(b)+" hostname")
	if got != "node2" {
		t.Errorf("node2 through node1 says %q", got)
	}
	lab.inside(t, a, "ping", "-c", "1", "-W", "5", "10.197.0.1")
}

func TestTheConsoleHasTheHostKeysAsFromCloudInit(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	lab.boot(t, a)
	_, block, _ := strings.Cut(lab.console(t, a), "-----BEGIN SSH HOST KEY KEYS-----\n")
	block, _, found := strings.Cut(block, "-----END SSH HOST KEY KEYS-----\n")
	if !found {
		t.Fatalf("no keys in\n%s", lab.console(t, a))
	}
	var told []string
	for line := range strings.Lines(block) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("%q is not a type, a key and a comment", line)
		}
		told = append(told, fields[0]+" "+fields[1])
	}
	shown := lab.inside(t, a, "sh", "-c", "cut -d' ' -f1,2 /etc/ssh/ssh_host_*_key.pub")
	if diff := cmp.Diff(strings.Split(shown, "\n"), told); diff != "" {
		t.Errorf("keys (-machine's +console's):\n%s", diff)
	}
	if last, err := lab.Console(a.ID, 1); err != nil || strings.Count(last, "\n") != 1 {
		t.Errorf("one line of the console: %q, %v", last, err)
	}
}

func TestUptimeBeginsAtBoot(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	began := time.Now()
	lab.boot(t, a)
	// slurmd asks sysinfo(2) for the same in whole seconds. Other programs read btime, which is in whole seconds too.
	if up, most := uptime(t, lab, a), time.Since(began).Seconds(); up > most {
		t.Errorf("uptime is %.2f s, %.2f s after the boot began", up, most)
	}
	btime, err := strconv.ParseInt(lab.inside(t, a, "awk", "/^btime/ {print $2}", "/proc/stat"), 10, 64)
	if at := time.Unix(btime, 0); err != nil || at.Before(began.Add(-2*time.Second)) ||
		at.After(time.Now().Add(2*time.Second)) {
		t.Errorf("btime is %s, the boot began at %s, %v", at, began, err)
	}
}

func uptime(t *testing.T, lab *testLab, m labcloud.Machine) float64 {
	t.Helper()
	first, _, _ := strings.Cut(lab.inside(t, m, "cat", "/proc/uptime"), " ")
	up, err := strconv.ParseFloat(first, 64)
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func TestRebootKeepsTheDiskAndNothingElse(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	lab.boot(t, a)
	fromInside := func(argv ...string) func() error {
		return func() error {
			// The machine may end before the command's end is reported.
			_ = lab.Command(a.ID, argv...).Run()
			return nil
		}
	}
	for name, reboot := range map[string]func() error{
		"soft":       func() error { return lab.Reboot(t.Context(), a.ID, false) },
		"hard":       func() error { return lab.Reboot(t.Context(), a.ID, true) },
		"reboot":     fromInside("reboot"),
		"reboot -ff": fromInside("reboot", "-ff"),
	} {
		t.Run(name, func(t *testing.T) {
			keys := lab.ssh(t, a, "sudo touch /var/kept /run/lost; cat /etc/ssh/*.pub")
			bootID := lab.inside(t, a, "cat", "/proc/sys/kernel/random/boot_id")
			began := time.Now()
			if err := reboot(); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error {
				now, err := lab.Command(a.ID, "cat", "/proc/sys/kernel/random/boot_id").Output()
				if err != nil || strings.TrimSpace(string(now)) == bootID {
					return fmt.Errorf("does not boot again: %w", err)
				}
				return nil
			})
			if got := lab.ssh(t, a, "ls /var/kept /run/lost 2>/dev/null; true"); got != "/var/kept" {
				t.Errorf("after the reboot there is %q", got)
			}
			if got := lab.ssh(t, a, "cat /etc/ssh/*.pub"); got != keys {
				t.Errorf("host keys changed")
			}
			// QEMU's log of a console begins anew, and cloud-init shows the keys at the first boot alone.
			if text := lab.console(t, a); strings.Count(text, "node1: booting\n") != 1 || strings.Contains(text, "HOST KEY") {
				t.Errorf("the console is not that of the last boot alone:\n%s", text)
			}
			if up, since := uptime(t, lab, a), time.Since(began).Seconds(); up > since+2 {
				t.Errorf("uptime is %.1f s, %.1f s after the reboot began", up, since)
			}
		})
	}
}

func TestSoftRebootStopsServicesFirst(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	lab.boot(t, a)
	const service = `printf '#!/bin/sh
### BEGIN INIT INFO
# Provides: witness
# Required-Start:
# Required-Stop:
# Default-Start: 2
# Default-Stop: 0 6
### END INIT INFO
[ "$1" != stop ] || touch /var/stopped
' > /etc/init.d/witness; chmod +x /etc/init.d/witness; update-rc.d witness defaults`
	lab.inside(t, a, "sh", "-c", service)
	stopped := func() bool {
		return lab.ssh(t, a, "[ -e /var/stopped ] && sudo rm /var/stopped && echo yes || true") == "yes"
	}
	for _, hard := range []bool{true, false} {
		if err := lab.Reboot(t.Context(), a.ID, hard); err != nil {
			t.Fatal(err)
		}
		if got := stopped(); got == hard {
			t.Errorf("hard = %t: services stopped = %t; console:\n%s", hard, got, lab.console(t, a))
		}
	}
}

// In a shutdown all processes of a machine are stopped before they are killed (killall5(8)).
func TestACommandThatIsStoppedEndsWithItsMachine(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	lab.boot(t, a)
	cmd := lab.Command(a.ID, "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return lab.Command(a.ID, "pkill", "-STOP", "-x", "sleep").Run() })
	if err := lab.Destroy(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ended well")
		}
	case <-time.After(patience):
		t.Error("it never ended")
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-ended
	}
}

func TestStoppedMachineIsOffAndKeepsItsDisk(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	for name, stop := range map[string]func() error{
		"by the cloud": func() error { return lab.Stop(t.Context(), a.ID) },
		"by itself": func() error {
			_ = lab.Command(a.ID, "poweroff").Run()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			lab.boot(t, a)
			lab.ssh(t, a, "sudo touch /var/kept")
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			pid := filepath.Join(lab.dir, "machines", a.ID, "init.pid")
			eventually(t, func() error {
				if _, err := os.Stat(pid); err == nil {
					return errors.New("still runs")
				}
				return nil
			})
			if err := lab.Command(a.ID, "true").Run(); err == nil {
				t.Error("a command ran in a machine that is off")
			}
			lab.boot(t, a)
			lab.ssh(t, a, "sudo rm /var/kept")
		})
	}
}

func TestRebuildMakesANewDiskAndKeepsTheAddress(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	lab.boot(t, a)
	keys := lab.ssh(t, a, "sudo touch /var/old; cat /etc/ssh/*.pub")
	a.ImageID = "v2"
	if err := lab.Rebuild(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := lab.ssh(t, a, "cat /etc/image-release; ls /var/old 2>/dev/null; true"); got != "v2" {
		t.Errorf("after the rebuild there is %q", got)
	}
	if got := lab.ssh(t, a, "cat /etc/ssh/*.pub"); got == keys {
		t.Error("host keys of the old disk")
	}
	if strings.Count(lab.console(t, a), "BEGIN SSH HOST KEY KEYS") != 1 {
		t.Errorf("the console does not tell the new keys alone:\n%s", lab.console(t, a))
	}
}

func TestSnapshotIsTheDiskAsItWas(t *testing.T) {
	lab := newLab(t)
	a, b := lab.spec(t, 1), lab.spec(t, 2)
	lab.boot(t, a)
	// A layer has special marks for a removed file of the image, and for a folder that was removed and created again.
	keys := lab.ssh(t, a, "sudo sh -c 'echo v3 > /etc/image-release; rm /etc/issue; rm -r /etc/skel; mkdir "+
		"/etc/skel; touch /etc/skel/new; sync'; cat /etc/ssh/*.pub")
	if err := lab.Snapshot(t.Context(), a.ID, "v3"); err != nil {
		t.Fatal(err)
	}
	lab.ssh(t, a, "sudo sh -c 'echo later > /etc/image-release'")
	b.ImageID = "v3"
	lab.boot(t, b)
	const state = "hostname; cat /etc/image-release; ls /etc/issue 2>/dev/null; ls -A /etc/skel"
	if got := lab.ssh(t, b, state); got != "node2\nv3\nnew" {
		t.Errorf("the snapshot contains %q", got)
	}
	if got := lab.ssh(t, b, "cat /etc/ssh/*.pub"); got == keys {
		t.Error("a machine of the snapshot has the host keys of the original")
	}
	if err := lab.Snapshot(t.Context(), a.ID, "v3"); err == nil {
		t.Error("an image was made twice")
	}
}

func TestUnknownImageIsAnError(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	a.ImageID = "none"
	if err := lab.Boot(t.Context(), a); !errors.Is(err, image.ErrUnknown) {
		t.Errorf("Boot = %v", err)
	}
	if err := lab.Destroy(t.Context(), a.ID); err != nil {
		t.Errorf("Destroy = %v", err)
	}
}

func TestToEndAnAbsentMachineIsASuccess(t *testing.T) {
	lab := newLab(t)
	if err := errors.Join(lab.Stop(t.Context(), "x"), lab.Destroy(t.Context(), "x")); err != nil {
		t.Error(err)
	}
	if text, err := lab.Console("x", 10); text != "" || err != nil {
		t.Errorf("Console = %q, %v", text, err)
	}
	if err := lab.Reboot(t.Context(), "x", true); err == nil {
		t.Error("Reboot of an absent machine succeeds")
	}
}

func TestBootOfARunningMachineChangesNothing(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	lab.boot(t, a)
	lab.inside(t, a, "touch", "/run/same")
	a.ImageID = "v2"
	lab.boot(t, a)
	lab.inside(t, a, "ls", "/run/same")
}

func TestFaultNoSSHD(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	a.Flags = map[string]bool{labcloud.FlagNoSSHD: true}
	if err := lab.Boot(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	waitForRunLevel(t, lab, a)
	if err := dial(a); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connect to port 22: %v, want a refusal by a machine that is up", err)
	}
	// The fault is not on the disk.
	a.Flags = nil
	if err := lab.Stop(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	lab.boot(t, a)
}

func TestFaultInOneMachinesServices(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	a.Flags = map[string]bool{labcloud.FlagNoSlurmd: true, labcloud.FlagNoMunged: true}
	lab.boot(t, a)
	b := lab.spec(t, 2)
	lab.boot(t, b)
	for _, service := range []string{"slurmd", "munged"} {
		if out, err := lab.Command(a.ID, service, "-V").CombinedOutput(); err == nil {
			t.Errorf("%s starts: %s", service, out)
		}
		lab.inside(t, b, service, "-V")
	}
}

func TestFaultBlocked(t *testing.T) {
	lab := newLab(t)
	a, b := lab.spec(t, 1), lab.spec(t, 2)
	a.Flags = map[string]bool{labcloud.FlagBlocked: true}
	if err := lab.Boot(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	lab.boot(t, b)
	waitForRunLevel(t, lab, a)
	timeout := net.Error(nil)
	if err := dial(a); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("connect to port 22: %v, want no answer", err)
	}
	lab.inside(t, b, "ping", "-c1", "-W5", a.Addresses[0].Prefix.Addr().String())
}

func TestFaultFullDisk(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	a.Flags = map[string]bool{labcloud.FlagFullDisk: true}
	lab.boot(t, a)
	out, err := lab.Command(a.ID, "dd", "if=/dev/zero", "of=/etc/slurm/x", "bs=8k", "count=1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "No space left on device") {
		t.Errorf("a file was written: %v, %s", err, out)
	}
	lab.inside(t, a, "touch", "/etc/x")
}

func TestFaultNeverBoots(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	a.Flags = map[string]bool{labcloud.FlagNeverBoots: true}
	if err := lab.Boot(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if text := lab.console(t, a); !strings.Contains(text, "No bootable device.") {
			return fmt.Errorf("console: %q", text)
		}
		return nil
	})
	if err := dial(a); err == nil || errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connect to port 22: %v, want no answer at all", err)
	}
	if err := lab.Reboot(t.Context(), a.ID, true); err != nil {
		t.Errorf("Reboot = %v", err)
	}
}

func TestFaultSlowBoot(t *testing.T) {
	lab := newLab(t)
	// On a computer with other load a machine takes longer than the first delay to be switched on.
	for number, delay := 1, 1500*time.Millisecond; ; number, delay = number+1, delay*4 {
		a := lab.spec(t, number)
		a.Flags = map[string]bool{labcloud.FlagSlowBoot: true}
		a.BootDelay = delay
		start := time.Now()
		if err := lab.Boot(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		returned := time.Since(start)
		lab.ssh(t, a, "true")
		if took := time.Since(start); took < delay {
			t.Errorf("sshd answered after %s", took)
		}
		if returned < delay {
			return
		}
		if delay > time.Minute {
			t.Fatalf("Boot waited for %s", returned)
		}
	}
}

func TestAnAddressMovesAtOnce(t *testing.T) {
	lab := newLab(t)
	a, b, c := lab.spec(t, 1), lab.spec(t, 2), lab.spec(t, 3)
	lab.boot(t, a)
	lab.boot(t, c)
	lab.inside(t, c, "ping", "-c", "1", "-W", "5", address(a)) // c and the host now know a's MAC
	if err := lab.Destroy(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	b.Addresses[0].Prefix = a.Addresses[0].Prefix
	lab.boot(t, b)
	lab.inside(t, c, "ping", "-c", "1", "-W", "1", address(a))
}

func TestTheHostsKernelIsNotTheMachines(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	lab.boot(t, a)
	// None of them would do harm if allowed.
	for _, command := range []string{
		"echo $(cat /proc/sys/kernel/panic) > /proc/sys/kernel/panic", "date -s now", "mknod /tmp/disk b 254 0",
		"echo 0 > /sys/class/net/eth0/ifalias",
	} {
		if got := lab.ssh(t, a, "sudo sh -c '"+command+"' >/dev/null 2>&1 || echo refused"); got != "refused" {
			t.Errorf("%s: %q", command, got)
		}
	}
}

func TestDestroyLeavesNothing(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	lab.boot(t, a)
	init := initOf(t, lab, a)
	spaces, ended := namespaces(t, init), now(t)
	if err := lab.Destroy(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if left := processesIn(t, spaces, ended); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if left, err := os.ReadDir(filepath.Join(lab.dir, "machines")); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
	if err := lab.Destroy(t.Context(), a.ID); err != nil {
		t.Errorf("the second Destroy = %v", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	mounts, links := hostState(t)
	dir := t.TempDir()
	host, err := machine.New(labConfig(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	bootErr := host.Boot(t.Context(), labcloud.Machine{ID: "a", Name: "a", ImageID: "v1"})
	if err := errors.Join(bootErr, host.Close()); err != nil {
		t.Fatal(err)
	}
	afterMounts, afterLinks := hostState(t)
	if diff := cmp.Diff([]string{mounts, links}, []string{afterMounts, afterLinks}); diff != "" {
		t.Errorf("mounts and links (-before +after):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "machines")); err == nil {
		t.Error("the folder is left")
	}
}

func TestALabThatRunsKeepsItsName(t *testing.T) {
	lab := newLab(t)
	a := lab.spec(t, 1)
	lab.boot(t, a)
	if _, err := machine.New(labConfig(t, t.TempDir())); err == nil {
		t.Error("a second lab of the same name was made")
	}
	lab.ssh(t, a, "true")
}

func hostState(t *testing.T) (mounts, links string) {
	t.Helper()
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if strings.HasPrefix(i.Name, "lab-machtest") {
			links += i.Name + "\n"
		}
	}
	return string(content), links
}

// dial connects to the machine's SSH port and returns why that failed.
func dial(m labcloud.Machine) error {
	conn, err := net.DialTimeout("tcp", address(m)+":22", time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

// waitForRunLevel waits until the machine's services have been started.
func waitForRunLevel(t *testing.T, lab *testLab, m labcloud.Machine) {
	t.Helper()
	eventually(t, func() error {
		if text := lab.console(t, m); !strings.Contains(text, "no more processes left in this runlevel") {
			return fmt.Errorf("console: %q", text)
		}
		return nil
	})
}

// initOf returns the process id of a machine's init, as the host sees it.
func initOf(t *testing.T, lab *testLab, m labcloud.Machine) string {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(lab.dir, "machines", m.ID, "init.pid"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(pid))
}

// namespaces returns the identities of the namespaces that a process does not share with the host.
func namespaces(t *testing.T, pid string) map[string]bool {
	t.Helper()
	spaces := make(map[string]bool)
	for _, kind := range []string{"mnt", "uts", "ipc", "net", "pid", "time"} {
		space, err := os.Readlink("/proc/" + pid + "/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		if ours, _ := os.Readlink("/proc/self/ns/" + kind); ours == space {
			t.Errorf("%s namespace is the host's", kind)
		}
		spaces[space] = true
	}
	return spaces
}

// processesIn returns the processes in any of the namespaces that began before a time, in clock ticks since the boot of
// the computer: the kernel gives the number of a namespace that has ended to the next one, which may be another lab's.
func processesIn(t *testing.T, spaces map[string]bool, before int64) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		space, err := os.Readlink(link)
		if err != nil || !spaces[space] {
			continue
		}
		if began, runs := beginning(filepath.Dir(filepath.Dir(link))); runs && began < before {
			found = append(found, link)
		}
	}
	return found
}

// beginning returns the start time of a process in clock ticks since the boot (proc(5), /proc/PID/stat, starttime);
// false if the process has ended.
func beginning(process string) (ticks int64, runs bool) {
	stat, err := os.ReadFile(filepath.Join(process, "stat"))
	if err != nil {
		return 0, false
	}
	_, fields, _ := strings.Cut(string(stat), ") ") // after the name: state is the third field, starttime the 22nd
	if all := strings.Fields(fields); len(all) > 19 {
		ticks, err = strconv.ParseInt(all[19], 10, 64)
		return ticks, err == nil
	}
	return 0, false
}

// now returns the time in the unit of beginning. A tick is 10 ms on all of Linux's common platforms.
func now(t *testing.T) int64 {
	t.Helper()
	var passed unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &passed); err != nil {
		t.Fatal(err)
	}
	const tick = 10 * time.Millisecond
	return passed.Nano()/int64(tick) + 1
}

func BenchmarkBootAHundred(b *testing.B) {
	lab := newLab(b)
	for b.Loop() {
		var booted sync.WaitGroup
		for n := range 100 {
			booted.Go(func() {
				if err := lab.Boot(b.Context(), lab.spec(b, n)); err != nil {
					b.Error(err)
				}
			})
		}
		booted.Wait()
		for n := range 100 {
			lab.ssh(b, lab.spec(b, n), "true")
		}
		b.StopTimer()
		for n := range 100 {
			if err := lab.Destroy(b.Context(), lab.spec(b, n).ID); err != nil {
				b.Error(err)
			}
		}
		b.StartTimer()
	}
}
