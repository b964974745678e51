package clouds_test

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gophercloudstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/quotasets"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/eiffel-hpc/eiffel/lab/cluster"
	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/openstack"
)

// Failures of the cloud. Each function returns a function that ends the failure, which is also called at the end of the
// test.

// member logs in as the project's user.
func member(t *testing.T) *gophercloud.ProviderClient {
	t.Helper()
	auth, _, _, err := clouds.Parse(clouds.WithCloudName("lab"), clouds.WithLocations(lab.CloudsFile()))
	check(t, err)
	return provider(t, auth)
}

// admin logs in as the cloud's administrator, who on labcloud is the project's user.
func admin(t *testing.T) *gophercloud.ProviderClient {
	t.Helper()
	if real == nil {
		return member(t)
	}
	return provider(t, openstack.Admin())
}

func provider(t *testing.T, auth gophercloud.AuthOptions) *gophercloud.ProviderClient {
	t.Helper()
	auth.AllowReauth = true
	p, err := gophercloudstack.AuthenticatedClient(t.Context(), auth)
	check(t, err)
	return p
}

func compute(t *testing.T, p *gophercloud.ProviderClient) *gophercloud.ServiceClient {
	t.Helper()
	c, err := gophercloudstack.NewComputeV2(p, gophercloud.EndpointOpts{Region: "RegionOne"})
	check(t, err)
	c.Microversion = "2.79"
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until returns a function that is called once: by the test or at its end.
func until(t *testing.T, over func()) func() {
	once := sync.OnceFunc(over)
	t.Cleanup(once)
	return once
}

// noHost lets the scheduler find no host for new servers.
func noHost(t *testing.T) (over func()) {
	t.Helper()
	if real == nil {
		id, err := lab.Cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: "*", Count: 1000})
		check(t, err)
		return until(t, func() { lab.Cloud.Faults().Clear(id) })
	}
	client := compute(t, admin(t))
	pages, err := services.List(client, services.ListOpts{Binary: "nova-compute"}).AllPages(t.Context())
	check(t, err)
	all, err := services.ExtractServices(pages)
	check(t, err)
	set := func(status services.ServiceStatus) {
		ctx := withoutEnd(t)
		for _, s := range all {
			if err := services.Update(ctx, client, s.ID, services.UpdateOpts{Status: status}).Err; err != nil {
				t.Errorf("service %s: %v", s.ID, err)
			}
		}
	}
	set(services.ServiceDisabled)
	return until(t, func() { set(services.ServiceEnabled) })
}

// quotaOf limits the project's number of servers.
func quotaOf(t *testing.T, instances int) (over func()) {
	t.Helper()
	p := member(t)
	result, ok := p.GetAuthResult().(tokens.CreateResult)
	if !ok {
		t.Fatalf("%T", p.GetAuthResult())
	}
	project, err := result.ExtractProject()
	check(t, err)
	client := compute(t, admin(t))
	set := func(most int) error {
		return quotasets.Update(withoutEnd(t), client, project.ID, quotasets.UpdateOpts{Instances: &most}).Err
	}
	check(t, set(instances))
	return until(t, func() {
		if err := set(-1); err != nil {
			t.Error(err)
		}
	})
}

// holdBoots keeps new servers of a node in BUILD.
func holdBoots(t *testing.T, node string) (over func()) {
	t.Helper()
	if real != nil {
		release, err := real.HoldBoots(node)
		check(t, err)
		return until(t, release)
	}
	id, err := lab.Cloud.Faults().Add(labcloud.Fault{Kind: labcloud.StuckBuild, Server: node, Count: 1000})
	check(t, err)
	return until(t, func() { lab.Cloud.Faults().Clear(id) })
}

// tokensOf makes Keystone issue tokens that are valid only for a short time.
func tokensOf(t *testing.T, life time.Duration) (over func()) {
	t.Helper()
	if real != nil {
		check(t, real.SetTokens(int(life.Seconds())))
		return until(t, func() {
			if err := real.SetTokens(int(time.Hour.Seconds())); err != nil {
				t.Error(err)
			}
		})
	}
	var mu sync.Mutex
	seen := map[string]time.Time{}
	lab.Interpose(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token := r.Header.Get("X-Auth-Token")
			mu.Lock()
			first, ok := seen[token]
			if !ok {
				first = time.Now()
				seen[token] = first
			}
			mu.Unlock()
			if token != "" && time.Since(first) > life {
				http.Error(w, `{"error": {"message": "The request you have made requires authentication.", "code": 401}}`,
					http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	return until(t, func() { lab.Interpose(nil) })
}

// awaitExpiry waits until a token that is issued now has expired, and thus all older ones.
func awaitExpiry(t *testing.T) {
	t.Helper()
	p := member(t)
	client := compute(t, p)
	token := p.Token()
	lab.Eventually(t, 2*time.Minute, func() (bool, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, client.ServiceURL("flavors"), nil)
		check(t, err)
		r.Header.Set("X-Auth-Token", token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false, err.Error()
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusUnauthorized, "the token is still accepted: " + answer.Status
	})
}

// outage closes Nova's port; labcloud drops each connection to Nova.
func outage(t *testing.T) (over func()) {
	t.Helper()
	if real != nil {
		check(t, real.Kill("nova-api"))
		return until(t, func() {
			if err := real.Restart("nova-api"); err != nil {
				t.Error(err)
			}
		})
	}
	interposeCompute(func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.Close()
		}
	})
	return until(t, func() { lab.Interpose(nil) })
}

// unavailable puts a load balancer that answers 503 in place of Nova. asked returns the number of reconfigure's
// requests.
func unavailable(t *testing.T) (asked func() int, over func()) {
	t.Helper()
	var mu sync.Mutex
	calls := 0
	refuse := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(r.UserAgent(), "eiffel-reconfigure") {
			calls++
		}
		http.Error(w, "<html><body><h1>503 Service Unavailable</h1>No server is available.</body></html>",
			http.StatusServiceUnavailable)
	}
	asked = func() int {
		mu.Lock()
		defer mu.Unlock()
		return calls
	}
	if real == nil {
		interposeCompute(refuse)
		return asked, until(t, func() { lab.Interpose(nil) })
	}
	check(t, real.Kill("nova-api"))
	listener, err := net.Listen("tcp", openstack.ComputeAddress())
	check(t, err)
	balancer := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(refuse)}
	go func() { _ = balancer.Serve(listener) }() // it ends with Close
	return asked, until(t, func() {
		_ = balancer.Close() // the port is free by then
		if err := real.Restart("nova-api"); err != nil {
			t.Error(err)
		}
	})
}

// interposeCompute replaces the answers to all calls of Nova on labcloud.
func interposeCompute(answer http.HandlerFunc) {
	lab.Interpose(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/compute/") {
				answer(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
}

// addImage adds an image for machines, and returns a function that deletes it in Glance.
func addImage(t *testing.T, name string) (remove func()) {
	t.Helper()
	id := cluster.ImageID(name)
	check(t, lab.Images.Add(id, map[string]string{"/etc/image-release": name + "\n"}))
	if real != nil {
		check(t, real.AddImage(t.Context(), labcloud.Image{ID: id, Name: name}))
	} else {
		check(t, lab.Cloud.AddImage(id, name))
	}
	client, err := gophercloudstack.NewImageV2(admin(t), gophercloud.EndpointOpts{Region: "RegionOne"})
	check(t, err)
	return func() {
		t.Helper()
		check(t, images.Delete(t.Context(), client, id).ExtractErr())
	}
}
