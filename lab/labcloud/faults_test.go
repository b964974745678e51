package labcloud_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// order adds a valid fault.
func (f *fixture) order(fault labcloud.Fault) int {
	f.Helper()
	id, err := f.cloud.Faults().Add(fault)
	f.must(err)
	return id
}

func TestAServerGoesToErrorByAFault(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	f.order(labcloud.Fault{Kind: labcloud.NoValidHost, Server: "n[23]", Count: 2})
	for name, want := range map[string]string{"n1": "ACTIVE", "n2": "ERROR", "n3": "ERROR"} {
		s, err := f.create(name)
		f.must(err)
		got := f.await(s.ID, want)
		if want == "ERROR" && (got.Fault.Message != "No valid host was found. " || got.Fault.Code != 500 ||
			len(got.Addresses) != 0) {
			t.Errorf("%s: fault %+v, addresses %v", name, got.Fault, got.Addresses)
		}
	}
	again, err := f.create("n2")
	f.must(err)
	f.await(again.ID, "ACTIVE")
	if left := f.listPorts(ports.ListOpts{}); len(left) != 2 {
		t.Errorf("%d ports, want one for each server that was made", len(left))
	}
}

func TestARebuildFailsByAFault(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	s := f.running("n1")
	f.order(labcloud.Fault{Kind: labcloud.NoValidHost, Server: "n1", Call: "POST servers/{id}/action rebuild"})
	_, err := servers.Rebuild(t.Context(), f.compute, s.ID, servers.RebuildOpts{ImageRef: imageV2}).Extract()
	f.must(err)
	f.await(s.ID, "ERROR")
	_, err = servers.Rebuild(t.Context(), f.compute, s.ID, servers.RebuildOpts{ImageRef: imageV2}).Extract()
	f.must(err)
	f.await(s.ID, "ACTIVE")
}

// TestStuckChangesNeverEnd checks that a server stays in its transient state until the fault is cleared, and that a
// deletion ends a stuck build.
func TestStuckChangesNeverEnd(t *testing.T) {
	const day = 24 * time.Hour
	deletion := step{method: "DELETE", path: "/compute/v2.1/servers/{id}"}
	for _, c := range []struct {
		name   string
		fault  labcloud.Fault
		act    func(*player)
		states []string
	}{
		{"build", labcloud.Fault{Kind: labcloud.StuckBuild, Server: "n1"}, func(*player) {},
			[]string{"BUILD/scheduling", "ACTIVE"}},
		{"a deletion ends it", labcloud.Fault{Kind: labcloud.StuckBuild, Server: "n1"},
			func(p *player) { p.play(deletion) }, []string{"gone", "gone"}},
		{"rebuild", labcloud.Fault{Kind: labcloud.StuckBuild, Call: "POST servers/{id}/action rebuild"},
			func(p *player) { p.act(rebuildTo(imageV2)) }, []string{"REBUILD/rebuilding", "ACTIVE"}},
		{"delete", labcloud.Fault{Kind: labcloud.StuckDelete, Server: "n*"}, func(p *player) { p.play(deletion) },
			[]string{"ACTIVE/deleting", "gone"}},
		{"delete, asked for twice", labcloud.Fault{Kind: labcloud.StuckDelete, Server: "n1"},
			func(p *player) { p.play(deletion); p.play(deletion) }, []string{"ACTIVE/deleting", "gone"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			story(t, &probe{}, labcloud.Timings{}, func(p *player) {
				if _, err := p.cloud.Faults().Add(c.fault); err != nil {
					t.Fatal(err)
				}
				p.create("n1")
				synctest.Wait()
				c.act(p)
				time.Sleep(day)
				stuck := p.states()
				p.cloud.Faults().Clear(0)
				if diff := cmp.Diff(c.states, append(stuck, p.states()...)); diff != "" {
					t.Errorf("states while it is ordered, and then:\n%s", diff)
				}
			})
		})
	}
}

// TestListsHaveNoFaultOfCell0 checks that lists have no fault of a server without a host, so that clients must get the
// server itself. Lists have the fault of a server that had a host.
func TestListsHaveNoFaultOfCell0(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	f.order(labcloud.Fault{Kind: labcloud.NoValidHost, Server: "n1"})
	f.order(labcloud.Fault{Kind: labcloud.NoValidHost, Call: "POST servers/{id}/action rebuild"})
	refused, err := f.create("n1")
	f.must(err)
	rebuilt := f.running("n2")
	_, err = servers.Rebuild(t.Context(), f.compute, rebuilt.ID, servers.RebuildOpts{ImageRef: imageV2}).Extract()
	f.must(err)
	faults := map[string]string{}
	for _, id := range []string{refused.ID, rebuilt.ID} {
		f.await(id, "ERROR")
	}
	pages, err := servers.List(f.compute, nil).AllPages(t.Context())
	f.must(err)
	listed, err := servers.ExtractServers(pages)
	f.must(err)
	for _, s := range listed {
		faults[s.Name] = s.Fault.Message
	}
	if diff := cmp.Diff(map[string]string{"n1": "", "n2": "No valid host was found. "}, faults); diff != "" {
		t.Errorf("faults in the list (-want +got):\n%s", diff)
	}
}

