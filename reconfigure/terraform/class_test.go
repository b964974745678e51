package terraform

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Each node but one fails in a different way, all in one apply of real Terraform.
func TestFailuresOfTheCloudHaveTheirClasses(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	desired := c.deployed()
	c.deploy(d, desired)
	want := map[string]reconfigure.Class{
		"node01": reconfigure.ClassQuota, "node02": reconfigure.ClassOther, "node03": reconfigure.ClassRateLimit,
		"node04": reconfigure.ClassCloud,
		"node05": reconfigure.ClassUnknown, "node06": reconfigure.ClassMissing, "node07": reconfigure.ClassMissing,
	}
	for node, kind := range map[string]labcloud.Kind{
		// For an instance in ERROR, Terraform reports only that; others ask Nova for the reason.
		"node01": labcloud.QuotaExceeded, "node02": labcloud.NoValidHost, "node03": labcloud.RateLimited,
		"node04": labcloud.ServerError, "node05": labcloud.LostAnswer,
	} {
		_, err := c.cloud.Faults().Add(labcloud.Fault{Kind: kind, Server: node, Call: "POST servers", Count: 100})
		c.must(err)
	}
	maps.Copy(desired, c.deployed("node01", "node02", "node03", "node04", "node05", "node06", "node07", "node08"))
	desired["node06"] = c.spec("standard", "11111111-0000-4000-8000-000000000009")
	spec := desired["node07"]
	spec.FlavorID = "nothing"
	desired["node07"] = spec
	got := map[string]reconfigure.Class{}
	for node, err := range c.carryOut(d, planOf(reconfigure.Create, desired, "node01", "node02", "node03", "node04",
		"node05", "node06", "node07", "node08")) {
		got[node] = reconfigure.ClassOf(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}

// Terraform makes no instance before it has made all ports. A node that waited in vain failed for the same reason as
// the node for which it waited.
func TestUntriedNodeHasTheClassOfTheFailure(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	desired := c.deployed()
	c.deploy(d, desired)
	_, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.QuotaExceeded, Call: "POST ports"})
	c.must(err)
	maps.Copy(desired, c.deployed("node01", "node02"))
	failures := c.carryOut(d, planOf(reconfigure.Create, desired, "node01", "node02"))
	var waited []string
	for _, node := range []string{"node01", "node02"} {
		if class := reconfigure.ClassOf(failures[node]); class != reconfigure.ClassQuota {
			t.Errorf("%s: error of class %s: %v", node, class, failures[node])
		}
		if errors.Is(failures[node], reconfigure.ErrUntried) {
			waited = append(waited, node)
		}
	}
	if len(waited) != 1 {
		t.Fatalf("of two nodes, %v waited for the other: %v", waited, failures)
	}
	// Without the other node it succeeds at once.
	good := c.deployed(waited...)
	if failures := c.carryOut(d, planOf(reconfigure.Create, good, waited...)); len(failures) > 0 {
		t.Errorf("once more, by itself: %v", failures)
	}
}

// At the login no node can fail alone yet.
func TestThrottledLoginIsARateLimit(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	desired := c.deployed()
	c.deploy(d, desired)
	_, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.RateLimited, Call: "POST auth/tokens", Count: 100})
	c.must(err)
	if preview, err := d.Preview(t.Context(),
		planOf(reconfigure.Replace, desired, control)); reconfigure.ClassOf(err) != reconfigure.ClassRateLimit {
		t.Errorf("preview %+v, error of class %s: %v", preview, reconfigure.ClassOf(err), err)
	}
}

// A node that takes longer than Slurm waits is given up in time, and its remains can be removed.
func TestSlowInstanceFailsBeforeResumeTimeout(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(cfg *labcloud.Config) { cfg.Timings.Build = time.Hour })
	c.declare("resume_timeout: 900", "resume_timeout: 30")
	d := c.open()
	desired := c.deployed("node01")
	p := planOf(reconfigure.Create, desired, control, "node01")
	p.Shared = true
	failures := c.carryOut(d, p)
	for _, node := range []string{control, "node01"} {
		if err := failures[node]; reconfigure.ClassOf(err) != reconfigure.ClassBoot ||
			!strings.Contains(err.Error(), "to become ready") {
			t.Errorf("%s: error of class %s: %v", node, reconfigure.ClassOf(err), err)
		}
	}
	delete(desired, "node01")
	c.removeUnfinished(d, desired, "node01")
}

// Another ResumeTimeout is no reason to change an instance.
func TestAnotherResumeTimeoutChangesNoInstance(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	c.deploy(d, c.deployed("node01"))
	c.declare("resume_timeout: 900", "resume_timeout: 1800")
	c.wantClean(d)
}

// If Terraform cannot read an instance, it cannot plan it, and reports nothing about the others.
func TestNodeThatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	d := c.open()
	desired := c.deployed("node01", "node02")
	c.deploy(d, desired)
	_, err := c.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.ServerError, Server: "node01",
		Call: "GET servers/{id}", Count: 100})
	c.must(err)
	_, err = d.Preview(t.Context(), planOf(reconfigure.Replace, desired, "node01", "node02"))
	var bad *reconfigure.Unplannable
	if !errors.As(err, &bad) || len(bad.Failures) != 1 ||
		reconfigure.ClassOf(bad.Failures["node01"]) != reconfigure.ClassCloud {
		t.Fatalf("error %v", err)
	}
	preview, err := d.Preview(t.Context(), planOf(reconfigure.Replace, desired, "node02"))
	c.must(err)
	c.must(d.Discard(preview))
}
