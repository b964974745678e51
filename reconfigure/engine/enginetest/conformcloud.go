package enginetest

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/engine"
)

// CloudHarness is a cloud without instances, and what a test can do to it from outside.
type CloudHarness struct {
	Cloud engine.Cloud
	// Source is of names that the cloud knows, and Resolved what they mean.
	Source   reconfigure.Source
	Resolved reconfigure.Resolved
	// Make makes an instance of ours, and returns its id when it runs; Break makes one that ends in ERROR.
	Make, Break func(node string) (id string)
	// Print has something appear on an instance's console.
	Print func(id, text string)
	// Boots is how often an instance was booted again.
	Boots func(id string) int
}

// Cloud holds an implementation to the contract of engine.Cloud. New makes a harness of its own for each call.
func Cloud(t *testing.T, new func(*testing.T) CloudHarness) {
	for name, rule := range map[string]func(cloud){
		"names become ids":          cloud.resolves,
		"only what runs is active":  cloud.active,
		"what is broken says why":   cloud.faults,
		"reboot ends with a runner": cloud.reboots,
		"the console is its own":    cloud.console,
		"a context that is done":    cloud.done,
	} {
		t.Run(name, func(t *testing.T) { rule(cloud{t, new(t)}) })
	}
}

type cloud struct {
	*testing.T
	CloudHarness
}

// resolves asks twice, and then for names that mean nothing: no id comes of the names beside them.
func (c cloud) resolves() {
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

func (c cloud) active() {
	c.wantActive(map[string]bool{})
	first := c.Make("node1")
	c.Break("node2")
	second := c.Make("node3")
	c.wantActive(map[string]bool{first: true, second: true})
}

func (c cloud) faults() {
	c.Make("node1")
	c.Break("node2")
	faults, err := c.Cloud.Faults(c.Context())
	if err != nil || len(faults) != 1 || faults["node2"] == "" {
		c.Errorf("node2 alone is broken; the faults are %q, error %v", faults, err)
	}
}

// console is as it was printed, the end of it at least, and nobody else's.
func (c cloud) console() {
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

func (c cloud) wantActive(want map[string]bool) {
	c.Helper()
	got, err := c.Cloud.Active(c.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		c.Errorf("active: error %v (-want +got):\n%s", err, diff)
	}
}

func (c cloud) reboots() {
	id, other := c.Make("node1"), c.Make("node2")
	before := c.Boots(id)
	if err := c.Cloud.Reboot(c.Context(), id); err != nil {
		c.Fatal(err)
	}
	c.wantActive(map[string]bool{id: true, other: true})
	if c.Boots(id) != before+1 || c.Boots(other) != 0 {
		c.Errorf("booted again %d times, and the other one %d times", c.Boots(id)-before, c.Boots(other))
	}
	if err := c.Cloud.Reboot(c.Context(), "00000000-0000-4000-8000-000000000000"); err == nil {
		c.Error("an instance that is not there was rebooted")
	}
}

func (c cloud) done() {
	id := c.Make("node1")
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	if got := c.Cloud.Resolve(ctx, c.Source); got.Err == "" {
		c.Errorf("resolved to %+v", got)
	}
	if got, err := c.Cloud.Active(ctx); err == nil {
		c.Errorf("active are %v", got)
	}
	if got, err := c.Cloud.Faults(ctx); err == nil {
		c.Errorf("faults are %v", got)
	}
	if log, err := c.Cloud.Console(ctx, id, 0); err == nil {
		c.Errorf("the console shows %q", log)
	}
	if err := c.Cloud.Reboot(ctx, id); err == nil || c.Boots(id) != 0 {
		c.Errorf("booted again %d times, error %v", c.Boots(id), err)
	}
}
