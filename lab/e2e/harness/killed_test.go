package harness

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// victim is an environment variable that makes the test program a package with a lab of that name and gateway.
const victim = "EIFFEL_TEST_VICTIM"

func TestMain(m *testing.M) {
	name, gateway, asked := strings.Cut(os.Getenv(victim), " ")
	if !asked {
		os.Exit(m.Run())
	}
	var lab Lab
	os.Exit(lab.Main(m, cluster.Config{Name: name, Gateway: netip.MustParsePrefix(gateway),
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 1, 1)}}, nil))
}

// TestAKilledTestLeavesNothing kills tests while Terraform makes the nodes of their labs, and looks for everything that
// labs leave on this computer. `timeout -s INT go test` interrupts the process group, and its child a second time.
func TestAKilledTestLeavesNothing(t *testing.T) {
	needs.Lab(t)
	for _, tc := range []struct {
		name, gateway string
		kill          func(shell int) error
	}{
		{"interrupted", "10.79.0.1/24", func(shell int) error {
			_ = syscall.Kill(-shell, syscall.SIGINT)
			return syscall.Kill(-shell, syscall.SIGINT)
		}},
		{"orphaned", "10.79.1.1/24", func(shell int) error { return syscall.Kill(shell, syscall.SIGKILL) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := &Lab{name: tc.name, Lab: &cluster.Lab{Dir: filepath.Join("/var/tmp", "eiffel-lab-"+tc.name)}}
			// The shell stands in for `go test`: it waits for the test, also when it is interrupted.
			shell := exec.Command("sh", "-c", `trap : INT; "$0" -test.run=^$; :`, os.Args[0])
			shell.Env = append(os.Environ(), victim+"="+tc.name+" "+tc.gateway)
			shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			var said strings.Builder
			shell.Stdout, shell.Stderr = &said, &said
			if err := shell.Start(); err != nil {
				t.Fatal(err)
			}
			await := func(condition func() error) {
				t.Helper()
				deadline := time.Now().Add(10 * time.Minute) // the lab builds reconfigure
				for err := condition(); err != nil; err = condition() {
					if time.Now().After(deadline) {
						t.Fatal(err)
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
			await(func() error {
				if nodes, _ := filepath.Glob(filepath.Join(l.Dir, "machines", "*")); len(nodes) == 0 {
					return fmt.Errorf("no machine runs in %s", l.Dir)
				}
				return nil
			})
			if err := tc.kill(shell.Process.Pid); err != nil {
				t.Fatal(err)
			}
			_ = shell.Wait() // the keeper's output also ends here
			if strings.Contains(said.String(), "PASS") {
				t.Errorf("it was not killed, and says\n%s", said.String())
			}
			await(l.nothingLeft)
		})
	}
}
