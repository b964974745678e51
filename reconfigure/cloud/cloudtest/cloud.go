package cloudtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// CloudSetup is a cloud without instances of ours, and ways for a test to change it from outside.
type CloudSetup struct {
	Cloud Cloud
	// Source has names that the cloud knows, and Resolved their ids.
	Source   reconfigure.Source
	Resolved reconfigure.Resolved
	// Make makes an instance of ours, and returns its id when it is ACTIVE; a node may have several. Break makes one
	// that ends in ERROR.
	Make, Break func(node string) (id string)
	// Print prints on an instance's console.
	Print func(id, text string)
	// Boots returns how often an instance was rebooted.
	Boots func(id string) int
	// Existing reports whether the instances are existing machines: one for each node, without a time of creation and
	// without a console, and never removed. Print may then be nil.
	Existing bool
}

// Cloud is an operation.Cloud that also resolves names.
type Cloud interface {
	operation.Cloud
	// Resolve returns the current ids of the names of a source.
	Resolve(ctx context.Context, s reconfigure.Source) reconfigure.Resolved
}

// TestCloud checks the contract of operation.Cloud. New makes a new setup for each call.
func TestCloud(t *testing.T, new func(*testing.T) CloudSetup) {
	for name, rule := range map[string]func(cloudRule){
		"names become ids":                     cloudRule.resolves,
		"every instance is listed":             cloudRule.lists,
		"an instance in ERROR says why":        cloudRule.faults,
		"a reboot ends when it is ACTIVE":      cloudRule.reboots,
		"the console is its own":               cloudRule.console,
		"an instance is removed, or was gone":  cloudRule.removes,
		"what is not meant stays":              cloudRule.spares,
		"nothing is done when the ctx is done": cloudRule.ended,
	} {
		t.Run(name, func(t *testing.T) { rule(cloudRule{t, new(t)}) })
	}
}

type cloudRule struct {
	*testing.T
	CloudSetup
}

// resolves resolves known names twice, and then unknown names: their error comes without the ids of the known ones.
func (c cloudRule) resolves() {
	for range 2 {
		if diff := cmp.Diff(c.Resolved, c.Cloud.Resolve(c.Context(), c.Source)); diff != "" {
			c.Errorf("resolved (-want +got):\n%s", diff)
		}
	}
	const nothing = "means-nothing"
	for _, change := range []func(*reconfigure.Source){
		func(s *reconfigure.Source) { s.Image = nothing },
		func(s *reconfigure.Source) { s.Flavor = nothing },
		func(s *reconfigure.Source) { s.Network = nothing },
	} {
		bad := c.Source
		change(&bad)
		got := c.Cloud.Resolve(c.Context(), bad)
		if got.Err == "" || got != (reconfigure.Resolved{Err: got.Err, Class: reconfigure.ClassMissing}) {
			c.Errorf("%+v resolves to %+v", bad, got)
		}
	}
}

// lists checks the list of instances: the oldest of each node first, with all attributes.
func (c cloudRule) lists() {
	c.wantServers(map[string][]string{})
	began := time.Now().Truncate(time.Second)
	ones := []string{c.Make("node1")}
	if !c.Existing {
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // Nova's times are whole seconds
		ones = append(ones, c.Make("node1"))
	}
	other, broken := c.Make("node2"), c.Break("node3")
	servers := c.wantServers(map[string][]string{"node1": ones, "node2": {other}, "node3": {broken}})
	for node, all := range servers {
		for _, s := range all {
			if s.Node != node || !c.Existing && s.Created.Before(began) {
				c.Errorf("%s has %+v", node, s)
			}
			if s.Active() != (s.ID != broken) || s.Active() && s.Address == "" {
				c.Errorf("server %+v", s)
			}
		}
	}
	if status := servers["node3"][0].Status; status != "ERROR" {
		c.Errorf("the broken instance is %s", status)
	}
}

func (c cloudRule) faults() {
	whole, broken := c.Make("node1"), c.Break("node2")
	for id, want := range map[string]bool{whole: false, broken: true} {
		fault, err := c.Cloud.Fault(c.Context(), id)
		if err != nil || (fault.Words != "") != want {
			c.Errorf("the fault of %s is %q, error %v", id, fault, err)
		}
	}
}

// console checks that the console has at least the end of the printed text, and nothing of another instance.
func (c cloudRule) console() {
	if c.Existing {
		c.noConsole()
		return
	}
	id, other := c.Make("node1"), c.Make("node2")
	c.Print(id, "one\ntwo\nthree\n")
	c.Print(other, "four\n")
	for lines, want := range map[int]string{0: "one\ntwo\nthree\n", 2: "two\nthree\n"} {
		log, err := c.Cloud.Console(c.Context(), id, lines)
		if err != nil || !strings.HasSuffix(log, want) || strings.Contains(log, "four") || lines > 0 && log != want {
			c.Errorf("with %d lines the console shows %q, error %v", lines, log, err)
		}
	}
	if log, err := c.Cloud.Console(c.Context(), "00000000-0000-4000-8000-000000000000", 0); err == nil {
		c.Errorf("the console of an instance that is not there shows %q", log)
	}
}

