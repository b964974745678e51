package labcloud_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// probe is a hypervisor that records its calls, and checks that there are never two changes of one machine at a time.
type probe struct {
	// slow is the duration of each change, unless its context ends.
	slow time.Duration

	mu       sync.Mutex
	calls    []string
	machines map[string]labcloud.Machine
	busy     map[string]bool
	overlaps int
	fail     map[string]error // by method
}

func (p *probe) do(ctx context.Context, method, id, detail string) error {
	p.mu.Lock()
	if p.busy == nil {
		p.busy, p.machines = map[string]bool{}, map[string]labcloud.Machine{}
	}
	if p.busy[id] {
		p.overlaps++
	}
	p.busy[id] = true
	p.mu.Unlock()

	var err error
	select {
	case <-time.After(p.slow):
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy[id] = false
	p.calls = append(p.calls, strings.TrimSpace(method+" "+detail))
	if p.fail[method] != nil {
		return p.fail[method]
	}
	return err
}

func (p *probe) keep(m labcloud.Machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.machines[m.Name] = m
}

func (p *probe) Boot(ctx context.Context, m labcloud.Machine) error {
	defer p.keep(m)
	return p.do(ctx, "boot", m.ID, m.ImageID)
}

func (p *probe) Rebuild(ctx context.Context, m labcloud.Machine) error {
	defer p.keep(m)
	return p.do(ctx, "rebuild", m.ID, m.ImageID)
}

func (p *probe) Reboot(ctx context.Context, id string, hard bool) error {
	return p.do(ctx, "reboot", id, fmt.Sprint("hard=", hard))
}
func (p *probe) Stop(ctx context.Context, id string) error    { return p.do(ctx, "stop", id, "") }
func (p *probe) Destroy(ctx context.Context, id string) error { return p.do(ctx, "destroy", id, "") }
func (p *probe) Console(_ string, lines int) (string, error) {
	return fmt.Sprintf("the last %d lines", lines), nil
}

func (p *probe) Snapshot(ctx context.Context, id, _ string) error {
	return p.do(ctx, "snapshot", id, "")
}

// passwordLogin is a request for a token without a project.
const passwordLogin = `{"auth":{"identity":{"methods":["password"],` +
	`"password":{"user":{"name":"operator","password":"secret","domain":{"name":"Default"}}}}}}`

// story runs steps on a cloud in a bubble of synctest.
func story(t *testing.T, h *probe, timings labcloud.Timings, tell func(*player)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := configuration()
		cfg.Timings = timings
		cloud, err := labcloud.New(cfg, h)
		if err != nil {
			t.Fatal(err)
		}
		p := &player{t: t, cloud: cloud, replace: map[string]string{}}
		p.play(step{method: "POST", path: "/identity/v3/auth/tokens", body: passwordLogin})
		p.play(step{method: "GET", path: "/network/v2.0/networks?name=cluster"})
		tell(p)
		p.close()
		if h.overlaps > 0 {
			t.Errorf("the hypervisor had two changes of one machine at a time, %d times", h.overlaps)
		}
	})
}

// create creates a server with all properties that its machine gets.
func (p *player) create(name string) {
	p.t.Helper()
	p.play(step{method: "POST", path: "/compute/v2.1/servers", body: fmt.Sprintf(
		`{"server":{"name":%q,"imageRef":%q,"flavorRef":"flavor-small","networks":[{"uuid":"{network}"}],`+
			`"metadata":{"group":"a"},"user_data":"aGVsbG8="}}`,
		name, imageV1)})
}

// act carries out an action on the last server.
func (p *player) act(body string) {
	p.t.Helper()
	p.play(step{method: "POST", path: "/compute/v2.1/servers/{id}/action", body: body})
}

// states returns the successive statuses of the last server. It reads them once a second, for longer than any change
// takes here.
func (p *player) states() []string {
	var seen []string
	for range 20 {
		synctest.Wait()
		now := "gone"
		if all := p.cloud.Servers(); len(all) > 0 {
			now = all[len(all)-1].Status
			if task := all[len(all)-1].Task; task != "" {
				now += "/" + task
			}
		}
		if len(seen) == 0 || seen[len(seen)-1] != now {
			seen = append(seen, now)
		}
		time.Sleep(second)
	}
	return seen
}

