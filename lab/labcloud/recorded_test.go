package labcloud_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
)

// recording has the answers of a real OpenStack (Zed). Lists have only their first item.
type recording struct {
	Status  int      `json:"status"`
	Headers []string `json:"headers"`
	Body    any      `json:"body"`
}

// step is one call of a replay. In it, {id} stands for the last server, and {project} and {network} for their ids.
type step struct {
	// recorded is the name of the recording, or of another purpose for which the answer is checked; empty for a
	// call that only has to succeed.
	recorded                    string
	method, path, version, body string
	// after is the delay before the call.
	after time.Duration
	// anonymous calls have no token.
	anonymous bool
}

const second = time.Second

// ours are additional keys in our answers, from extensions that the recorded cloud had not loaded. Owners may give
// images properties, so "owner_specified" occurs only in the recorded answers.
var (
	ours   = regexp.MustCompile(`port_security_enabled$`)
	theirs = regexp.MustCompile(`owner_specified`)
	ids    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
)

// TestAnswersHaveTheShapeOfRecordedOnes replays the calls to a real OpenStack and compares status, headers, and the
// body's keys with the types of their values, and for errors also the text.
func TestAnswersHaveTheShapeOfRecordedOnes(t *testing.T) {
	text, err := os.ReadFile("testdata/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded map[string]recording
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(t)
		for _, s := range replay() {
			got := p.play(s)
			if s.recorded == "" {
				continue
			}
			want, found := recorded[s.recorded]
			if !found {
				t.Fatalf("there is no recording %q", s.recorded)
			}
			delete(recorded, s.recorded)
			compare(t, s.recorded, want, got)
		}
		p.close()
	})
	if len(recorded) > 0 {
		t.Errorf("recordings that no step replays: %v", slices.Sorted(maps.Keys(recorded)))
	}
}

// compare checks one answer against its recording.
func compare(t *testing.T, name string, want recording, got *httptest.ResponseRecorder) {
	t.Helper()
	if got.Code != want.Status {
		t.Errorf("%s: status %d, want %d: %s", name, got.Code, want.Status, got.Body)
		return
	}
	for _, header := range want.Headers {
		if got.Header().Get(header) == "" {
			t.Errorf("%s: no header %s", name, header)
		}
	}
	var body any
	if got.Body.Len() > 0 {
		if err := json.Unmarshal(got.Body.Bytes(), &body); err != nil {
			t.Errorf("%s: %s", name, err)
			return
		}
	}
	if want.Status >= 400 {
		if diff := cmp.Diff(words(want.Body), words(body)); diff != "" {
			t.Errorf("%s: refusal (-recorded +ours):\n%s", name, diff)
		}
		return
	}
	wantShape, gotShape := shape(want.Body), shape(body)
	maps.DeleteFunc(wantShape, func(path, _ string) bool { return theirs.MatchString(path) })
	maps.DeleteFunc(gotShape, func(path, _ string) bool { return ours.MatchString(path) })
	if diff := cmp.Diff(wantShape, gotShape); diff != "" {
		t.Errorf("%s: shape (-recorded +ours):\n%s", name, diff)
	}
}

// words returns an error's text with its ids made equal.
func words(body any) string {
	text, _ := json.Marshal(body)
	return ids.ReplaceAllString(string(text), "ID")
}

// shape maps each path in a body to the type of its value. A star stands for keys that users choose.
func shape(body any) map[string]string {
	found := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			found[path] = "object"
			for key, value := range v {
				if strings.HasSuffix(path, ".metadata") || strings.HasSuffix(path, ".addresses") {
					key = "*"
				}
				walk(path+"."+key, value)
			}
		case []any:
			found[path] = "list"
			for _, value := range v {
				walk(path+"[]", value)
			}
		default:
			found[path] = fmt.Sprintf("%T", v)
		}
	}
	walk("", body)
	return found
}

// The paths that the story uses most.
const (
	serversPath = "/compute/v2.1/servers"
	serverPath  = serversPath + "/{id}"
)

// login requests a token for the project.
func login(name, password string) step {
	return step{recorded: name, method: "POST", path: "/identity/v3/auth/tokens", body: fmt.Sprintf(
		`{"auth":{"identity":{"methods":["password"],`+
			`"password":{"user":{"name":"operator","password":%q,"domain":{"id":"default"}}}},`+
			`"scope":{"project":{"name":"lab","domain":{"id":"default"}}}}}`,
		password)}
}