// noConsole checks that Console returns an error, not an empty console.
func (c cloudRule) noConsole() {
	if log, err := c.Cloud.Console(c.Context(), c.Make("node1"), 0); err == nil {
		c.Errorf("the console of a machine that exists shows %q", log)
	}
}

func serverIDs(servers []reconfigure.Server) []string {
	ids := make([]string, len(servers))
	for i, s := range servers {
		ids[i] = s.ID
	}
	return ids
}

// wantServers checks the ids of all servers, the oldest of each node first, and those of some nodes.
func (c cloudRule) wantServers(want map[string][]string) map[string][]reconfigure.Server {
	c.Helper()
	servers, err := c.Cloud.Servers(c.Context(), nodeset.NodeSet{})
	got := map[string][]string{}
	for node, all := range servers {
		got[node] = serverIDs(all)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
		c.Errorf("servers: error %v (-want +got):\n%s", err, diff)
	}
	for node, all := range servers {
		for _, s := range all {
			one, there, err := c.Cloud.Server(c.Context(), s.ID)
			diff := cmp.Diff(s, one, cmpopts.IgnoreFields(reconfigure.Server{}, "Fault", "PortID", "Host"))
			if err != nil || !there || diff != "" {
				c.Errorf("instance %s of %s, asked for by its id: there %t, error %v (-listed +got):\n%s",
					s.ID, node, there, err, diff)
			}
		}
	}
	for _, nodes := range []nodeset.NodeSet{nodeset.Of("node1"), nodeset.Of("node2", "node1"), nodeset.Of("node")} {
		some, err := c.Cloud.Servers(c.Context(), nodes)
		for node := range nodes.All() {
			diff := cmp.Diff(want[node], serverIDs(some[node]), cmpopts.EquateEmpty())
			if err != nil || diff != "" {
				c.Errorf("servers of %s: error %v, those of %s (-want +got):\n%s", nodes, err, node, diff)
			}
		}
	}
	return servers
}

func (c cloudRule) reboots() {
	id, other := c.Make("node1"), c.Make("node2")
	before := c.Boots(id)
	if err := c.Cloud.Reboot(c.Context(), id); err != nil {
		c.Fatal(err)
	}
	for node, all := range c.wantServers(map[string][]string{"node1": {id}, "node2": {other}}) {
		if !all[0].Active() {
			c.Errorf("%s is %+v", node, all[0])
		}
	}
	if c.Boots(id) != before+1 || c.Boots(other) != 0 {
		c.Errorf("rebooted %d times, and the other one %d times", c.Boots(id)-before, c.Boots(other))
	}
	if err := c.Cloud.Reboot(c.Context(), "00000000-0000-4000-8000-000000000000"); err == nil {
		c.Error("an instance that is not there was rebooted")
	}
}

func (c cloudRule) removes() {
	if c.Existing {
		id := c.Make("node1")
		if err := c.Cloud.RemoveServer(c.Context(), id, "node1", later()); err == nil {
			c.Error("a machine that exists was to be removed, and that was no error")
		}
		c.wantServers(map[string][]string{"node1": {id}})
		return
	}
	one, twin, other := c.Make("node1"), c.Make("node1"), c.Make("node2")
	for range 2 { // an absent instance is success
		if err := c.Cloud.RemoveServer(c.Context(), one, "node1", later()); err != nil {
			c.Fatal(err)
		}
		if s, there, err := c.Cloud.Server(c.Context(), one); there || err != nil {
			c.Errorf("the removed instance is there: %+v, error %v", s, err)
		}
		c.wantServers(map[string][]string{"node1": {twin}, "node2": {other}})
	}
}

func (c cloudRule) spares() {
	id := c.Make("node1")
	if err := c.Cloud.RemoveServer(c.Context(), id, "node2", later()); err == nil {
		c.Error("an instance of another name was to be removed, and that was no error")
	}
	if err := c.Cloud.RemoveServer(c.Context(), id, "node1", time.Now().AddDate(-1, 0, 0)); err == nil {
		c.Error("an instance that is too young was to be removed, and that was no error")
	}
	c.wantServers(map[string][]string{"node1": {id}})
}

func (c cloudRule) ended() {
	id := c.Make("node1")
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	if got := c.Cloud.Resolve(ctx, c.Source); got.Err == "" {
		c.Errorf("resolved to %+v", got)
	}
	if got, err := c.Cloud.Servers(ctx, nodeset.NodeSet{}); err == nil {
		c.Errorf("servers are %v", got)
	}
	if got, _, err := c.Cloud.Server(ctx, id); err == nil {
		c.Errorf("the instance is %+v", got)
	}
	if got, err := c.Cloud.Fault(ctx, id); err == nil {
		c.Errorf("the fault is %q", got)
	}
	if log, err := c.Cloud.Console(ctx, id, 0); err == nil {
		c.Errorf("the console shows %q", log)
	}
	if err := c.Cloud.Reboot(ctx, id); err == nil || c.Boots(id) != 0 {
		c.Errorf("rebooted %d times, error %v", c.Boots(id), err)
	}
	if err := c.Cloud.RemoveServer(ctx, id, "node1", later()); err == nil {
		c.Error("the removal is no error")
	}
	c.wantServers(map[string][]string{"node1": {id}})
}

// later returns a time after the creation of every instance.
func later() time.Time { return time.Now().AddDate(1, 0, 0) }
