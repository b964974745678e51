package security_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestARootedNodeReachesNothingElse tries, as root on a node, all ways in that the node's key to the control host might
// open.
func TestARootedNodeReachesNothingElse(t *testing.T) {
	const keys, stolen = "/etc/slurm/reconfigure/", "/root/stolen"
	host := lab.Declaration.ControlHost
	call := func(key string, further ...string) []string {
		return append([]string{
			"ssh", "-F", "none", "-T", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-i", key,
			"-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=" + keys + "known_hosts",
			"-p", strconv.Itoa(host.Port), host.User + "@" + host.Address,
		}, further...)
	}
	for _, command := range []string{
		"sh", "id", "resume node06", "suspend node02", "update node02", "update node[01-02]", "status", "destroy --yes", "",
	} {
		cmd := lab.Command("node01", call(keys+"id_ed25519", command)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2 ||
			!strings.HasSuffix(string(out), "reconfigure: refused\n") {
			t.Errorf("%q: %v\n%s", command, err, out)
		}
	}
	if out, err := lab.Command("node01", call(keys+"id_ed25519", "-W", "127.0.0.1:22")...).CombinedOutput(); err == nil {
		t.Errorf("a port is forwarded: %s", out)
	}

	key := lab.On(t, "node01", "cat", keys+"id_ed25519")
	lab.On(t, "node02", "sh", "-c", fmt.Sprintf("umask 077; echo '%s' >%s", key, stolen))
	defer lab.On(t, "node02", "rm", stolen)
	cmd := lab.Command("node02", call(stolen, "update node01")...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 255 ||
		!strings.Contains(string(out), "Permission denied") {
		t.Errorf("a stolen key: %v\n%s", err, out)
	}

	server, _ := lab.Server("node01")
	address := server.Addresses[0].String()
	uses, err := lab.Journal(t).KeyUses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range uses {
		if use.Key == "node node01" && len(use.Refused) > 0 && use.Refused[0].Peer == address {
			return
		}
	}
	t.Errorf("the journal does not have the refusals of %s: %+v", address, uses)
}
