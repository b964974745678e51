package cloudtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// patience is how long a server may take to reach a state.
const patience = 2 * time.Minute

// object is a JSON object.
type object = map[string]any

// answer is an HTTP answer; body is the decoded JSON.
type answer struct {
	status int
	header http.Header
	text   string
	body   object
}

// session makes the calls of one check.
type session struct {
	context.Context
	*Cloud
	// name is the prefix of the names of resources that the check makes.
	name string
	// version is the microversion for calls to Nova that do not set one.
	version string
	// ids are the cloud's ids and those of the resources that the check made.
	ids map[string]string
	// made reports whether the check has asked for servers or ports, which remove must remove.
	made bool
}

// fill replaces words with their ids.
func (s *session) fill(text string) string {
	for word, id := range s.ids {
		text = strings.ReplaceAll(text, word, id)
	}
	return text
}

// url returns the address of a path, which begins with its service.
func (s *session) url(path string) string {
	for prefix, base := range map[string]string{
		"identity/": strings.TrimSuffix(s.identity, "/") + "/",
		"compute/":  s.compute.Endpoint, "admin/": s.admin.Endpoint,
		"network/": s.network.ResourceBaseURL(), "image/": s.image.ResourceBaseURL(),
	} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return base + rest
		}
	}
	return path // a link from an answer
}

// call makes a call. The path begins with the service: "compute/servers". Words in path and body stand for ids.
func (s *session) call(method, path, body string) (answer, error) {
	return s.send(method, path, body, func(h http.Header) {
		if s.version != "" {
			h.Set("OpenStack-API-Version", "compute "+s.version)
		}
		token := s.compute.Token()
		if strings.HasPrefix(path, "admin/") {
			token = s.admin.Token()
		}
		h.Set("X-Auth-Token", token)
	})
}

// send makes a call with the headers in header.
func (s *session) send(method, path, body string, set func(http.Header)) (answer, error) {
	s.made = s.made || method == http.MethodPost && (path == "compute/servers" || path == "network/ports")
	r, err := http.NewRequestWithContext(s, method, s.url(s.fill(path)), strings.NewReader(s.fill(body)))
	if err != nil {
		return answer{}, err
	}
	if method == http.MethodGet {
		s.asked[Question(r.URL)] = true
	}
	r.Header.Set("Content-Type", "application/json")
	set(r.Header)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	a := answer{status: response.StatusCode, header: response.Header, text: string(text)}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") && len(text) > 0 {
		err = errors.Join(err, json.Unmarshal(text, &a.body))
	}
	return a, err
}

// want makes a call that must be answered with a given status.
func (s *session) want(status int, method, path, body string) (answer, error) {
	a, err := s.call(method, path, body)
	if err == nil {
		err = a.must(status, method, path)
	}
	return a, err
}

// must returns an error if the answer to a call has another status.
func (a answer) must(status int, method, path string) error {
	if a.status == status {
		return nil
	}
	return fmt.Errorf("%s %s: %d, want %d: %s", method, path, a.status, status, a.text)
}

// get makes a call that must be answered with 200.
func (s *session) get(path string) (object, error) {
	a, err := s.want(http.StatusOK, http.MethodGet, path, "")
	return a.body, err
}

// act carries out an action on the server {server}; Nova must accept it.
func (s *session) act(body string) error {
	_, err := s.want(http.StatusAccepted, http.MethodPost, "compute/servers/{server}/action", body)
	return err
}

// create asks for a server with the small flavor, and sets the word {server}.
func (s *session) create(more string) (answer, error) {
	a, err := s.want(http.StatusAccepted, http.MethodPost, "compute/servers", s.server("{small}", more))
	if err == nil {
		s.ids["{server}"] = text(field(a.body, "server"), "id")
	}
	return a, err
}

// server returns the body of a request for a server.
func (s *session) server(flavor, more string) string {
	return fmt.Sprintf(`{"server":{"name":"%s","imageRef":"{node-v1}","flavorRef":"%s",`+
		`"networks":[{"uuid":"{cluster}"}]%s}}`, s.name, flavor, more)
}

