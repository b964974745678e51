package labcloud_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// many is the size of a large cluster.
const many = 4000

// largeCloud returns a cloud with this number of ACTIVE servers.
func largeCloud(tb testing.TB, size int) (*labcloud.Cloud, func(method, path, body string) *httptest.ResponseRecorder) {
	tb.Helper()
	cloud, err := labcloud.New(configuration(), labcloud.Null{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := cloud.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	var token string
	call := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("X-Auth-Token", token)
		w := httptest.NewRecorder()
		cloud.Handler().ServeHTTP(w, r)
		if w.Code >= 400 {
			tb.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return w
	}
	token = call("POST", "/identity/v3/auth/tokens", passwordLogin).Header().Get("X-Subject-Token")
	for i := range size {
		call("POST", "/compute/v2.1/servers", fmt.Sprintf(
			`{"server":{"name":"node%04d","imageRef":%q,"flavorRef":"flavor-small","metadata":{"cluster":"lab"}}}`, i,
			imageV1))
	}
	return cloud, call
}

// BenchmarkCreate4000 makes 4000 servers, each with a port, through the
// handler.
func BenchmarkCreate4000(b *testing.B) {
	for b.Loop() {
		largeCloud(b, many)
	}
}

// BenchmarkList4000 lists them in full, in Nova's pages of 1000.
func BenchmarkList4000(b *testing.B) {
	_, call := largeCloud(b, many)
	for b.Loop() {
		path, pages := "/compute/v2.1/servers/detail", 0
		for ; path != ""; pages++ {
			path = nextPage(call("GET", path, "").Body.String())
		}
		if pages != 4 {
			b.Fatalf("%d pages", pages)
		}
	}
}

// nextPage returns the path of the link to the next page; empty if there is none.
func nextPage(body string) string {
	_, after, found := strings.Cut(body, `"servers_links":[{"href":"http://example.com`)
	if !found {
		return ""
	}
	path, _, _ := strings.Cut(after, `"`)
	return strings.ReplaceAll(path, `\u0026`, "&")
}

// BenchmarkPortByID makes the call that the provider makes for each server it reads.
func BenchmarkPortByID(b *testing.B) {
	_, call := largeCloud(b, many)
	for b.Loop() {
		call("GET", "/network/v2.0/ports?id="+absent, "")
	}
}
