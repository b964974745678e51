package openstack

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
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
	got, err := l.client.Servers(t.Context(), nodeset.NodeSet{})
	if err != nil {
		t.Fatal(err)
	}
	server := func(s *servers.Server, node string, status reconfigure.ServerStatus) reconfigure.Server {
		host := s.HostID
		return reconfigure.Server{
			ID: s.ID, Node: node, Status: status, ImageID: imageV1, FlavorID: "42", Group: "standard", Host: host,
			Zone: s.AvailabilityZone,
		}
	}
	want := map[string][]reconfigure.Server{
		"node1": {server(first, "node1", "ACTIVE"), server(second, "node1", "ACTIVE")},
		"node2": {server(broken, "node2", "ERROR")},
	}
	twins := cmpopts.SortSlices(func(a, b reconfigure.Server) bool { return a.ID < b.ID }) // made in the same second
	ignored := cmpopts.IgnoreFields(reconfigure.Server{}, "Created", "Address", "Fault")
	if diff := cmp.Diff(want, got, ignored, twins); diff != "" {
		t.Error(diff)
	}
	if zone := got["node1"][0].Zone; zone != "nova" {
		t.Errorf("node1 is in zone %q", zone)
	}
	if got["node1"][0].Host == "" || got["node2"][0].Host != "" {
		t.Errorf("hosts %q and %q", got["node1"][0].Host, got["node2"][0].Host)
	}
	fault, err := l.client.Fault(t.Context(), broken.ID)
	if err != nil || fault != (reconfigure.Fault{Words: "No valid host was found.", Class: reconfigure.ClassCapacity}) {
		t.Errorf("fault %q, error %v", fault, err)
	}
	for _, id := range []string{first.ID, absent} {
		if fault, err := l.client.Fault(t.Context(), id); err != nil || fault.Words != "" {
			t.Errorf("fault %q, error %v", fault, err)
		}
	}
	if a := got["node1"][0].Address; !strings.HasPrefix(a, "10.60.") {
		t.Errorf("address %q", a)
	}
}

// TestServersAreAskedForByName selects by name as Nova on MariaDB does.
func TestServersAreAskedForByName(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	var many []string
	for i := range 4000 {
		many = append(many, fmt.Sprintf("n%d", i))
	}
	for _, node := range []string{"n1", "n10", "n1-x", "an1"} {
		l.create(node, "eiffel", "ACTIVE")
	}
	for _, tc := range []struct {
		nodes nodeset.NodeSet
		want  string
	}{
		{nodeset.Of("n1"), "n1"},
		{nodeset.Of("n1", "n2"), "n1"},
		{nodeset.Of("n1-x", "n10"), "n1-x,n10"},
		{nodeset.Of("n1", "n1-x", "n2"), "n1,n1-x"},
		{nodeset.Of("n1", "an1"), "an1,n1"},
		{nodeset.Of("n2"), ""},
		{nodeset.Of(many...), "n1,n10"},
		{nodeset.NodeSet{}, "an1,n1,n10,n1-x"},
	} {
		got, err := l.client.Servers(t.Context(), tc.nodes)
		have := nodeset.Collect(maps.Keys(got))
		want := nodeset.NodeSet{}
		if tc.want != "" {
			want = nodeset.Of(strings.Split(tc.want, ",")...)
		}
		if err != nil || !have.Equal(want) {
			t.Errorf("%s: servers of %s, want %s, error %v", tc.nodes, have, want, err)
		}
	}
}

