package openstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

// TestEveryPageOfTheListIsReadOnce counts allocations: a pager that encodes and decodes each page again makes ten
// times as many.
func TestEveryPageOfTheListIsReadOnce(t *testing.T) {
	const pages, each, most = 3, 200, 100
	var url string
	var texts [pages][]byte
	serving := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var page int
		_, _ = fmt.Sscanf(r.URL.Query().Get("marker"), "page%d", &page) // the first page has no marker
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(texts[page])
	}))
	defer serving.Close()
	url = serving.URL
	for page := range pages {
		list := map[string]any{}
		var all []any
		for i := range each {
			id := fmt.Sprintf("%04d", page*each+i)
			all = append(all, map[string]any{
				"id": id, "name": "node" + id, "status": "ACTIVE", "created": "2026-01-02T03:04:05Z", "hostId": "abc",
				"image": map[string]any{"id": imageV1}, "flavor": map[string]any{"id": "42"},
				"metadata": map[string]any{"eiffel_cluster_id": "x", "eiffel_group": "standard"},
				"addresses": map[string]any{"cluster": []any{map[string]any{
					"addr": "10.0.0.1", "version": 4, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01",
				}}},
				"tenant_id": "t", "user_id": "u", "key_name": "k", "config_drive": "", "progress": 0,
			})
		}
		list["servers"] = all
		if page+1 < pages {
			list["servers_links"] = []any{map[string]any{
				"rel": "next", "href": fmt.Sprintf("%s/servers/detail?marker=page%d", url, page+1),
			}}
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		texts[page] = text
	}
	c := &Client{compute: &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: url + "/"}}
	var found []servers.Server
	allocations := testing.AllocsPerRun(3, func() {
		var err error
		if found, err = c.allServers(t.Context(), servers.ListOpts{}); err != nil {
			t.Fatal(err)
		}
	})
	seen := map[string]bool{}
	for _, s := range found {
		seen[s.ID] = true
	}
	if len(found) != pages*each || len(seen) != pages*each {
		t.Errorf("%d servers with %d ids of %d", len(found), len(seen), pages*each)
	}
	if s := view(found[len(found)-1]); s.Node != "node0599" || s.Address != "10.0.0.1" || s.ImageID != imageV1 {
		t.Errorf("the last server is %+v", s)
	}
	if of := allocations / (pages * each); of > most {
		t.Errorf("%.0f allocations for each server, more than %d", of, most)
	} else {
		t.Logf("%.0f allocations for each server", of)
	}
}