// do is an action on the last server; show reads it.
func do(name, action string) step {
	return step{recorded: name, method: "POST", path: serverPath + "/action", body: action}
}

func show(name string) step { return step{recorded: name, method: "GET", path: serverPath} }

// rebuildTo is the rebuild action.
func rebuildTo(image string) string { return fmt.Sprintf(`{"rebuild":{"imageRef":%q}}`, image) }

// create is a request to make a server; good makes a valid one.
func create(name, server, image, flavor, key, network string) step {
	return step{recorded: name, method: "POST", path: serversPath, body: fmt.Sprintf(
		`{"server":{"name":%q,"imageRef":%q,"flavorRef":%q,"key_name":%q,`+
			`"networks":[{"uuid":%q}],"metadata":{"cluster":"trace"}}}`,
		server, image, flavor, key, network)}
}

func good(name, server string) step {
	return create(name, server, imageV1, "flavor-small", "lab", "{network}")
}

// later is a step after all running changes have ended.
func later(s step) step {
	s.after = 10 * second
	return s
}

// replay is the recorded story, with the events that must happen in between.
func replay() []step {
	return slices.Concat(replayReading(), replayServer(), replayRefusals(), replayQuota(), replayEnds())
}

// replayReading reads from a cloud without servers.
func replayReading() []step {
	return []step{
		login("token", "secret"),
		login("bad password", "wrong"),
		{recorded: "keystone versions", method: "GET", path: "/identity/"},
		{recorded: "keystone v3", method: "GET", path: "/identity/v3"},
		{recorded: "no token", method: "GET", path: serversPath, anonymous: true},
		{recorded: "nova v2.1", method: "GET", path: "/compute/v2.1/"},
		{recorded: "flavors", method: "GET", path: "/compute/v2.1/flavors/detail"},
		{recorded: "flavor missing", method: "GET", path: "/compute/v2.1/flavors/nope"},
		{recorded: "image by name", method: "GET", path: "/image/v2/images?name=node-v1"},
		{recorded: "network", method: "GET", path: "/network/v2.0/networks?name=cluster"},
		{recorded: "subnet", method: "GET", path: "/network/v2.0/subnets?network_id={network}"},
		{recorded: "limits", method: "GET", path: "/compute/v2.1/limits"},
		{method: "POST", path: "/compute/v2.1/os-keypairs",
			body: fmt.Sprintf(`{"keypair":{"name":"lab","public_key":%q}}`, publicKey)},
	}
}

// replayServer takes a server through its states.
func replayServer() []step {
	return []step{
		good("create", "smp-0"),
		show("BUILD"),
		later(show("ACTIVE")),
		{recorded: "ACTIVE at 2.79", method: "GET", path: serverPath, version: "2.79"},
		good("", "smp-1"),
		later(step{recorded: "list detail", method: "GET", path: serversPath + "/detail?name=smp&limit=1"}),
		{recorded: "interfaces", method: "GET", path: serverPath + "/os-interface"},
		{recorded: "metadata", method: "GET", path: serverPath + "/metadata"},
		{recorded: "volumes", method: "GET", path: serverPath + "/os-volume_attachments"},
		{recorded: "ports of server", method: "GET", path: "/network/v2.0/ports?device_id={id}"},
		do("", `{"reboot":{"type":"SOFT"}}`),
		show("REBOOT"),
		later(do("", `{"reboot":{"type":"HARD"}}`)),
		show("HARD_REBOOT"),
		do("rebuild while rebooting", rebuildTo(imageV2)),
		later(do("rebuild", rebuildTo(imageV2))),
		show("REBUILD"),
		later(do("rebuild missing image", rebuildTo(absent))),
		do("console", `{"os-getConsoleOutput":{"length":20}}`),
		do("", `{"createImage":{"name":"snap-1"}}`),
		{recorded: "snapshot image", method: "GET", path: "/image/v2/images?name=snap-1"},
		later(do("", `{"os-stop":null}`)),
		later(show("SHUTOFF")),
		do("", `{"os-start":null}`),
		{recorded: "actions", method: "GET", path: serverPath + "/os-instance-actions", after: 10 * second},
		{recorded: "set metadata", method: "POST", path: serverPath + "/metadata", body: `{"metadata":{"owner":"x"}}`},
	}
}

