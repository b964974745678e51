package openstack

import (
	"math"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/cloudtest"
)

// TestClientKnowsTheQuota tests the client with the contract's suite. Each server belongs to another cluster.
func TestClientKnowsTheQuota(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	cloudtest.TestQuota(t, cloudtest.QuotaSetup{
		Quota: l.client, Flavor: "42", Takes: reconfigure.Use{Instances: 1, Cores: 1, RAM: 512},
		Make:  func(node string) { l.create(node, "of-"+node, "ACTIVE") },
		Limit: l.limit,
	})
}

// limit sets the project's quota, as the cloud's administrator would.
func (l *lab) limit(u reconfigure.Use) {
	l.cloud.SetQuotas(labcloud.Quotas{Instances: u.Instances, Cores: u.Cores, RAM: u.RAM})
}

func TestTheErrorOfRoomHasItsClass(t *testing.T) {
	for kind, class := range map[labcloud.Kind]reconfigure.Class{
		labcloud.RateLimited: reconfigure.ClassRateLimit, labcloud.ServerError: reconfigure.ClassCloud,
	} {
		l := newLab(t, labcloud.Null{})
		l.order(kind, "GET limits", 100)
		if room, err := l.client.Room(t.Context()); reconfigure.ClassOf(err) != class {
			t.Errorf("%s: %+v, error of class %s: %v", kind, room, reconfigure.ClassOf(err), err)
		}
	}
}

func TestHowManyPortsAreFree(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	l.create("node01", "of-node01", "ACTIVE") // with a port
	for limit, want := range map[int]int{7: 6, 1: 0, 0: math.MaxInt} {
		l.cloud.SetQuotas(labcloud.Quotas{Ports: limit})
		if got, err := l.client.FreePorts(t.Context()); got != want || err != nil {
			t.Errorf("of %d there are %d, %v; want %d", limit, got, err, want)
		}
	}
	l.order(labcloud.ServerError, "GET quotas/{id}/details.json", 100)
	if got, err := l.client.FreePorts(t.Context()); reconfigure.ClassOf(err) != reconfigure.ClassCloud {
		t.Errorf("%d, error of class %s: %v", got, reconfigure.ClassOf(err), err)
	}
}

func TestFlavorsAreKnownByIDAndByName(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	got, err := l.client.Flavors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, flavor := range []string{"43", "big"} {
		if want := (reconfigure.Use{Instances: 1, Cores: 8, RAM: 512}); got[flavor] != want {
			t.Errorf("flavor %s is %+v, not %+v", flavor, got[flavor], want)
		}
	}
	want := reconfigure.Hardware{CPUs: 4, RealMemory: 7654}
	if got := reconfigure.HardwareOf(reconfigure.Use{Cores: 4, RAM: 8192}); got != want {
		t.Errorf("its hardware is %+v", got)
	}
	l.order(labcloud.ServerError, "GET flavors/detail", 100)
	if _, err := l.client.Flavors(t.Context()); reconfigure.ClassOf(err) != reconfigure.ClassCloud {
		t.Errorf("the error is of class %s: %v", reconfigure.ClassOf(err), err)
	}
}
