package labcloud_test

import (
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/eiffel-hpc/eiffel/lab/cloudtest"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// TestItAnswersAsOpenStackDoes runs the checks that a real OpenStack passes too.
func TestItAnswersAsOpenStackDoes(t *testing.T) {
	t.Attr("scenario", "the checks of `lab/cloudtest`, which a real OpenStack passes too")
	cfg := configuration()
	cfg.Flavors = append(cfg.Flavors, labcloud.Flavor{Name: "huge", VCPUs: 1 << 20, RAM: 1 << 30, Disk: 1})
	// Long enough to observe some of the transient states.
	const short = 50 * time.Millisecond
	cfg.Timings = labcloud.Timings{Build: short, Rebuild: short, Reboot: short, Resize: short, Delete: short,
		Power: short, Snapshot: short}
	f := newFixture(t, cfg, labcloud.Null{})
	if _, err := f.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: "no-host"}); err != nil {
		t.Fatal(err)
	}
	login := gophercloud.AuthOptions{
		IdentityEndpoint: f.url + "/identity/v3", Username: cfg.User, Password: cfg.Password, DomainName: "Default",
		TenantName: cfg.Project, AllowReauth: true,
	}
	cloud, err := cloudtest.Connect(t.Context(), "labcloud", login, login)
	if err != nil {
		t.Fatal(err)
	}
	cloudtest.Run(t, cloud)
}
