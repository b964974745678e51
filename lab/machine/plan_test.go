package machine

import (
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

func TestStageCommandNamesTheMachine(t *testing.T) {
	spec := labcloud.Machine{
		ID: "id", Name: "node1", BootDelay: 1500 * time.Millisecond,
		Flags: map[string]bool{labcloud.FlagNoSSHD: true, labcloud.FlagNoSlurmd: true,
			labcloud.FlagNoMunged: true, "unknown": true},
	}
	cmd := stageCommand(spec, []string{"/base", "/v1", "/v2"}, "/lab/id", "/dev/pts/7", "lab-x/id",
		4242250*time.Millisecond)
	if got := strings.Join(cmd.Args[3:], " "); got != "272 128 -4243 750000000 "+
		"unshare --mount --uts --ipc --net --pid --fork --kill-child sh /lab/id/stage.sh" {
		t.Errorf("arguments: %s", got)
	}
	want := []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "ID=id", "NAME=node1", "LOWER=/v2:/v1:/base",
		"DISK=/lab/id/disk", "ROOT=/lab/id/root", "SEED=/lab/id/seed", "CONSOLE=/dev/pts/7",
		"CGROUP=lab-x/id", "LOGIN_USER=debian", "LOGIN_UID=1000", "MASK=usr/sbin/sshd usr/sbin/slurmd usr/sbin/munged",
		"BLOCKED=false", "FULL=false", "HANG=false", "DELAY=1.500",
	}
	if diff := cmp.Diff(want, cmd.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if cmd.SysProcAttr.Pdeathsig != syscall.SIGKILL {
		t.Error("the machine would outlive the lab")
	}
}

func TestPortsFollowTheAddresses(t *testing.T) {
	gateway := netip.MustParseAddr("10.0.0.1")
	address := func(ip string, gw netip.Addr) labcloud.Address {
		return labcloud.Address{MAC: "fa:16:3e:00:00:01", Prefix: netip.MustParsePrefix(ip), Gateway: gw}
	}
	spec := labcloud.Machine{Addresses: []labcloud.Address{
		address("10.1.0.5/24", netip.Addr{}), address("10.0.0.5/24", gateway),
		address("10.2.0.5/24", netip.MustParseAddr("10.2.0.1")),
	}}
	h := &Host{}
	ports, err := h.ports(spec)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range ports {
		got = append(got, p.name+" "+p.cable+" "+p.prefix.String()+" "+p.gateway.String())
	}
	want := []string{"eth0 port1 10.1.0.5/24 invalid IP", "eth1 port2 10.0.0.5/24 10.0.0.1",
		"eth2 port3 10.2.0.5/24 invalid IP"}
	if !slices.Equal(got, want) {
		t.Errorf("ports %q, want %q: one way out, the first gateway named", got, want)
	}
	spec.Addresses[1].MAC = "nonsense"
	if _, err := h.ports(spec); err == nil {
		t.Error("a malformed MAC passes")
	}
}

func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		text  string
		lines int
		want  string
	}{
		{"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc", 1, "c"},
		{"a\nb\n", 5, "a\nb\n"},
		{"a\nb\n", 0, "a\nb\n"},
		{"a\n\n\n", 2, "\n\n"},
		{"", 3, ""},
	} {
		if got := lastLines(test.text, test.lines); got != test.want {
			t.Errorf("last %d lines of %q = %q, want %q", test.lines, test.text, got, test.want)
		}
	}
}

func TestLabNamesFitIntoInterfaceNames(t *testing.T) {
	for _, name := range []string{"", "-a", "A", "a b", "a/b", "twelve-chars"} {
		if claim, err := claimName(name); err == nil {
			t.Errorf("%q passes", name)
			_ = claim.Close()
		}
	}
}
