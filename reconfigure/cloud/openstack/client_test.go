package openstack

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

const (
	imageV1 = "a861c265-9698-4959-bcea-a37fca4395fd"
	imageV2 = "ca65c1bc-63d0-4c42-b3da-b1a9175c78b5"
	twinA   = "11111111-9698-4959-bcea-a37fca4395fd"
	twinB   = "22222222-9698-4959-bcea-a37fca4395fd"
	absent  = "00000000-0000-0000-0000-000000000001"
)

// quick is a tempo for a cloud in which nothing takes time.
func quick() tempo {
	return tempo{
		tries: 4, pause: time.Millisecond, longest: 20 * time.Millisecond, answer: 500 * time.Millisecond,
		soonest: time.Millisecond, poll: time.Millisecond, rebooted: 300 * time.Millisecond, gone: 300 * time.Millisecond,
	}
}

// lab is a cloud with a logged-in client.
type lab struct {
	*testing.T
	cloud  *labcloud.Cloud
	file   string // clouds.yaml
	client *Client
	last   atomic.Value // header of the last call
}

func newLab(t *testing.T, h labcloud.Hypervisor) *lab {
	t.Helper()
	return newTimedLab(t, h, labcloud.Timings{Snapshot: time.Hour})
}

func newTimedLab(t *testing.T, h labcloud.Hypervisor, timings labcloud.Timings) *lab {
	t.Helper()
	cloud, err := labcloud.New(labcloud.Config{
		Project: "lab", User: "operator", Password: "secret",
		Networks: []labcloud.Network{
			{Name: "cluster", CIDR: netip.MustParsePrefix("10.60.0.0/16"), Gateway: netip.MustParseAddr("10.60.0.1")},
		},
		Flavors: []labcloud.Flavor{
			{ID: "42", Name: "small", VCPUs: 1, RAM: 512, Disk: 1},
			{ID: "43", Name: "big", VCPUs: 8, RAM: 512, Disk: 1},
		},
		Images: []labcloud.Image{
			{ID: imageV1, Name: "node-v1"}, {ID: imageV2, Name: "node-v2"}, {ID: twinB, Name: "twin"}, {ID: twinA, Name: "twin"},
		},
		Timings: timings,
	}, h)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, cloud: cloud, file: filepath.Join(t.TempDir(), "clouds.yaml")}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.last.Store(r.Header)
		noteQuestion(r)
		cloud.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		cloud.Faults().Clear(0)
		if err := cloud.Close(context.Background()); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	if err := os.WriteFile(l.file, cloud.CloudsYAML("here", server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	config := Config{
		Cloud: "here", CloudsFile: l.file, Cluster: "eiffel", Identity: reconfigure.Identity{ID: "eiffel", Marked: true},
	}
	if l.client, err = connect(t.Context(), config, quick()); err != nil {
		t.Fatal(err)
	}
	return l
}

// order adds a fault.
func (l *lab) order(kind labcloud.Kind, call string, count int) {
	l.Helper()
	if _, err := l.cloud.Faults().Add(labcloud.Fault{Kind: kind, Call: call, Count: count}); err != nil {
		l.Fatal(err)
	}
}

// create makes a server of the cluster with an id and waits until it is ACTIVE. All clusters have the same name.
// Without an id, the server is as earlier versions made it.
func (l *lab) create(name, cluster, status string) *servers.Server {
	l.Helper()
	networks, err := l.client.findNetwork(l.Context(), "cluster")
	if err != nil {
		l.Fatal(err)
	}
	metadata := map[string]string{"eiffel_cluster": "eiffel", "eiffel_group": "standard"}
	if cluster != "" {
		metadata["eiffel_cluster_id"] = cluster
	}
	s, err := servers.Create(l.Context(), l.client.compute, servers.CreateOpts{
		Name: name, ImageRef: imageV1, FlavorRef: "42", Metadata: metadata,
		Networks: []servers.Network{{UUID: networks[0]}},
	}, nil).Extract()
	if err != nil {
		l.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for ; s.Status != status || s.TaskState != ""; time.Sleep(time.Millisecond) {
		if s, err = servers.Get(l.Context(), l.client.compute, s.ID).Extract(); err != nil {
			l.Fatal(err)
		}
		if time.Now().After(deadline) {
			l.Fatalf("%s is %s, not %s", name, s.Status, status)
		}
	}
	return s
}

func TestLogInFindsTheCloudByFileOrEnvironment(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	if _, err := l.client.Fault(t.Context(), absent); err != nil {
		t.Fatal(err)
	}
	header := l.last.Load().(http.Header)
	agent, version := header.Get("User-Agent"), header.Get("OpenStack-API-Version")
	if !strings.HasPrefix(agent, "eiffel-reconfigure ") || version != "compute 2.79" {
		t.Errorf("user agent %q, version %q", agent, version)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", l.file)
	if _, err := New(t.Context(), Config{Cloud: "here"}); err != nil {
		t.Error(err)
	}
	_, err := New(t.Context(), Config{Cloud: "elsewhere"})
	if err == nil || !strings.Contains(err.Error(), `"elsewhere"`) {
		t.Errorf("error %v", err)
	}
	absent := filepath.Join(t.TempDir(), "clouds.yaml")
	if _, err = New(t.Context(), Config{Cloud: "here", CloudsFile: absent}); err == nil {
		t.Error("a named file that does not exist was skipped")
	}
}

func TestPassingFaultsOfTheCloudAreOvercome(t *testing.T) {
	const list = "GET servers/detail"
	for _, kind := range []labcloud.Kind{labcloud.RateLimited, labcloud.ServerError, labcloud.LostAnswer, labcloud.Hang} {
		t.Run(string(kind), func(t *testing.T) {
			l := newLab(t, labcloud.Null{})
			l.create("node1", "eiffel", "ACTIVE")
			l.order(kind, list, 2)
			got, err := l.client.Servers(t.Context(), nodeset.NodeSet{})
			if err != nil || len(got["node1"]) != 1 {
				t.Errorf("servers %v, error %v", got, err)
			}
			if hits := l.cloud.Faults().List()[0].Hits; hits != 2 {
				t.Errorf("the fault struck %d times", hits)
			}
		})
	}
}

func TestFaultsThatDoNotPassAreAnErrorAfterAFewTries(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	l.order(labcloud.ServerError, "GET servers/detail", 100)
	_, err := l.client.Servers(t.Context(), nodeset.NodeSet{})
	if !gophercloud.ResponseCodeIs(err, http.StatusInternalServerError) || !strings.Contains(err.Error(), `cloud "here"`) {
		t.Errorf("error %v", err)
	}
	if hits := l.cloud.Faults().List()[0].Hits; hits != 4 {
		t.Errorf("tried %d times", hits)
	}
}

func TestARefusalIsNotTriedAgain(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	before := l.cloud.Calls()
	if _, err := l.client.Console(t.Context(), absent, 10); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("error %v", err)
	}
	sum := func(calls map[string]int) (n int) {
		for _, count := range calls {
			n += count
		}
		return n
	}
	if n := sum(l.cloud.Calls()) - sum(before); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestCancelEndsACallAndItsRepetitions(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	l.order(labcloud.ServerError, "GET servers/detail", 100)
	l.client.tempo.pause, l.client.tempo.longest = time.Hour, time.Hour
	// On a busy computer, an answer may take longer than the first limit.
	for limit := 50 * time.Millisecond; ; limit *= 4 {
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(limit, cancel)
		_, err := l.client.Servers(ctx, nodeset.NodeSet{})
		stop.Stop()
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		if strings.Contains(err.Error(), "500") {
			return
		}
		if limit > time.Minute {
			t.Fatalf("error %v", err)
		}
	}
}

func TestPauseGrowsIsCappedAndListensToTheCloud(t *testing.T) {
	beat := tempo{pause: time.Second, longest: 30 * time.Second}
	for _, c := range []struct {
		failures uint
		after    string
		min, max time.Duration
	}{
		{1, "", 500 * time.Millisecond, time.Second},
		{3, "", 2 * time.Second, 4 * time.Second},
		{60, "", 15 * time.Second, 30 * time.Second},
		{1, "7", 7 * time.Second, 7 * time.Second},
		{1, "3600", 30 * time.Second, 30 * time.Second},
		{1, "Fri, 20 Nov 2026 12:00:00 GMT", 500 * time.Millisecond, time.Second},
	} {
		err := gophercloud.ErrUnexpectedResponseCode{
			Actual: http.StatusTooManyRequests, ResponseHeader: http.Header{"Retry-After": {c.after}},
		}
		for range 100 {
			if got := pause(beat, c.failures, err); got < c.min || got > c.max {
				t.Errorf("after %d failures, %q: %v", c.failures, c.after, got)
			}
		}
	}
}

// TestARefusedConnectionIsToldBeforeTheCallersTimeEnds uses a caller whose time ends before the next attempt.
func TestARefusedConnectionIsToldBeforeTheCallersTimeEnds(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	text := "clouds: {here: {auth: {auth_url: '" + closed.URL + "/v3', username: me, password: secret, project_name: p, " +
		"user_domain_name: d, project_domain_name: d}}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	slow := quick()
	slow.tries, slow.pause, slow.longest = 5, time.Hour, time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := connect(ctx, Config{Cloud: "here", CloudsFile: file}, slow)
	if want := `log in to cloud "here": connection refused`; err == nil || err.Error() != want || ctx.Err() != nil {
		t.Errorf("%v (%v), want %s", err, ctx.Err(), want)
	}
}

// TestAnAnswerWithoutADateHasNoTime tests a server without a clock (RFC 9110, 6.6.1).
func TestAnAnswerWithoutADateHasNoTime(t *testing.T) {
	for _, date := range [][]string{nil, {"Mon, 02 Mar 2026 10:00:00 GMT"}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Date"] = date
			_, _ = w.Write([]byte(`{"limits": {}}`))
		}))
		defer server.Close()
		c := &Client{compute: &gophercloud.ServiceClient{
			ProviderClient: &gophercloud.ProviderClient{}, Endpoint: server.URL + "/",
		}}
		now, err := c.Clock(t.Context())
		if err != nil || now.IsZero() != (date == nil) {
			t.Errorf("Date %v: %s, %v", date, now, err)
		}
	}
}

// TestTheImageOfAnInterruptedShelveIsRemoved uses images with that name from two servers.
func TestTheImageOfAnInterruptedShelveIsRemoved(t *testing.T) {
	l := newLab(t, labcloud.Null{})
	one, other := l.create("node01", "eiffel", "ACTIVE"), l.create("node01", "eiffel", "ACTIVE")
	for _, image := range []struct{ server, name string }{
		{one.ID, "node01-shelved"}, {other.ID, "node01-shelved"},
	} {
		if err := servers.CreateImage(t.Context(), l.client.compute, image.server,
			servers.CreateImageOpts{Name: image.name}).Err; err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"node01-shelved", ""} {
		name, err := l.client.RemoveShelvedImage(t.Context(), reconfigure.Instance{Node: "node01", ID: one.ID})
		if err != nil || name != want {
			t.Errorf("%q, %v, want %q", name, err, want)
		}
	}
	all, err := l.client.Images(t.Context())
	left := map[string]int{}
	for _, image := range all {
		left[image.Name]++
	}
	if err != nil || left["node01-shelved"] != 1 {
		t.Errorf("left are %v (%v)", left, err)
	}
}
