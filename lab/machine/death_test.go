package machine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/image"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/machine"
	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// victim is an environment variable that makes the test program a lab, which waits until it is killed. Its value is the
// folder; victimBase has the base of its image.
const (
	victim     = "EIFFEL_TEST_VICTIM"
	victimBase = "EIFFEL_TEST_VICTIM_BASE"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victim); dir != "" {
		if err := waitForDeath(context.Background(), dir); err != nil {
			fmt.Println(err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// waitForDeath runs a lab with two machines and reports on its output that it is ready.
func waitForDeath(ctx context.Context, dir string) error {
	images, err := image.NewStore(filepath.Join(dir, "images"), os.Getenv(victimBase))
	if err != nil {
		return err
	}
	if err := images.Add("v1", nil); err != nil {
		return err
	}
	host, err := machine.New(machine.Config{
		Name: "machdeath", Dir: filepath.Join(dir, "machines"), Gateway: netip.MustParsePrefix("10.198.0.1/16"),
		Images: images, Log: slog.Default(),
	})
	if err != nil {
		return err
	}
	for n, id := range []string{"a", "b"} {
		address := labcloud.Address{MAC: fmt.Sprintf("fa:16:3e:00:00:%02x", n),
			Prefix: netip.MustParsePrefix(fmt.Sprintf("10.198.1.%d/16", n))}
		if err := host.Boot(ctx, labcloud.Machine{ID: id, Name: id, ImageID: "v1",
			Addresses: []labcloud.Address{address}}); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	<-ctx.Done()
	return ctx.Err()
}

func TestAKilledLabLeavesFilesOnly(t *testing.T) {
	installed := needs.Systemd(t, "../..")
	for init, base := range map[string]string{"sysvinit": installed.Image, "systemd": installed.Systemd} {
		t.Run(init, func(t *testing.T) { killALab(t, base) })
	}
}

func killALab(t *testing.T, base string) {
	dir := t.TempDir()
	lab := exec.Command("/proc/self/exe")
	lab.Env = append(os.Environ(), victim+"="+dir, victimBase+"="+base)
	out, err := lab.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() {
		_ = lab.Process.Kill()
		_ = lab.Wait()
	}
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the lab says %q, %v", line, err)
	}
	spaces := make(map[string]bool)
	for _, id := range []string{"a", "b"} {
		pid, err := os.ReadFile(filepath.Join(dir, "machines", id, "init.pid"))
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(spaces, namespaces(t, strings.TrimSpace(string(pid))))
	}
	ended := now(t)
	if len(processesIn(t, spaces, ended)) == 0 {
		t.Fatal("no process to be seen in the machines")
	}
	if err := machine.Cleanup("machdeath", filepath.Join(dir, "machines")); err == nil {
		t.Fatal("a lab that runs was cleaned up")
	}

	ended = now(t)
	kill()
	eventually(t, func() error {
		if left := processesIn(t, spaces, ended); len(left) > 0 {
			return fmt.Errorf("processes left: %v", left)
		}
		if _, err := net.InterfaceByName("lab-machdeath"); err == nil {
			return errors.New("the link is left")
		}
		return nil
	})
	if err := machine.Cleanup("machdeath", filepath.Join(dir, "machines")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "machines")); err == nil {
		t.Error("files left after the cleanup")
	}
	if left, err := filepath.Glob("/sys/fs/cgroup/*/lab-machdeath"); err != nil || len(left) > 0 {
		t.Errorf("control groups left after the cleanup: %v, %v", left, err)
	}
}