func TestFiltersOfNames(t *testing.T) {
	portable := regexp.MustCompile(`^\^([a-z0-9-]|\[-?[a-z0-9]+\])((\?)?([a-z0-9-]|\[-?[a-z0-9]+\]))*(\?)?\$$`)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?`).Filter(func(name string) bool {
			return nodeset.ValidName(name) == nil
		})
		names := rapid.SliceOfN(name, 1, 100).Draw(t, "names")
		filters := filtersFor(nodeset.Of(names...))
		for _, filter := range filters {
			if !portable.MatchString(filter) {
				t.Errorf("filter %s is not understood by each database", filter)
			}
		}
		for _, name := range names {
			if n := selecting(filters, name); n != 1 {
				t.Errorf("%d filters of %q select %s", n, filters, name)
			}
		}
		if other := name.Draw(t, "other"); selecting(filters, other) > 1 {
			t.Errorf("several filters of %q select %s", filters, other)
		}
	})
}

// selecting returns the number of these filters that select a name.
func selecting(filters []string, name string) (n int) {
	for _, filter := range filters {
		if regexp.MustCompile(filter).MatchString(name) {
			n++
		}
	}
	return n
}

// TestFiltersSelectFewOthers counts the calls for nodes of a cluster of 4000 nodes, and the servers that the calls
// select.
func TestFiltersSelectFewOthers(t *testing.T) {
	var all []string
	for i := range 4000 {
		all = append(all, fmt.Sprintf("node%04d", i+1))
	}
	for _, tc := range []struct {
		nodes           string
		calls, selected int
	}{
		{"node0001", 1, 1},
		{"node[0001-0002]", 1, 2},
		{"node0001,node3999", 1, 16},
		{"node[0001-0050]", 1, 59},
		{"node[0001-0051]", 1, 59},
		{"node[0001-1000]", 1, 1999},
		{"node[0001-4000]", 1, 4000},
		{"node[0007,0123,0456,0789,1012,1345,1678,1901,2234,2567,2890,3123,3456,3789,3999]", 4, 203},
	} {
		nodes, err := nodeset.Parse(tc.nodes)
		if err != nil {
			t.Fatal(err)
		}
		filters, selected := filtersFor(nodes), 0
		for _, name := range all {
			selected += selecting(filters, name)
		}
		if len(filters) != tc.calls || selected != tc.selected {
			t.Errorf("%s: %d calls for %d servers, want %d for %d: %q",
				tc.nodes, len(filters), selected, tc.calls, tc.selected, filters)
		}
	}
}

func TestFiltersAreExactForFewNames(t *testing.T) {
	for nodes, want := range map[string]string{
		"node01": "^node01$", "node[01-02]": "^node0[12]$", "n9,n10": "^n[19]0?$", "a-1,a1": "^a[-1]1?$",
	} {
		set, err := nodeset.Parse(nodes)
		if got := strings.Join(filtersFor(set), " "); err != nil || got != want {
			t.Errorf("%s: filters %s, want %s, error %v", nodes, got, want, err)
		}
	}
	if all := filtersFor(nodeset.NodeSet{}); len(all) != 1 || all[0] != "" {
		t.Errorf("filters of all servers: %q", all)
	}
}

func TestAServerThatIsOnTwoPagesIsOne(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	s, err := l.client.server(t.Context(), l.client.compute, l.create("node1", "eiffel", "ACTIVE").ID)
	if err != nil {
		t.Fatal(err)
	}
	if same := l.client.byNode([]server{s, s})["node1"]; len(same) != 1 || same[0].ID != s.ID {
		t.Errorf("servers %+v", same)
	}
}

func TestAddressIsTheFirstFixedOneOfVersion4(t *testing.T) {
	for name, test := range map[string]struct {
		networks map[string][]port
		want     string
	}{
		"none yet": {map[string][]port{}, ""},
		"of many": {map[string][]port{
			"b": {{"192.0.2.2", 4, "fixed"}},
			"a": {{"2001:db8::1", 6, "fixed"}, {"198.51.100.1", 4, "floating"}, {"192.0.2.1", 4, "fixed"}},
		}, "192.0.2.1"},
		"only IPv6": {map[string][]port{"a": {{"2001:db8::1", 6, "fixed"}}}, ""},
	} {
		if got := address(test.networks); got != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// switchboard is a hypervisor that records reboots, and whose soft reboots may take time.
type switchboard struct {
	labcloud.Null
	over func() bool // the end of a soft reboot
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
	err := l.client.Reboot(t.Context(), absent)
	if !gophercloud.ResponseCodeIs(err, 404) || strings.Contains(err.Error(), "HARD") {
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

func TestPortIsTheOnlyOneOfAServer(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	s := l.create("node1", "eiffel", "ACTIVE")
	if port, err := l.client.Port(t.Context(), s.ID); err != nil || port == "" {
		t.Errorf("port %q, error %v", port, err)
	}
	if port, err := l.client.Port(t.Context(), "11111111-0000-4000-8000-00000000000f"); err == nil {
		t.Errorf("a missing server is at port %q", port)
	}
}

// TestServersAreOneCall counts the calls to the cloud.
func TestServersAreOneCall(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	for _, node := range []string{"node1", "node2", "node3"} {
		if _, err := l.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: node}); err != nil {
			t.Fatal(err)
		}
		l.create(node, "eiffel", "ERROR")
	}
	before := l.cloud.Calls()
	if _, err := l.client.Servers(t.Context(), nodeset.NodeSet{}); err != nil {
		t.Fatal(err)
	}
	asked := map[string]int{}
	for call, n := range l.cloud.Calls() {
		if n > before[call] {
			asked[call] = n - before[call]
		}
	}
	if diff := cmp.Diff(map[string]int{"GET /compute/v2.1/servers/detail": 1}, asked); diff != "" {
		t.Error(diff)
	}
}

// TestFaultsOfServersWithoutAHostAreAskedForOneByOne exists because Nova's list lacks these faults.
func TestFaultsOfServersWithoutAHostAreAskedForOneByOne(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	l.create("node1", "eiffel", "ACTIVE")
	for _, node := range []string{"node2", "node3"} {
		if _, err := l.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: node}); err != nil {
			t.Fatal(err)
		}
		l.create(node, "eiffel", "ERROR")
	}
	listed, err := l.client.Servers(t.Context(), nodeset.NodeSet{})
	if err != nil || listed["node2"][0].Fault.Words != "" {
		t.Fatalf("the list has the fault %q, error %v", listed["node2"][0].Fault, err)
	}
	full, err := l.client.ServersWithFaults(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const noHost = "No valid host was found."
	for node, want := range map[string]string{"node1": "", "node2": noHost, "node3": noHost} {
		if got := full[node][0].Fault; got.Words != want {
			t.Errorf("%s has the fault %q", node, got)
		}
	}
}

func TestALookIsSoonAtFirst(t *testing.T) {
	for passed, want := range map[time.Duration]time.Duration{
		0: 300 * time.Millisecond, 10 * time.Second: time.Second, time.Minute: 2 * time.Second,
	} {
		if got := usual().untilNextLook(passed); got != want {
			t.Errorf("after %s in %s, not in %s", passed, got, want)
		}
	}
}