// TestTheThirdCallFails checks that faults count calls.
func TestTheThirdCallFails(t *testing.T) {
	for _, c := range []struct {
		kind labcloud.Kind
		code int
		text string
	}{
		{labcloud.QuotaExceeded, http.StatusForbidden,
			"Quota exceeded for instances: Requested 1, but already used 2 of 2 instances"},
		{labcloud.ServerError, http.StatusInternalServerError, "computeFault"},
		{labcloud.Unavailable, http.StatusServiceUnavailable, "serviceUnavailable"},
		{labcloud.RateLimited, http.StatusTooManyRequests, "overLimit"},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			f := newFixture(t, configuration(), labcloud.Null{})
			f.order(labcloud.Fault{Kind: c.kind, Call: "POST servers", Skip: 2, Seconds: 4})
			for i := 1; i <= 4; i++ {
				_, err := f.create(fmt.Sprintf("n%d", i))
				if i == 3 {
					f.wantCode(err, c.code, c.text)
				} else if err != nil {
					t.Errorf("call %d: %s", i, err)
				}
			}
			if made := len(f.cloud.Servers()); made != 3 {
				t.Errorf("%d servers, want 3: the refused call must make none", made)
			}
		})
	}
}

func TestRateLimitSaysWhenToRetry(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	f.order(labcloud.Fault{Kind: labcloud.RateLimited, Call: "GET limits", Seconds: 3})
	response, text := f.send("GET", "/compute/v2.1/limits", "", "")
	if response.Header.Get("Retry-After") != "3" || !strings.Contains(text, `"retryAfter":"3"`) {
		t.Errorf("Retry-After is %q: %s", response.Header.Get("Retry-After"), text)
	}
}

func TestErrorsOfNeutronHaveItsForm(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	f.order(labcloud.Fault{Kind: labcloud.QuotaExceeded, Call: "POST ports"})
	_, err := f.port(ports.CreateOpts{})
	f.wantCode(err, http.StatusConflict, "Quota exceeded for resources: ['port']")
}

// TestALostAnswerIsOfACallThatIsDone checks a failure after which the client cannot know that the call succeeded.
func TestALostAnswerIsOfACallThatIsDone(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	f.order(labcloud.Fault{Kind: labcloud.LostAnswer, Server: "n1"})
	_, err := f.create("n1")
	if !errors.Is(err, io.EOF) {
		t.Errorf("the client sees %v, want a cut connection", err)
	}
	if made := f.cloud.Servers(); len(made) != 1 || made[0].Name != "n1" {
		t.Errorf("servers: %+v", made)
	}
}

func TestAHangLastsUntilTheClientDisconnects(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	f.order(labcloud.Fault{Kind: labcloud.Hang, Call: "GET limits"})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := limits.Get(ctx, f.compute, nil).Extract()
		failed <- err
	}()
	f.eventually("the call hangs", func() bool { return f.cloud.Faults().List()[0].Hits == 1 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the client sees %v", err)
	}
}

func TestHangEnds(t *testing.T) {
	const path = "/compute/v2.1/limits"
	for name, c := range map[string]struct {
		seconds float64
		release func(*labcloud.Cloud)
		code    int
	}{
		"after its time":     {30, func(*labcloud.Cloud) { time.Sleep(31 * second) }, http.StatusOK},
		"when it is cleared": {0, func(c *labcloud.Cloud) { c.Faults().Clear(0) }, http.StatusOK},
		"with the cloud": {0, func(c *labcloud.Cloud) { _ = c.Close(context.Background()) },
			http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, &probe{}, labcloud.Timings{}, func(p *player) {
				if _, err := p.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.Hang, Call: "GET " + path,
					Seconds: c.seconds}); err != nil {
					t.Fatal(err)
				}
				code := make(chan int, 1)
				go func() { code <- p.play(step{recorded: "hangs", method: "GET", path: path}).Code }()
				time.Sleep(second)
				if len(code) != 0 {
					t.Error("the call does not hang")
				}
				c.release(p.cloud)
				synctest.Wait()
				if len(code) == 0 {
					t.Fatal("the call still hangs")
				}
				if got := <-code; got != c.code {
					t.Errorf("it is answered with %d, want %d", got, c.code)
				}
			})
		})
	}
}