// TestServerPassesThroughNovasStates checks for each change the states that a client sees and the calls of the
// hypervisor.
func TestServerPassesThroughNovasStates(t *testing.T) {
	rebuild := rebuildTo(imageV2)
	for _, c := range []struct {
		name         string
		before       []string // actions that end before the one under test
		action       string   // empty is the creation, "DELETE" the deletion
		states, asks []string
	}{
		{"create", nil, "", []string{"BUILD/scheduling", "ACTIVE"}, []string{"boot " + imageV1}},
		{"soft reboot", nil, `{"reboot":{"type":"SOFT"}}`, []string{"REBOOT/rebooting", "ACTIVE"},
			[]string{"reboot hard=false"}},
		{"hard reboot", nil, `{"reboot":{"type":"HARD"}}`, []string{"HARD_REBOOT/rebooting_hard", "ACTIVE"},
			[]string{"reboot hard=true"}},
		{"rebuild", nil, rebuild, []string{"REBUILD/rebuilding", "ACTIVE"}, []string{"rebuild " + imageV2}},
		{"rebuild of a stopped server", []string{`{"os-stop":null}`}, rebuild,
			[]string{"REBUILD/rebuilding", "SHUTOFF"}, []string{"rebuild " + imageV2, "stop"}},
		{"stop", nil, `{"os-stop":null}`, []string{"ACTIVE/powering-off", "SHUTOFF"}, []string{"stop"}},
		{"start", []string{`{"os-stop":null}`}, `{"os-start":null}`, []string{"SHUTOFF/powering-on", "ACTIVE"},
			[]string{"boot " + imageV1}},
		{"shelve", nil, `{"shelve":null}`, []string{"ACTIVE/shelving", "SHELVED_OFFLOADED"}, []string{"stop"}},
		{"shelve of a stopped server", []string{`{"os-stop":null}`}, `{"shelve":null}`,
			[]string{"SHUTOFF/shelving", "SHELVED_OFFLOADED"}, []string{"stop"}},
		{"unshelve", []string{`{"shelve":null}`}, `{"unshelve":null}`,
			[]string{"SHELVED_OFFLOADED/unshelving", "ACTIVE"}, []string{"boot " + imageV1}},
		{"resize", nil, `{"resize":{"flavorRef":"flavor-big"}}`, []string{"RESIZE/resize_prep", "VERIFY_RESIZE"},
			[]string{"stop", "boot " + imageV1}},
		{"confirm", []string{`{"resize":{"flavorRef":"flavor-big"}}`}, `{"confirmResize":null}`,
			[]string{"ACTIVE"}, nil},
		{"revert", []string{`{"resize":{"flavorRef":"flavor-big"}}`}, `{"revertResize":null}`,
			[]string{"REVERT_RESIZE/resize_reverting", "ACTIVE"}, []string{"stop", "boot " + imageV1}},
		{"snapshot", nil, `{"createImage":{"name":"snap"}}`, []string{"ACTIVE/image_snapshot", "ACTIVE"},
			[]string{"snapshot"}},
		{"delete", nil, "DELETE", []string{"ACTIVE/deleting", "gone"}, []string{"destroy"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &probe{}
			all := labcloud.Timings{Build: second, Rebuild: second, Reboot: second, Resize: second, Delete: second,
				Power: second, Snapshot: second}
			story(t, h, all, func(p *player) {
				p.create("n1")
				if c.action != "" {
					p.states()
					for _, action := range c.before {
						p.act(action)
						p.states()
					}
					h.calls = nil
					if c.action == "DELETE" {
						p.play(step{method: "DELETE", path: "/compute/v2.1/servers/{id}"})
					} else {
						p.act(c.action)
					}
				}
				if diff := cmp.Diff(c.states, p.states()); diff != "" {
					t.Errorf("states:\n%s", diff)
				}
				if diff := cmp.Diff(c.asks, h.calls, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("hypervisor:\n%s", diff)
				}
			})
		})
	}
}

