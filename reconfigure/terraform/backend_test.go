package terraform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/postgres"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// TestPostgreSQLsLockEndsWithTerraform kills Terraform while it has locked the state: once before a state exists and
// once afterwards, since pg uses different locks for these. Before the kill, a second Terraform waits in vain. Its
// error must not name itself as the holder of the lock, as Terraform's message does.
func TestPostgreSQLsLockEndsWithTerraform(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	database := postgres.Start(t).Database(t)
	c.write("terraform/openstack/backend.tf",
		fmt.Sprintf("terraform {\n  backend \"pg\" {\n    conn_str = %q\n  }\n}\n", database+"&sslmode=disable"))
	d := c.open()
	desired := c.deployed()
	p := planOf(reconfigure.Create, desired, control)
	p.Shared = true
	c.killedInApply(d, p, "POST /identity/v3/auth/tokens")
	c.deploy(d, desired)
	maps.Copy(desired, c.deployed("node01"))
	c.killedInApply(d, planOf(reconfigure.Create, desired, "node01"), "POST servers")
	if failures := c.carryOut(d, planOf(reconfigure.Remove, c.deployed(), "node01")); len(failures) > 0 {
		t.Errorf("%v", failures)
	}
	c.wantClean(d)
}

// A backend with workspaces makes one with its first apply, as the local backend does.
func TestAShardInPostgreSQL(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	database := postgres.Start(t).Database(t)
	c.write("terraform/openstack/backend.tf",
		fmt.Sprintf("terraform {\n  backend \"pg\" {\n    conn_str = %q\n  }\n}\n", database+"&sslmode=disable"))
	head := c.open()
	c.deploy(head, c.deployed())
	d := c.in("standard-0")
	if found, err := d.Instances(t.Context()); len(found) > 0 || err != nil {
		t.Errorf("before there is a workspace: %v, %v", found, err)
	}
	spec := c.spec("standard", imageV1)
	spec.Shard = "standard-0"
	if failures := c.carryOut(d, planOf(reconfigure.Create, map[string]reconfigure.Spec{"node01": spec},
		"node01")); len(failures) > 0 {
		t.Fatal(failures)
	}
	c.wantCleanByHand(d, "standard-0")
	c.wantCleanByHand(head, "")
	if shards, err := head.Shards(t.Context()); len(shards) != 2 || err != nil {
		t.Errorf("shards: %v, %v", shards, err)
	}
}

// killedInApply kills Terraform while it waits for an answer of the cloud, and lets another one wait for the lock.
func (c *cluster) killedInApply(d *Driver, p reconfigure.Plan, call string) {
	c.Helper()
	preview, err := d.Preview(c.Context(), p)
	c.must(err)
	hang, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.Hang, Call: call})
	c.must(err)
	applied := make(chan error, 1)
	go func() {
		_, err := d.Apply(context.WithoutCancel(c.Context()), preview, func(string, string) {}, nil)
		applied <- err
	}()
	c.until("the call hangs", func() bool { return c.cloud.Faults().List()[0].Hits > 0 })

	c.cfg.LockTimeout = 0
	_, err = c.open().Preview(c.Context(), p)
	if locked := (*LockedError)(nil); !errors.As(err, &locked) || *locked != (LockedError{}) ||
		strings.Contains(err.Error(), "force-unlock") {
		c.Errorf("preview of a locked state: %v", err)
	}
	// The one that waits, or tries again, gets the lock as soon as the other one is dead.
	c.cfg.LockTimeout = time.Hour
	dying := c.terraforms()
	waited := make(chan error, 1)
	waiting := c.open()
	go func() {
		preview, err := waiting.Preview(context.WithoutCancel(c.Context()), p)
		for reconfigure.ClassOf(err) == reconfigure.ClassLocked {
			preview, err = waiting.Preview(context.WithoutCancel(c.Context()), p)
		}
		waited <- errors.Join(err, waiting.Discard(preview))
	}()
	c.until("the other one has begun", func() bool { return len(c.terraforms()) > len(dying) })
	for _, pid := range dying {
		_ = syscall.Kill(pid, syscall.SIGKILL) // the provider's process may have ended already
	}
	if err := <-applied; !errors.Is(err, errKilled) {
		c.Errorf("the one that was killed: %v", err)
	}
	c.cloud.Faults().Clear(hang)
	c.must(<-waited)
}
