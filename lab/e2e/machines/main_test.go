// Package machines_test tests existing machines: they are switched on for jobs, and off when they are idle. The lab has
// real slurmctld and slurmd, SSH and Ansible, and without a cloud and Terraform.
package machines_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/e2e/harness"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/machine"
)

var (
	lab  harness.Lab
	room = &Room{faults: map[string]fault{}, calls: map[string][]string{}}
)

func TestMain(m *testing.M) {
	code := lab.Main(m, cluster.Config{
		Name: "machines", Gateway: netip.MustParsePrefix("10.77.0.1/24"),
		Groups: []cluster.NodeGroup{cluster.Group("standard", "node", 1, 2)},
		OtherCloud: func(context.Context, labcloud.Config, *machine.Host) (cluster.Cloud, error) {
			return room, room.listen()
		},
	}, declare)
	os.Exit(code)
}

// declare changes the lab's declaration to existing machines, and writes their table.
func declare(d *cluster.Declaration) {
	d.Provider = "machines"
	d.ControlNode.Image, d.ControlNode.Flavor, d.ControlNode.Network = "existing", "lab", "existing"
	g := &d.NodeGroups[0]
	g.Image, g.Flavor, g.Network = "existing", "lab", "existing"
	d.Slurm.SuspendTime, d.Slurm.SuspendTimeout = 2, 6
	d.Reconfigure["host_keys"] = "accept-new"
	program := filepath.Join(lab.Directory(), "bin", "power")
	table := fmt.Sprintf(`clouds:
  %s:
    flavors:
      lab:
        on: [%[2]s, "on", "{node}"]
        off: [%[2]s, "off", "{node}"]
        state: [%[2]s, state, "{node}"]
    addresses: {ctl: 10.77.0.10, node01: 10.77.0.11, node02: 10.77.0.12}
    command_seconds: 10
    shutdown: [sudo, -n, poweroff]
    shutdown_seconds: 60
`, d.Cloud, program)
	if err := errors.Join(
		os.WriteFile(filepath.Join(lab.Directory(), "machines.yaml"), []byte(table), 0o644),
		os.WriteFile(program, fmt.Appendf(nil, command, room.server.Addr), 0o755)); err != nil {
		panic(err)
	}
}

// command stands in for ipmitool(1) on the control host.
const command = `#!/usr/bin/python3
import sys, urllib.error, urllib.request
verb, node = sys.argv[1:]
call = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
try:
    print(call(f"http://%s/{node}/{verb}").read().decode())
except urllib.error.HTTPError as e:
    sys.exit(e.read().decode())
`