// TestFaultsInsideTheMachineReachTheHypervisor checks that a flag is set for one build and not for the next.
func TestFaultsInsideTheMachineReachTheHypervisor(t *testing.T) {
	h := &probe{}
	story(t, h, labcloud.Timings{}, func(p *player) {
		for _, kind := range []labcloud.Kind{labcloud.NoSSHD, labcloud.NoSlurmd,
			labcloud.NoMunged, labcloud.NeverBoots} {
			if _, err := p.cloud.Faults().Add(labcloud.Fault{Kind: kind, Server: "n1"}); err != nil {
				t.Fatal(err)
			}
		}
		p.create("n1")
		synctest.Wait()
		want := map[string]bool{labcloud.FlagNoSSHD: true, labcloud.FlagNoSlurmd: true, labcloud.FlagNoMunged: true,
			labcloud.FlagNeverBoots: true}
		if diff := cmp.Diff(want, h.machines["n1"].Flags); diff != "" {
			t.Errorf("flags:\n%s", diff)
		}
		p.act(rebuildTo(imageV2))
		synctest.Wait()
		if got := h.machines["n1"]; len(got.Flags) != 0 || got.ImageID != imageV2 {
			t.Errorf("the rebuilt machine: %+v", got)
		}
	})
}

func TestAFaultWithoutEffectIsRefused(t *testing.T) {
	cloud, err := labcloud.New(configuration(), labcloud.Null{})
	if err != nil {
		t.Fatal(err)
	}
	for name, fault := range map[string]labcloud.Fault{
		"no kind":                   {Server: "n1"},
		"unknown kind":              {Kind: "fire", Server: "n1"},
		"strikes everything":        {Kind: labcloud.ServerError},
		"unknown call":              {Kind: labcloud.ServerError, Call: "POST severs"},
		"a call that could be many": {Kind: labcloud.ServerError, Call: "GET {id}"},
		"no build there":            {Kind: labcloud.NoSSHD, Call: "GET servers"},
		"a call for deletions":      {Kind: labcloud.StuckDelete, Server: "n1", Call: "DELETE servers/{id}"},
		"bad pattern":               {Kind: labcloud.ServerError, Server: "["},
		"slow boot without time":    {Kind: labcloud.SlowBoot, Server: "n1"},
		"negative":                  {Kind: labcloud.ServerError, Server: "n1", Skip: -1},
	} {
		if _, err := cloud.Faults().Add(fault); err == nil {
			t.Errorf("%s: %+v was taken", name, fault)
		}
	}
}

// TestFaultsAndCallsOverHTTP checks the paths that the lab's command line uses.
func TestFaultsAndCallsOverHTTP(t *testing.T) {
	f := newFixture(t, configuration(), labcloud.Null{})
	want := func(method, path, body string, code int, words string) {
		t.Helper()
		response, text := f.send(method, path, "", body)
		if response.StatusCode != code || !strings.Contains(text, words) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", method, path, body, response.StatusCode, text, code, words)
		}
	}
	want("POST", "/lab/faults", `{"kind":"quota","server":"n1"}`, http.StatusCreated, `{"id":1}`)
	want("POST", "/lab/faults", `{"kind":"quota","sever":"n1"}`, http.StatusBadRequest, "sever")
	want("POST", "/lab/faults", `{"kind":"hang"}`, http.StatusBadRequest, "neither a server nor a call")
	want("GET", "/lab/faults", "", http.StatusOK, `"call":"POST /compute/v2.1/servers","count":1,"hits":0`)
	_, err := f.create("n1")
	f.wantCode(err, http.StatusForbidden, "Quota exceeded")
	want("GET", "/lab/faults", "", http.StatusOK, `"hits":1`)
	want("DELETE", "/lab/faults/1", "", http.StatusNoContent, "")
	want("DELETE", "/lab/faults/1", "", http.StatusNotFound, "there is no fault 1")
	f.order(labcloud.Fault{Kind: labcloud.Hang, Server: "*"})
	want("DELETE", "/lab/faults", "", http.StatusNoContent, "")
	want("GET", "/lab/faults", "", http.StatusOK, `{"faults":[]}`)

	s := f.running("n1")
	f.must(servers.Reboot(t.Context(), f.compute, s.ID, servers.RebootOpts{Type: servers.SoftReboot}).ExtractErr())
	want("GET", "/lab/calls", "", http.StatusOK, `"POST /compute/v2.1/servers":2`)
	want("GET", "/lab/calls", "", http.StatusOK, `"POST /compute/v2.1/servers/{id}/action reboot":1`)
	want("GET", "/lab/servers", "", http.StatusOK, `"name":"n1"`)
	if calls := f.cloud.Calls(); calls["POST /compute/v2.1/servers"] != 2 {
		t.Errorf("calls: %v", calls)
	}
}