// TestStatesLastAsConfigured checks that a state lasts its time and no longer.
func TestStatesLastAsConfigured(t *testing.T) {
	story(t, &probe{}, labcloud.Timings{Build: 30 * second}, func(p *player) {
		p.create("n1")
		time.Sleep(30*second - time.Millisecond)
		if got := p.cloud.Servers()[0].Status; got != "BUILD" {
			t.Errorf("just before the time: %s", got)
		}
		time.Sleep(2 * time.Millisecond)
		if got := p.cloud.Servers()[0].Status; got != "ACTIVE" {
			t.Errorf("just after the time: %s", got)
		}
	})
}

// TestAMachineGetsAllProperties checks the argument of Boot.
func TestAMachineGetsAllProperties(t *testing.T) {
	h := &probe{}
	story(t, h, labcloud.Timings{}, func(p *player) {
		p.play(step{method: "POST", path: "/compute/v2.1/os-keypairs",
			body: fmt.Sprintf(`{"keypair":{"name":"lab","public_key":%q}}`, publicKey)})
		if _, err := p.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.SlowBoot, Server: "n1",
			Seconds: 7}); err != nil {
			t.Fatal(err)
		}
		p.play(step{method: "POST", path: "/compute/v2.1/servers", body: fmt.Sprintf(
			`{"server":{"name":"n1","imageRef":%q,"flavorRef":"flavor-small","key_name":"lab",`+
				`"networks":[{"uuid":"{network}"}],"metadata":{"group":"a"},"user_data":"aGVsbG8="}}`, imageV1)})
		synctest.Wait()
		want := labcloud.Machine{
			Name: "n1", ImageID: imageV1, AuthorizedKeys: []string{publicKey}, UserData: []byte("hello"),
			Addresses: []labcloud.Address{{
				Prefix:  netip.MustParsePrefix("10.60.0.2/16"), // .1 is the gateway
				Gateway: netip.MustParseAddr("10.60.0.1"),
			}},
			Metadata: map[string]string{"group": "a"}, Flags: map[string]bool{labcloud.FlagSlowBoot: true},
			BootDelay: 7 * second,
		}
		got := h.machines["n1"]
		if got.ID == "" || !strings.HasPrefix(got.Addresses[0].MAC, "fa:16:3e:") {
			t.Errorf("the machine's id or MAC address is missing: %+v", got)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(labcloud.Machine{}, "ID"),
			cmpopts.IgnoreFields(labcloud.Address{}, "MAC"),
			cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
			t.Errorf("the machine (-want +got):\n%s", diff)
		}
	})
}

// TestDeletionInterruptsWhatIsUnderWay checks that a server can be deleted at any time, and that its machine is
// destroyed when the interrupted change has ended.
func TestDeletionInterruptsWhatIsUnderWay(t *testing.T) {
	for _, under := range []string{"", `{"reboot":{"type":"SOFT"}}`, rebuildTo(imageV2),
		`{"resize":{"flavorRef":"flavor-big"}}`, `{"createImage":{"name":"snap"}}`} {
		t.Run(under, func(t *testing.T) {
			h := &probe{slow: 5 * time.Minute}
			story(t, h, labcloud.Timings{}, func(p *player) {
				p.create("n1")
				if under != "" {
					time.Sleep(10 * time.Minute)
					p.act(under)
				}
				synctest.Wait() // until the hypervisor has begun
				p.play(step{method: "DELETE", path: "/compute/v2.1/servers/{id}"})
				time.Sleep(10 * time.Minute)
				if left := p.cloud.Servers(); len(left) > 0 {
					t.Fatalf("left: %+v", left)
				}
				if last := h.calls[len(h.calls)-1]; last != "destroy" {
					t.Errorf("the hypervisor was last asked to %s", last)
				}
				limits := p.play(step{method: "GET", path: "/compute/v2.1/limits"}).Body.String()
				if !strings.Contains(limits, `"totalCoresUsed":0`) ||
					!strings.Contains(limits, `"totalInstancesUsed":0`) {
					t.Errorf("quota is still used: %s", limits)
				}
				if ports := p.play(step{method: "GET",
					path: "/network/v2.0/ports"}).Body.String(); ports != `{"ports":[]}` {
					t.Errorf("ports: %s", ports)
				}
				if images := p.play(step{method: "GET",
					path: "/image/v2/images?name=snap"}).Body.String(); !strings.Contains(images, `"images":[]`) {
					t.Errorf("the interrupted snapshot left an image: %s", images)
				}
			})
		})
	}
}

