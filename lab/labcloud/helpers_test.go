package labcloud_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// publicKey is a key whose private half no longer exists.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIpIBPyqOgkM2XD5O5rIfkRy/kyCQjwPK9r2xHg0yCkC nobody"

const (
	imageV1 = "a861c265-9698-4959-bcea-a37fca4395fd"
	imageV2 = "ca65c1bc-63d0-4c42-b3da-b1a9175c78b5"
	absent  = "00000000-0000-0000-0000-000000000000"
)

// configuration is a small cloud in which nothing takes time.
func configuration() labcloud.Config {
	return labcloud.Config{
		Project: "lab", User: "operator", Password: "secret",
		Networks: []labcloud.Network{
			{Name: "cluster", CIDR: netip.MustParsePrefix("10.60.0.0/16"), Gateway: netip.MustParseAddr("10.60.0.1")},
			{Name: "public", CIDR: netip.MustParsePrefix("192.0.2.0/24"), External: true},
		},
		Flavors: []labcloud.Flavor{
			{ID: "flavor-small", Name: "small", VCPUs: 1, RAM: 512, Disk: 1},
			{ID: "flavor-big", Name: "big", VCPUs: 8, RAM: 16384, Disk: 1,
				ExtraSpecs: map[string]string{"hw:cpu_policy": "dedicated"}},
		},
		Images: []labcloud.Image{{ID: imageV1, Name: "node-v1"}, {ID: imageV2, Name: "node-v2"}},
	}
}

// fixture is a cloud behind a server, with gophercloud's clients for it.
type fixture struct {
	*testing.T
	cloud                    *labcloud.Cloud
	url                      string
	compute, network, images *gophercloud.ServiceClient
}

// newFixture starts a cloud and closes it when the test ends. The compute client asks for 2.79, as the product does.
func newFixture(t *testing.T, cfg labcloud.Config, h labcloud.Hypervisor) *fixture {
	t.Helper()
	cloud, err := labcloud.New(cfg, h)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud.Handler())
	f := &fixture{T: t, cloud: cloud, url: server.URL}
	t.Cleanup(func() {
		if err := cloud.Close(context.Background()); err != nil {
			t.Errorf("closing the cloud: %s", err)
		}
		server.Close()
	})
	f.connect(cfg)
	return f
}

// connect makes the clients.
func (f *fixture) connect(cfg labcloud.Config) {
	f.Helper()
	provider, err := openstack.AuthenticatedClient(f.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: f.url + "/identity/v3", Username: cfg.User, Password: cfg.Password,
		DomainName: "Default", TenantName: cfg.Project, AllowReauth: true,
	})
	if err != nil {
		f.Fatal(err)
	}
	region := gophercloud.EndpointOpts{Region: "RegionOne"}
	for _, c := range []struct {
		to   **gophercloud.ServiceClient
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&f.compute, openstack.NewComputeV2}, {&f.network, openstack.NewNetworkV2}, {&f.images, openstack.NewImageV2},
	} {
		if *c.to, err = c.make(provider, region); err != nil {
			f.Fatal(err)
		}
	}
	f.compute.Microversion = "2.79"
}

// create makes a server with the small flavor and image v1.
func (f *fixture) create(name string) (*servers.Server, error) {
	f.Helper()
	networkID := f.networkID("cluster")
	return servers.Create(f.Context(), f.compute, servers.CreateOpts{
		Name: name, ImageRef: imageV1, FlavorRef: "flavor-small",
		Networks: []servers.Network{{UUID: networkID}},
	}, nil).Extract()
}

// running makes a server and waits until it is ACTIVE.
func (f *fixture) running(name string) *servers.Server {
	f.Helper()
	s, err := f.create(name)
	if err != nil {
		f.Fatal(err)
	}
	return f.await(s.ID, "ACTIVE")
}

// await polls until a server has a status and no task.
func (f *fixture) await(id, status string) *servers.Server {
	f.Helper()
	var s *servers.Server
	f.eventually("server is "+status, func() bool {
		var err error
		if s, err = servers.Get(f.Context(), f.compute, id).Extract(); err != nil {
			f.Fatal(err)
		}
		return s.Status == status && s.TaskState == ""
	})
	return s
}

// awaitGone polls until a server does not exist.
func (f *fixture) awaitGone(id string) {
	f.Helper()
	f.eventually("server is gone", func() bool {
		_, err := servers.Get(f.Context(), f.compute, id).Extract()
		return gophercloud.ResponseCodeIs(err, http.StatusNotFound)
	})
}

// eventually polls a condition, for at most two minutes.
func (f *fixture) eventually(what string, condition func() bool) {
	f.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); {
		if time.Now().After(deadline) {
			f.Fatalf("waited in vain: %s", what)
		}
	}
}

// networkID finds a network by its name.
func (f *fixture) networkID(name string) string {
	f.Helper()
	var body struct{ Networks []struct{ ID string } }
	f.get("/network/v2.0/networks?name="+name, &body)
	if len(body.Networks) != 1 {
		f.Fatalf("networks of the name %s: %v", name, body.Networks)
	}
	return body.Networks[0].ID
}

// get makes a GET call with the token and decodes the answer.
func (f *fixture) get(path string, into any) {
	f.Helper()
	if _, err := f.compute.Get(f.Context(), f.url+path, into, nil); err != nil {
		f.Fatal(err)
	}
}

// send makes a call without gophercloud's help, so that it returns the unchanged status, headers and body. The version
// may be empty.
func (f *fixture) send(method, path, version, body string) (*http.Response, string) {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", f.compute.Token())
	if version != "" {
		r.Header.Set("OpenStack-API-Version", "compute "+version)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.Fatal(err)
	}
	return response, string(text)
}

// wantCode fails the test unless the error has this code and a text that contains words.
func (f *fixture) wantCode(err error, code int, words string) {
	f.Helper()
	if !gophercloud.ResponseCodeIs(err, code) || !strings.Contains(err.Error(), words) {
		f.Errorf("got the error %v, want %d with %q", err, code, words)
	}
}

// must stops the test on an error.
func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// flavor finds a flavor by name.
func (f *fixture) flavor(name string) flavors.Flavor {
	f.Helper()
	pages, err := flavors.ListDetail(f.compute, nil).AllPages(f.Context())
	f.must(err)
	all, err := flavors.ExtractFlavors(pages)
	f.must(err)
	for _, flavor := range all {
		if flavor.Name == name {
			return flavor
		}
	}
	f.Fatalf("no flavor %s in %v", name, all)
	return flavors.Flavor{}
}
