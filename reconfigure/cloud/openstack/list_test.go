package openstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// listing returns a client of a Nova that lists servers on pages, as microversion 2.46 does. Its transport returns the
// pages at once, so that only the client's work is measured.
func listing(tb testing.TB, pages, each int) *Client {
	tb.Helper()
	const url = "http://nova.example/"
	texts := make([][]byte, pages)
	for page := range pages {
		list := map[string]any{}
		var all []any
		for i := range each {
			id := fmt.Sprintf("%04d", page*each+i)
			links := []any{
				map[string]any{"rel": "self", "href": url + "v2.1/servers/" + id},
				map[string]any{"rel": "bookmark", "href": url + "servers/" + id},
			}
			all = append(all, map[string]any{
				"id": id, "name": "node" + id, "status": "ACTIVE", "created": "2026-01-02T03:04:05Z",
				"updated": "2026-01-02T03:04:15Z", "hostId": "abc", "links": links,
				"image":  map[string]any{"id": imageV1, "links": links[1:]},
				"flavor": map[string]any{"id": "42", "links": links[1:]},
				"metadata": map[string]any{
					"eiffel_cluster": "eiffel", "eiffel_cluster_id": "x", "eiffel_group": "standard",
				},
				"addresses": map[string]any{"cluster": []any{map[string]any{
					"addr": "10.0.0.1", "version": 4, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01",
				}}},
				"tenant_id": "t", "user_id": "u", "key_name": "k", "config_drive": "", "progress": 0,
				"OS-DCF:diskConfig": "MANUAL", "OS-EXT-AZ:availability_zone": "nova", "OS-EXT-STS:power_state": 1,
				"OS-EXT-STS:task_state": nil, "OS-EXT-STS:vm_state": "active", "accessIPv4": "", "accessIPv6": "",
				"OS-SRV-USG:launched_at": "2026-01-02T03:04:15.000000", "OS-SRV-USG:terminated_at": nil,
				"description": nil, "locked": false, "tags": []any{}, "security_groups": []any{map[string]any{"name": "g"}},
				"os-extended-volumes:volumes_attached": []any{}, "host_status": "UP",
			})
		}
		list["servers"] = all
		if page+1 < pages {
			list["servers_links"] = []any{map[string]any{
				"rel": "next", "href": fmt.Sprintf("%sservers/detail?marker=page%d", url, page+1),
			}}
		}
		text, err := json.Marshal(list)
		if err != nil {
			tb.Fatal(err)
		}
		texts[page] = text
	}
	transport := wire(func(r *http.Request) *http.Response {
		var page int
		_, _ = fmt.Sscanf(r.URL.Query().Get("marker"), "page%d", &page) // the first page has no marker
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(bytes.NewReader(texts[page])),
		}
	})
	c := &Client{config: Config{Cluster: "eiffel", Identity: reconfigure.Identity{ID: "x"}}}
	c.compute = &gophercloud.ServiceClient{Endpoint: url, ProviderClient: &gophercloud.ProviderClient{
		HTTPClient: http.Client{Transport: transport}, RetryFunc: c.retry,
	}}
	return c
}

// wire is a transport without a network.
type wire func(*http.Request) *http.Response

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) { return w(r), nil }

// TestEveryPageOfTheListIsReadOnce counts allocations: gophercloud's own type makes four times as many.
func TestEveryPageOfTheListIsReadOnce(t *testing.T) {
	const pages, each, most = 3, 200, 25
	c := listing(t, pages, each)
	var found map[string][]reconfigure.Server
	allocations := testing.AllocsPerRun(3, func() {
		var err error
		if found, err = c.Servers(t.Context(), nodeset.NodeSet{}); err != nil {
			t.Fatal(err)
		}
	})
	if len(found) != pages*each {
		t.Errorf("%d servers of %d", len(found), pages*each)
	}
	want := []reconfigure.Server{{
		ID: "0599", Node: "node0599", Status: reconfigure.ServerActive, Address: "10.0.0.1", ImageID: imageV1,
		FlavorID: "42", Zone: "nova", Group: "standard", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Host: "abc",
	}}
	if diff := cmp.Diff(want, found["node0599"]); diff != "" {
		t.Errorf("the last server: %s", diff)
	}
	if of := allocations / (pages * each); of > most {
		t.Errorf("%.0f allocations for each server, more than %d", of, most)
	} else {
		t.Logf("%.0f allocations for each server", of)
	}
}

func BenchmarkServersOf4000(b *testing.B) {
	c := listing(b, 4, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Servers(b.Context(), nodeset.NodeSet{}); err != nil {
			b.Fatal(err)
		}
	}
}

// A server may boot from a volume, have no address yet, no fault, and fields of a later release.
func TestWhatAServerLacksIsEmpty(t *testing.T) {
	for text, want := range map[string]server{
		`{"id": "1", "image": "", "flavor": null, "addresses": {}, "fault": null}`:  {ID: "1"},
		`{"id": "1", "image": null, "hostid": "not Nova's", "more": [{"id": "2"}]}`: {ID: "1"},
		`{"image": {"links": [{"id": "3"}], "id": "2"}, "fault": {"code": 500, "message": "m"}}`: {
			Image: reference{"2"}, Fault: struct {
				Message string `json:"message"`
			}{"m"},
		},
	} {
		var got struct {
			Server server `json:"server"`
		}
		body := io.NopCloser(strings.NewReader(`{"server": ` + text + `}`))
		if err := decode(&http.Response{Body: body}, &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got.Server.Addresses = nil; !cmp.Equal(want, got.Server) {
			t.Errorf("%s: %s", text, cmp.Diff(want, got.Server))
		}
	}
}

// The connection may end within an answer.
func TestAnAnswerThatEndsEarlyIsAskedForAgain(t *testing.T) {
	c := listing(t, 1, 1)
	whole, calls := c.compute.HTTPClient.Transport, 0
	c.compute.HTTPClient.Transport = wire(func(r *http.Request) *http.Response {
		answer, _ := whole.RoundTrip(r)
		if calls++; calls < 3 {
			answer.Body = io.NopCloser(io.MultiReader(io.LimitReader(answer.Body, int64(calls*20)), ends{}))
		}
		return answer
	})
	c.tempo = tempo{tries: 2, pause: time.Millisecond, longest: time.Millisecond}
	if _, err := c.Servers(t.Context(), nodeset.NodeSet{}); err == nil || calls != 2 {
		t.Errorf("%d calls, error %v", calls, err)
	}
	c.tempo.tries, calls = 3, 0
	if found, err := c.Servers(t.Context(), nodeset.NodeSet{}); err != nil || len(found["node0000"]) != 1 || calls != 3 {
		t.Errorf("%d calls, %v, error %v", calls, found, err)
	}
}

// ends is the end of a body that is shorter than its Content-Length, see net/http.
type ends struct{}

func (ends) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