// replayRefusals are invalid requests for servers.
func replayRefusals() []step {
	return []step{
		create("create bad-image", "bad-image", absent, "flavor-small", "lab", "{network}"),
		create("create bad-flavor", "bad-flavor", imageV1, "999", "lab", "{network}"),
		create("create bad-net", "bad-net", imageV1, "flavor-small", "lab", absent),
		create("create bad-key", "bad-key", imageV1, "flavor-small", "nope", "{network}"),
		create("create without name", "", imageV1, "flavor-small", "lab", "{network}"),
	}
}

// replayQuota exceeds the quota: it was recorded with 16 instances that took 17 cores, of which the story has made two
// so far.
func replayQuota() []step {
	var story []step
	for i := range 13 {
		story = append(story, good("", fmt.Sprintf("fill-%d", i)))
	}
	const path = "/compute/v2.1/os-quota-sets/{project}"
	return append(story,
		create("", "fill-two", imageV1, "flavor-two", "lab", "{network}"),
		step{recorded: "quota set put", method: "PUT", path: path, body: `{"quota_set":{"cores":17,"instances":17}}`},
		step{recorded: "quota get", method: "GET", path: path + "/detail"},
		good("quota exceeded", "q-0"),
		create("quota exceeded by a big flavor", "q-cores", imageV1, "flavor-big", "lab", "{network}"),
		step{method: "PUT", path: path, body: `{"quota_set":{"cores":-1,"instances":-1}}`},
	)
}

// replayEnds are the two ways to delete a server.
func replayEnds() []step {
	return []step{
		good("create that goes to ERROR", "nvh"),
		later(show("ERROR no valid host")),
		do("reboot an ERROR server", `{"reboot":{"type":"SOFT"}}`),
		good("", "last"),
		later(step{method: "DELETE", path: serverPath}),
		show("right after delete"),
		later(show("gone")),
	}
}

// player makes the calls of a replay on a cloud's handler.
type player struct {
	t       *testing.T
	cloud   *labcloud.Cloud
	token   string
	replace map[string]string
}

func newPlayer(t *testing.T) *player {
	cfg := configuration()
	cfg.Networks[0].Gateway = netip.Addr{} // as where the answers were recorded
	cfg.Flavors = append(cfg.Flavors, labcloud.Flavor{ID: "flavor-two", Name: "two", VCPUs: 2, RAM: 2048})
	cfg.Timings = labcloud.Timings{Build: second, Rebuild: second, Reboot: second, Delete: second,
		Snapshot: second, Power: second}
	cloud, err := labcloud.New(cfg, labcloud.Null{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: "nvh"}); err != nil {
		t.Fatal(err)
	}
	return &player{t: t, cloud: cloud, replace: map[string]string{}}
}

// play makes one call, and stores ids from its answer.
func (p *player) play(s step) *httptest.ResponseRecorder {
	p.t.Helper()
	// In the bubble of synctest, this waits for all running changes.
	time.Sleep(s.after)
	path, body := s.path, s.body
	for from, to := range p.replace {
		path, body = strings.ReplaceAll(path, from, to), strings.ReplaceAll(body, from, to)
	}
	r := httptest.NewRequest(s.method, path, strings.NewReader(body))
	if !s.anonymous {
		r.Header.Set("X-Auth-Token", p.token)
	}
	if s.version != "" {
		r.Header.Set("OpenStack-API-Version", "compute "+s.version)
	}
	w := httptest.NewRecorder()
	p.cloud.Handler().ServeHTTP(w, r)
	if s.recorded == "" && w.Code >= http.StatusBadRequest {
		p.t.Fatalf("%s %s: %d %s", s.method, path, w.Code, w.Body)
	}
	p.learn(w)
	return w
}

// learn stores the ids in an answer that later calls need.
func (p *player) learn(w *httptest.ResponseRecorder) {
	if token := w.Header().Get("X-Subject-Token"); token != "" {
		p.token = token
	}
	var body struct {
		Token    struct{ Project struct{ ID string } }
		Networks []struct{ ID string }
		Server   struct{ ID string }
	}
	if json.Unmarshal(w.Body.Bytes(), &body) != nil {
		return
	}
	for name, id := range map[string]string{"{project}": body.Token.Project.ID, "{id}": body.Server.ID} {
		if id != "" {
			p.replace[name] = id
		}
	}
	if len(body.Networks) > 0 {
		p.replace["{network}"] = body.Networks[0].ID
	}
}

func (p *player) close() {
	if err := p.cloud.Close(p.t.Context()); err != nil {
		p.t.Errorf("closing the cloud: %s", err)
	}
}
