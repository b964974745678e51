package openstack

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

func TestServersAreOursOnlyAndNoneIsLost(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	if _, err := l.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: "node2"}); err != nil {
		t.Fatal(err)
	}
	first := l.create("node1", "eiffel", "ACTIVE")
	second := l.create("node1", "eiffel", "ACTIVE")
	broken := l.create("node2", "eiffel", "ERROR")
	l.create("node3", "another", "ACTIVE")
	got, err := l.client.Servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]Server{
		"node1": {{ID: first.ID, Name: "node1", Status: "ACTIVE", ImageID: imageV1}, {ID: second.ID, Name: "node1", Status: "ACTIVE", ImageID: imageV1}},
		"node2": {{ID: broken.ID, Name: "node2", Status: "ERROR", ImageID: imageV1, Fault: "No valid host was found. "}},
	}
	twins := cmpopts.SortSlices(func(a, b Server) bool { return a.ID < b.ID }) // made in the same second
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Server{}, "Created", "Address"), twins); diff != "" {
		t.Error(diff)
	}
	if a := got["node1"][0].Address; !strings.HasPrefix(a, "10.60.") {
		t.Errorf("address %q", a)
	}
	active, err := l.client.Active(t.Context())
	if diff := cmp.Diff(map[string]bool{first.ID: true, second.ID: true}, active); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestAddressIsTheFirstFixedOneOfVersion4(t *testing.T) {
	port := func(addr string, version float64, kind string) map[string]any {
		return map[string]any{"addr": addr, "version": version, "OS-EXT-IPS:type": kind}
	}
	for name, test := range map[string]struct {
		networks map[string]any
		want     string
	}{
		"none yet":  {map[string]any{}, ""},
		"of many":   {map[string]any{"b": []any{port("192.0.2.2", 4, "fixed")}, "a": []any{port("2001:db8::1", 6, "fixed"), port("198.51.100.1", 4, "floating"), port("192.0.2.1", 4, "fixed")}}, "192.0.2.1"},
		"only IPv6": {map[string]any{"a": []any{port("2001:db8::1", 6, "fixed")}}, ""},
	} {
		if got := address(test.networks); got != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// switchboard is a hypervisor that notes the reboots, and on which soft ones may take their time.
type switchboard struct {
	labcloud.Null
	over func() bool // a soft reboot does not end before
	lock sync.Mutex
	hard []bool
}

func (s *switchboard) Reboot(ctx context.Context, _ string, hard bool) error {
	s.lock.Lock()
	s.hard = append(s.hard, hard)
	s.lock.Unlock()
	for s.over != nil && !hard && !s.over() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

func (s *switchboard) reboots() []bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.hard
}

func TestRebootIsSoftAndEndsActive(t *testing.T) {
	board := &switchboard{}
	l := newLab(t, board)
	s := l.create("node1", "eiffel", "ACTIVE")
	if err := l.client.Reboot(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]bool{false}, board.reboots()); diff != "" {
		t.Error(diff)
	}
}

func TestRebootThatDoesNotEndIsMadeHard(t *testing.T) {
	board := &switchboard{}
	l := newLab(t, board)
	board.over = func() bool { return l.cloud.Calls()["POST /compute/v2.1/servers/{id}/action reboot"] > 1 }
	s := l.create("node1", "eiffel", "ACTIVE")
	if err := l.client.Reboot(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]bool{false, true}, board.reboots()); diff != "" {
		t.Error(diff)
	}
}

func TestRebootOfAServerThatIsOffIsHard(t *testing.T) {
	board := &switchboard{}
	l := newLab(t, board)
	s := l.create("node1", "eiffel", "ACTIVE")
	if err := servers.Stop(t.Context(), l.client.compute, s.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	for s.Status != "SHUTOFF" {
		var err error
		if s, err = servers.Get(t.Context(), l.client.compute, s.ID).Extract(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.client.Reboot(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]bool{true}, board.reboots()); diff != "" {
		t.Error(diff)
	}
}

func TestRebootSaysWhyNot(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	if err := l.client.Reboot(t.Context(), absent); !gophercloud.ResponseCodeIs(err, 404) || strings.Contains(err.Error(), "HARD") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.client.Reboot(ctx, absent); err == nil || strings.Contains(err.Error(), "HARD") {
		t.Errorf("error %v", err)
	}
}

func TestConsoleIsWhatTheMachineSays(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	s := l.create("node1", "eiffel", "ACTIVE")
	got, err := l.client.Console(t.Context(), s.ID, 100)
	if err != nil || got != "this machine has nothing behind it\n" {
		t.Errorf("console %q, error %v", got, err)
	}
}