// running makes a server that is ACTIVE.
func (s *session) running() error {
	if _, err := s.create(""); err != nil {
		return err
	}
	_, err := s.through("BUILD", "ACTIVE")
	return err
}

// show returns the server {server} from Nova.
func (s *session) show() (object, error) {
	body, err := s.get("compute/servers/{server}")
	return field(body, "server"), err
}

// through polls the server {server} until it has the last of the states and nothing is under way. Other states on the
// way, or another order, are an error. It may miss a short state. Nova answers 500 if Neutron, which it asks for the
// addresses, has just started on a busy computer: then through tries again.
func (s *session) through(states ...string) (object, error) {
	at := 0
	for end := time.Now().Add(patience); ; {
		begun := time.Now()
		const path = "compute/servers/{server}"
		a, err := s.call(http.MethodGet, path, "")
		if err == nil && a.status >= http.StatusInternalServerError && time.Now().Before(end) {
			pause(begun)
			continue
		}
		if err == nil {
			err = a.must(http.StatusOK, http.MethodGet, path)
		}
		if err != nil {
			return nil, err
		}
		server := field(a.body, "server")
		status := text(server, "status")
		next := slices.Index(states[at:], status)
		if next < 0 {
			return nil, fmt.Errorf("the server is %s after %s, want %v: %v", status, states[at], states, server)
		}
		at += next
		if at == len(states)-1 && server["OS-EXT-STS:task_state"] == nil {
			return server, nil
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the server is still %s after %s, want %s", status, patience, states[len(states)-1])
		}
		pause(begun)
	}
}

// pause waits before the next poll, longer for a cloud that answers slowly.
func pause(begun time.Time) { time.Sleep(10*time.Millisecond + 3*time.Since(begun)) }

// gone polls the server {server} until Nova does not find it.
func (s *session) gone() error {
	for end := time.Now().Add(patience); ; {
		begun := time.Now()
		a, err := s.call(http.MethodGet, "compute/servers/{server}", "")
		if err != nil || a.status == http.StatusNotFound {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the server is still there after %s: %s", patience, a.text)
		}
		pause(begun)
	}
}

// remove removes the servers and ports of the check.
func (s *session) remove() error {
	if !s.made {
		return nil
	}
	body, err := s.get("compute/servers?name=^" + s.name + "$")
	if err != nil {
		return err
	}
	var errs []error
	for _, server := range items(body, "servers") {
		s.ids["{server}"] = text(server, "id")
		_, err := s.call(http.MethodDelete, "compute/servers/{server}", "")
		errs = append(errs, err)
	}
	for _, server := range items(body, "servers") {
		s.ids["{server}"] = text(server, "id")
		errs = append(errs, s.gone())
	}
	if body, err = s.get("network/ports?name=" + s.name); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, port := range items(body, "ports") {
		_, err := s.want(http.StatusNoContent, http.MethodDelete, "network/ports/"+text(port, "id"), "")
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// field returns the object under a key, or nil.
func field(o object, key string) object { found, _ := o[key].(object); return found }

// text returns the text under a key, or "".
func text(o object, key string) string { found, _ := o[key].(string); return found }

// items returns the objects of the list under a key.
func items(o object, key string) []object {
	list, _ := o[key].([]any)
	var found []object
	for _, item := range list {
		if thing, ok := item.(object); ok {
			found = append(found, thing)
		}
	}
	return found
}

// first returns the first object of the list under a key, or nil.
func first(o object, key string) object {
	if list := items(o, key); len(list) > 0 {
		return list[0]
	}
	return nil
}

// values returns the text under a key of each object.
func values(list []object, key string) []string {
	var found []string
	for _, o := range list {
		found = append(found, text(o, key))
	}
	return found
}

// same returns an error with the difference of two values.
func same(what string, want, got any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s (-want +got):\n%s", what, diff)
	}
	return nil
}

// has returns an error unless the object has these values.
func has(what string, o, want object) error {
	got := object{}
	for key := range want {
		got[key] = o[key]
	}
	return same(what, want, got)
}

// anID matches text that differs between clouds: ids of resources, projects and users.
var anID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}`)

// withoutIDs replaces each id with the word ID.
func withoutIDs(text string) string { return anID.ReplaceAllString(text, "ID") }
