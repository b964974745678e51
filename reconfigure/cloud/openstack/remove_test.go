package openstack

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

func TestRemoveServerRemovesJustThatServer(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	orphan, twin := l.create("node1", "eiffel", "ACTIVE"), l.create("node1", "eiffel", "ACTIVE")
	for range 2 { // the second time it no longer exists
		if err := l.client.RemoveServer(t.Context(), orphan.ID, "node1", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := servers.Get(t.Context(), l.client.compute, orphan.ID).Extract(); !gophercloud.ResponseCodeIs(err, 404) {
		t.Errorf("the orphan exists: %v", err)
	}
	if _, err := servers.Get(t.Context(), l.client.compute, twin.ID).Extract(); err != nil {
		t.Errorf("the other server with its name was removed: %v", err)
	}
}

func TestRemoveServerLooksOnceMore(t *testing.T) {
	for name, test := range map[string]struct {
		cluster, want string
		before        time.Duration
	}{
		"of another cluster":          {"another", "does not have the id", time.Hour},
		"of the cluster's name alone": {"", "does not have the id", time.Hour},
		"of another name":             {"eiffel", "its name is", time.Hour},
		"too young":                   {"eiffel", "too recent", -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, labcloud.Null{})
			is := "node1"
			if strings.Contains(test.want, "name") {
				is = "node2"
			}
			s := l.create(is, test.cluster, "ACTIVE")
			err := l.client.RemoveServer(t.Context(), s.ID, "node1", time.Now().Add(test.before))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v", err)
			}
			if _, err := servers.Get(t.Context(), l.client.compute, s.ID).Extract(); err != nil {
				t.Errorf("it is gone: %v", err)
			}
		})
	}
}

// stayer is a hypervisor that never removes its machines.
type stayer struct {
	labcloud.Null
	end chan struct{}
}

func (s stayer) Destroy(ctx context.Context, id string) error {
	<-s.end
	return nil
}

func TestRemoveServerSaysThatItIsStillThere(t *testing.T) {
	s := stayer{end: make(chan struct{})}
	l := newLab(t, s)
	defer close(s.end)
	orphan := l.create("node1", "eiffel", "ACTIVE")
	err := l.client.RemoveServer(t.Context(), orphan.ID, "node1", time.Now().Add(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "still exists") {
		t.Errorf("error %v", err)
	}
}
