package labcloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// service is one of the cloud's services, with its name in the catalog.
type service string

const (
	identity service = "identity"
	compute  service = "compute"
	network  service = "network"
	image    service = "image"
	lab      service = "lab"
)

// object is a JSON object whose keys vary.
type object = map[string]any

// maxBody is the maximum size of a request's body, most of which is user data.
const maxBody = 1 << 20

// route is a method and path of a service with its handler.
type route struct {
	service service
	// pattern has the syntax of http.ServeMux.
	pattern string
	// open routes need no token.
	open bool
	// handle is called with the cloud's mutex locked.
	handle func(*request) (reply, error)
}

// request is one call.
type request struct {
	*http.Request
	service service
	// label is the route's pattern, for an action with its name. /lab/calls counts by it, and Fault.Call matches
	// it.
	label   string
	body    []byte
	version microversion
	// id is the request id in the answer.
	id string
	// base is the scheme and host with which the client reached us.
	base string
}

// decode reads the request's JSON into v. A key without a field in v is an error, so that we notice a missing part of
// the API.
func (r *request) decode(v any) error {
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		return nil
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if r.service == network {
			return badRequest("Unrecognized attribute(s) '%s'", strings.Trim(field, `"`))
		}
		return badRequest("Additional properties are not allowed ('%s' was unexpected)", strings.Trim(field, `"`))
	}
	return badRequest("Malformed request body: %s", err)
}

// reply is a successful answer.
type reply struct {
	status int
	// body is marshalled to JSON; nil means an empty body.
	body   any
	header map[string]string
	// late returns the body, without the cloud's mutex, for work that takes time. If it is set, body is not used.
	late func() (any, error)
}

func ok(body any) reply       { return reply{status: http.StatusOK, body: body} }
func created(body any) reply  { return reply{status: http.StatusCreated, body: body} }
func accepted(body any) reply { return reply{status: http.StatusAccepted, body: body} }
func noContent() reply        { return reply{status: http.StatusNoContent} }

// Handler answers for all services. It must be mounted at a server's root, since the paths in its answers begin there.
func (c *Cloud) Handler() http.Handler { return c.mux }

// routes are all calls that the cloud can answer.
func (c *Cloud) routes() []route {
	var all []route
	for _, part := range [][]route{
		c.identityRoutes(), c.flavorRoutes(), c.schedulerRoutes(), c.serverRoutes(), c.keypairRoutes(), c.quotaRoutes(),
		c.networkRoutes(), c.portRoutes(), c.securityGroupRoutes(), c.floatingIPRoutes(),
		c.imageRoutes(), c.labRoutes(),
	} {
		all = append(all, part...)
	}
	return all
}

// newMux returns a handler for the routes. A call without a route is answered with 501, since 404 means that a resource
// does not exist.
func (c *Cloud) newMux(routes []route) *http.ServeMux {
	mux := http.NewServeMux()
	for _, rt := range routes {
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, hr *http.Request) { c.serve(rt, w, hr) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, hr *http.Request) {
		c.cfg.Log.Warn("call that labcloud does not answer", "method", hr.Method, "path", hr.URL.Path)
		http.Error(w, "labcloud does not answer "+hr.Method+" "+hr.URL.Path, http.StatusNotImplemented)
	})
	return mux
}

// labels are the labels of the routes; each action has its own.
func labels(routes []route) []string {
	var names []string
	for _, rt := range routes {
		if rt.pattern == actionPattern {
			for name := range serverActions {
				names = append(names, rt.pattern+" "+name)
			}
			continue
		}
		names = append(names, rt.pattern)
	}
	return names
}

