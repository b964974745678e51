package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine/enginetest"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/slurm"
	"github.com/eiffel-hpc/eiffel/reconfigure/ssh"
)

// TestSlurmConforms holds the real Slurm to the contract that the simulated one is held to.
func TestSlurmConforms(t *testing.T) {
	control, ok := server(cluster.ControlNodeName)
	if !ok {
		t.Fatal("there is no control node")
	}
	known := ssh.KnownHosts{Path: filepath.Join(lab.StateDir(), "known_hosts")}
	remote := known.Command(lab.Declaration.LoginUser, control.Addresses[0].String(), lab.Declaration.PrivateKeyFile)
	client := slurm.New(append(remote, "sudo", "-n"), func(ctx context.Context, c process.Cmd) error {
		c.Env = os.Environ()
		return process.Run(ctx, c)
	})
	service := func(do string) {
		if out, err := lab.Command(cluster.ControlNodeName, "service", "slurmctld", do).CombinedOutput(); err != nil {
			t.Errorf("service slurmctld %s: %v\n%s", do, err, out)
		}
	}
	enginetest.Scheduler(t, enginetest.SchedulerHarness{
		Scheduler: client,
		Node:      "node06",
		Silence:   func() (speak func()) { service("stop"); return func() { service("start") } },
		Patience:  2 * time.Minute,
	})
	awaitQuiet(t)
}