// TestHypervisorsFailureBecomesError checks each change that can fail.
func TestHypervisorsFailureBecomesError(t *testing.T) {
	broken := errors.New("the disk is full")
	for method, action := range map[string]string{
		"boot": "", "reboot": `{"reboot":{"type":"HARD"}}`, "stop": `{"os-stop":null}`,
		"rebuild": rebuildTo(imageV2), "destroy": "DELETE",
	} {
		t.Run(method, func(t *testing.T) {
			h := &probe{fail: map[string]error{}}
			story(t, h, labcloud.Timings{}, func(p *player) {
				if action == "" {
					h.fail[method] = broken
				}
				p.create("n1")
				synctest.Wait()
				h.fail[method] = broken
				switch action {
				case "":
				case "DELETE":
					p.play(step{method: "DELETE", path: "/compute/v2.1/servers/{id}"})
				default:
					p.act(action)
				}
				synctest.Wait()
				got := p.cloud.Servers()[0]
				if got.Status != "ERROR" || !strings.Contains(got.Fault, broken.Error()) {
					t.Errorf("the server is %+v", got)
				}
				// The server can be deleted.
				delete(h.fail, method)
				p.play(step{method: "DELETE", path: "/compute/v2.1/servers/{id}"})
				synctest.Wait()
				if left := p.cloud.Servers(); len(left) > 0 {
					t.Errorf("left: %+v", left)
				}
			})
		})
	}
}

// TestHardRebootWaitsForSoftOne checks the one change besides deletion that may
// follow another before its end.
func TestHardRebootWaitsForSoftOne(t *testing.T) {
	h := &probe{slow: second}
	story(t, h, labcloud.Timings{}, func(p *player) {
		p.create("n1")
		time.Sleep(5 * second)
		p.act(`{"reboot":{"type":"SOFT"}}`)
		synctest.Wait()
		p.act(`{"reboot":{"type":"HARD"}}`)
		if got := p.cloud.Servers()[0].Status; got != "HARD_REBOOT" {
			t.Errorf("status %s", got)
		}
		time.Sleep(1500 * time.Millisecond)
		if got := p.cloud.Servers()[0].Status; got != "HARD_REBOOT" {
			t.Errorf("status when the soft reboot has ended: %s", got)
		}
		time.Sleep(5 * second)
		if got := p.cloud.Servers()[0].Status; got != "ACTIVE" {
			t.Errorf("status afterwards %s", got)
		}
		if !slices.Equal(h.calls[1:], []string{"reboot hard=false", "reboot hard=true"}) {
			t.Errorf("the hypervisor was called: %v", h.calls)
		}
	})
}

// TestCloseDestroysEverything checks that Close interrupts changes, destroys machines and refuses later calls.
func TestCloseDestroysEverything(t *testing.T) {
	h := &probe{slow: time.Minute}
	story(t, h, labcloud.Timings{Build: time.Hour}, func(p *player) {
		p.create("n1")
		p.create("n2")
		synctest.Wait()
		if err := p.cloud.Close(p.t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(h.calls, []string{"destroy", "destroy"}) {
			t.Errorf("the hypervisor was called: %v", h.calls)
		}
		got := p.play(step{recorded: "after the end", method: "GET", path: "/compute/v2.1/servers"})
		if got.Code != http.StatusServiceUnavailable {
			t.Errorf("a call after Close is answered with %d", got.Code)
		}
	})
}

// TestCloseEndsWithItsContext checks that the error names the remaining machines.
func TestCloseEndsWithItsContext(t *testing.T) {
	h := &probe{}
	story(t, h, labcloud.Timings{}, func(p *player) {
		p.create("n1")
		synctest.Wait()
		h.slow = time.Hour
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
		defer cancel()
		if err := p.cloud.Close(ctx); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "destroying") {
			t.Errorf("Close: %v", err)
		}
	})
}
