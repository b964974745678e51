package openstack

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// TestMachinesAreCalledByNova makes the calls that the driver makes in nova-compute.
func TestMachinesAreCalledByNova(t *testing.T) {
	m := newMachines(labcloud.Null{})
	server, url, err := serve(m)
	check(t, err)
	t.Cleanup(func() { check(t, server.Close()) })
	call := func(method, path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		check(t, err)
		answer, err := http.DefaultClient.Do(r)
		check(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		check(t, err)
		if answer.StatusCode != http.StatusOK {
			return answer.Status
		}
		return string(text)
	}
	const spec = `{"Host":"compute1","ID":"1","Name":"node01","ImageID":"i",` +
		`"Addresses":[{"MAC":"fa:16:3e:00:00:01","Prefix":"10.73.0.9/24","Gateway":""}]}`
	for _, step := range []struct{ method, path, body, want, then string }{
		{"PUT", "/1", spec, "", `{"1":true}`},
		{"POST", "/1/reboot", "", "", `{"1":true}`},
		{"POST", "/1/stop", "", "", `{"1":false}`},
		{"POST", "/1/start", "", "", `{"1":true}`},
		{"GET", "/1/console", "", "this machine has nothing behind it\n", `{"1":true}`},
		{"DELETE", "/1", "", "", `{}`},
		{"POST", "/1/start", "", "500 Internal Server Error", `{}`},
	} {
		if got := call(step.method, step.path, step.body); got != step.want {
			t.Errorf("%s %s: %q, want %q", step.method, step.path, got, step.want)
		}
		if got := call("GET", "/compute1/machines", ""); got != step.then {
			t.Errorf("after %s %s: %s, want %s", step.method, step.path, got, step.then)
		}
	}

	c := &Cloud{machines: m}
	release, err := c.HoldBoots("node01")
	check(t, err)
	booted := make(chan string)
	go func() { booted <- call("PUT", "/2", spec) }()
	select {
	case <-booted:
		t.Error("the boot was not held")
	default:
	}
	release()
	if got := <-booted; got != "" || call("GET", "/compute1/machines", "") != `{"2":true}` {
		t.Errorf("after the release: %q, %s", got, call("GET", "/compute1/machines", ""))
	}

	over := c.BreakHost("compute2")
	for _, host := range []string{"compute1", "compute2"} {
		if got := call("PUT", "/"+host, strings.Replace(spec, "compute1", host, 1)); got != "" {
			t.Error(got)
		}
		if got := m.specs[host].Flags[labcloud.FlagFullDisk]; got != (host == "compute2") {
			t.Errorf("the file system of the machine on %s is full: %v", host, got)
		}
	}
	if got := call("GET", "/compute2/machines", ""); got != `{"compute2":true}` {
		t.Errorf("compute2 has the machines %s", got)
	}
	if got := over(); !slices.Equal(got, []string{"node01"}) {
		t.Errorf("the machines of the broken host are %q", got)
	}
}
