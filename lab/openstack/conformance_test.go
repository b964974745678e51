package openstack

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/cloudtest"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// TestItAnswersAsTheLabsChecksSay runs the checks that labcloud also passes.
func TestItAnswersAsTheLabsChecksSay(t *testing.T) {
	released(t)
	t.Attr("scenario", "the checks of `lab/cloudtest`, which labcloud passes too")
	t.Run("cloud", func(t *testing.T) {
		start(t)
		cloud, err := cloudtest.Connect(t.Context(), "openstack", Member(defaults()), Admin())
		if err != nil {
			t.Fatal(err)
		}
		cloudtest.Run(t, cloud)
	})
	nothingIsLeft(t)
}

// defaults is the configuration that the checks of package cloudtest need.
func defaults() labcloud.Config {
	return labcloud.Config{
		Project: "lab", User: "operator", Password: "secret",
		Networks: []labcloud.Network{{Name: "cluster", CIDR: netip.MustParsePrefix("10.60.0.0/16")}},
		Flavors: []labcloud.Flavor{
			{Name: "small", VCPUs: 1, RAM: 512, Disk: 1}, {Name: "big", VCPUs: 8, RAM: 16384, Disk: 1},
			// No host is large enough.
			{Name: "huge", VCPUs: 1 << 20, RAM: 1 << 30, Disk: 1},
		},
		Images: []labcloud.Image{{Name: "node-v1"}, {Name: "node-v2"}},
	}
}

// start starts a cloud without machines for a test.
func start(t testing.TB) *Cloud {
	t.Helper()
	needs.Lab(t)
	cfg := defaults()
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	c, err := New(t.Context(), cfg, nil)
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Errors())
		}
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