// serve handles one call from its arrival to its answer.
func (c *Cloud) serve(rt route, w http.ResponseWriter, hr *http.Request) {
	r, err := newRequest(rt, w, hr)
	if err != nil {
		c.write(w, r, reply{}, err)
		return
	}
	if rt.service == lab {
		answer, err := c.answer(rt, r)
		c.write(w, r, answer, err)
		return
	}
	c.calls.count(r.label)
	f, found := c.faults.onCall(r.label, c.subject(r))
	if found {
		if err := c.applyFault(r, f); err != nil {
			c.write(w, r, reply{}, err)
			return
		}
	}
	answer, err := c.answer(rt, r)
	if found && f.Kind == LostAnswer {
		// On this panic, the server closes the connection without an answer or a log entry.
		panic(http.ErrAbortHandler)
	}
	c.write(w, r, answer, err)
}

// newRequest parses a call. Even with an error, the request can be used to answer.
func newRequest(rt route, w http.ResponseWriter, hr *http.Request) (*request, error) {
	r := &request{
		Request: hr,
		service: rt.service,
		label:   rt.pattern,
		version: oldest,
		id:      "req-" + uuid.NewString(),
		base:    "http://" + hr.Host,
	}
	var err error
	if r.body, err = io.ReadAll(http.MaxBytesReader(w, hr.Body, maxBody)); err != nil {
		return r, badRequest("Malformed request body: %s", err)
	}
	if rt.pattern == actionPattern {
		name, _ := actionName(r.body)
		r.label += " " + name
	}
	if rt.service == compute {
		if r.version, err = negotiate(hr.Header); err != nil {
			r.version = oldest
			return r, err
		}
	}
	return r, nil
}

// answer authenticates and handles a call, and returns the answer.
func (c *Cloud) answer(rt route, r *request) (reply, error) {
	answer, err := c.handleLocked(rt, r)
	if err != nil || answer.late == nil {
		return answer, err
	}
	answer.body, err = answer.late()
	return answer, err
}

// handleLocked is the part of answer that needs the mutex.
func (c *Cloud) handleLocked(rt route, r *request) (reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return reply{}, &problem{code: http.StatusServiceUnavailable, message: "the cloud is being closed"}
	}
	if !rt.open && !c.authenticated(r.Header.Get("X-Auth-Token")) {
		return reply{}, unauthorized()
	}
	return rt.handle(r)
}

// write sends an answer or an error with the headers of its service.
func (c *Cloud) write(w http.ResponseWriter, r *request, answer reply, err error) {
	contentType, body := "application/json", answer.body
	if err != nil {
		var p *problem
		if !errors.As(err, &p) {
			c.cfg.Log.Error("call failed", "call", r.label, "error", err)
			p = &problem{code: http.StatusInternalServerError, message: err.Error()}
		}
		answer = reply{status: p.code}
		contentType, body = p.render(r.service)
		if p.retryAfter > 0 {
			answer.header = map[string]string{"Retry-After": fmt.Sprint(p.retryAfter)}
		}
	}
	h := w.Header()
	serviceHeaders(h, r)
	for name, value := range answer.header {
		h.Set(name, value)
	}
	text := encode(body)
	if len(text) > 0 {
		h.Set("Content-Type", contentType)
	}
	w.WriteHeader(answer.status)
	// It is not an error if a client disconnects.
	_, _ = w.Write(text)
}

// encode returns the body as it is sent: text unchanged, other values as JSON.
func encode(body any) []byte {
	switch b := body.(type) {
	case nil:
		return nil
	case string:
		return []byte(b)
	}
	// Handlers return only plain types.
	text, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("labcloud: marshalling an answer: %s", err))
	}
	return text
}

// serviceHeaders are the headers that all answers of a service have.
func serviceHeaders(h http.Header, r *request) {
	switch r.service {
	case identity:
		h.Set("Vary", "X-Auth-Token")
	case compute:
		h.Set("OpenStack-API-Version", "compute "+r.version.String())
		h.Set("X-OpenStack-Nova-API-Version", r.version.String())
		h.Set("Vary", "OpenStack-API-Version, X-OpenStack-Nova-API-Version")
		h.Set("X-Compute-Request-Id", r.id)
	}
	if r.service != lab {
		h.Set("X-OpenStack-Request-Id", r.id)
	}
}
