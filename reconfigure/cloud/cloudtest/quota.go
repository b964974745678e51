package cloudtest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// QuotaSetup is a cloud without instances, and ways for a test to change it from outside.
type QuotaSetup struct {
	Quota operation.Quota
	// Make makes an instance, of any owner, with a flavor of this id and size.
	Make   func(node string)
	Flavor string
	Takes  reconfigure.Use
	// Limit sets the quota of the project. A negative value means no limit.
	Limit func(reconfigure.Use)
}

// TestQuota checks the contract of operation.Quota.
func TestQuota(t *testing.T, h QuotaSetup) {
	want := func(limit, used reconfigure.Use) {
		t.Helper()
		room, err := h.Quota.Room(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]reconfigure.Use{limit, used, h.Takes}, []reconfigure.Use{
			room.Limit, room.Used, room.Takes(h.Flavor),
		}); diff != "" {
			t.Errorf("limit, use and flavor (-want +got):\n%s", diff)
		}
	}
	none := reconfigure.Use{Instances: -1, Cores: -1, RAM: -1}
	want(none, reconfigure.Use{})
	h.Make("node1")
	some := reconfigure.Use{Instances: 12, Cores: -1, RAM: 98304}
	h.Limit(some)
	h.Make("node2")
	want(some, h.Takes.Plus(h.Takes))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if room, err := h.Quota.Room(ctx); err == nil {
		t.Errorf("the context is done, and there is %+v", room)
	}
}
