package labcloud

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind is the kind of a fault.
type Kind string

const (
	// NoValidHost: the server goes to ERROR with the text of Nova's scheduler.
	NoValidHost Kind = "no-valid-host"
	// StuckBuild: the build does not end: the server stays in BUILD or REBUILD until it is deleted or the fault is
	// cleared.
	StuckBuild Kind = "stuck-build"
	// StuckDelete: the deletion is accepted but does not end: the server keeps its state, with the task "deleting",
	// until the fault is cleared.
	StuckDelete Kind = "stuck-delete"

	// QuotaExceeded: the call is rejected as if a quota were exceeded.
	QuotaExceeded Kind = "quota"
	// RateLimited: the call is rejected with 429; Fault.Seconds is Retry-After.
	RateLimited Kind = "rate-limit"
	// ServerError: the call is rejected with 500 and has no effect.
	ServerError Kind = "server-error"
	// Unavailable: the call is rejected with 503 and has no effect.
	Unavailable Kind = "unavailable"
	// LostAnswer: the call takes effect, but the connection breaks before the answer.
	LostAnswer Kind = "lost-answer"
	// Hang: the call waits before it is handled until the client disconnects, the fault is cleared or Fault.Seconds
	// have passed. Then it continues.
	Hang Kind = "hang"

	// The others act inside the machine or concern it: see the Flag constants. Fault.Seconds is the delay of a slow
	// boot.
	NoSSHD           Kind = FlagNoSSHD
	NoSlurmd         Kind = FlagNoSlurmd
	NoMunged         Kind = FlagNoMunged
	NeverBoots       Kind = FlagNeverBoots
	SlowBoot         Kind = FlagSlowBoot
	Blocked          Kind = FlagBlocked
	FullDisk         Kind = FlagFullDisk
	TruncatedConsole Kind = FlagTruncatedConsole
)

// onBuild are the kinds that take effect when a server is built, that is, created or rebuilt. The others act on calls.
func (k Kind) onBuild() bool {
	return slices.Contains([]Kind{NoValidHost, StuckBuild, NoSSHD, NoSlurmd, NoMunged, NeverBoots, SlowBoot, Blocked,
		FullDisk, TruncatedConsole}, k)
}

// onDelete are the kinds that take effect when a server is deleted.
func (k Kind) onDelete() bool { return k == StuckDelete }

func (k Kind) onCall() bool {
	return slices.Contains([]Kind{QuotaExceeded, RateLimited, ServerError, Unavailable, LostAnswer, Hang}, k)
}

// Fault is a requested fault. It affects calls (or builds) that match both Server and Call; at least one of the two
// must be given.
type Fault struct {
	// ID is assigned by the cloud.
	ID   int  `json:"id"`
	Kind Kind `json:"kind"`
	// Server is a pattern, in the syntax of path.Match, for the name of the server that the call makes or concerns, or
	// of the port that it makes.
	Server string `json:"server,omitempty"`
	// Zone limits a fault that strikes where a server is built to the builds in a zone, that is on its host.
	Zone string `json:"zone,omitempty"`
	// Call is a method and route as Cloud.Calls lists them, or the end of one: "POST servers", "POST
	// servers/{id}/action rebuild". Without it, a fault that acts on calls applies to every call for the server,
	// and QuotaExceeded to the server's creation.
	Call string `json:"call,omitempty"`
	// Skip is the number of matching calls before the first affected one: with 2, the third call is affected.
	Skip int `json:"skip,omitempty"`
	// Count is the number of affected calls; zero means one.
	Count int `json:"count"`
	// Seconds is used by some kinds only.
	Seconds float64 `json:"seconds,omitempty"`
	// Hits is the number of calls affected so far.
	Hits int `json:"hits"`
}

// Faults are the requested faults. A fault that has had its effect stays in the list until it is cleared, so that a
// test can check its Hits.
type Faults struct {
	// routes are all calls, to check Fault.Call.
	routes []string

	mu     sync.Mutex
	lastID int
	orders []*order
}

// order is a fault with its internal state.
type order struct {
	Fault
	seen    int
	cleared chan struct{}
}

func newFaults(routes []string) *Faults { return &Faults{routes: routes} }

// Add adds a fault and returns its id. A fault that could never have an effect is an error.
func (fs *Faults) Add(f Fault) (int, error) {
	f, err := fs.check(f)
	if err != nil {
		return 0, fmt.Errorf("fault: %w", err)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.lastID++
	f.ID = fs.lastID
	fs.orders = append(fs.orders, &order{Fault: f, cleared: make(chan struct{})})
	return f.ID, nil
}

// check rejects faults that could never have an effect, and completes Call.
func (fs *Faults) check(f Fault) (Fault, error) {
	f.Hits, f.Count = 0, cmp.Or(f.Count, 1)
	if f.Kind == QuotaExceeded && f.Call == "" {
		f.Call = createServerPattern
	}
	if f.Call != "" {
		call, err := fs.resolve(f.Call)
		if err != nil {
			return f, err
		}
		f.Call = call
	}
	_, badPattern := path.Match(f.Server, "")
	switch {
	case !f.Kind.onBuild() && !f.Kind.onCall() && !f.Kind.onDelete():
		return f, fmt.Errorf("unknown kind %q", f.Kind)
	case f.Zone != "" && !f.Kind.onBuild():
		return f, fmt.Errorf("%s does not strike where a server is built, so it has no zone", f.Kind)
	case f.Server == "" && f.Call == "":
		return f, errors.New("neither a server nor a call is given")
	case f.Kind.onBuild() && f.Call != "" && !slices.Contains([]string{createServerPattern, rebuildLabel}, f.Call):
		return f, fmt.Errorf("%s strikes where a server is created or rebuilt, not at %s", f.Kind, f.Call)
	case f.Kind.onDelete() && f.Call != "":
		return f, fmt.Errorf("%s strikes each deletion of a server, and no call", f.Kind)
	case f.Skip < 0 || f.Count < 0 || f.Seconds < 0:
		return f, errors.New("skip, count and seconds cannot be negative")
	case f.Kind == SlowBoot && f.Seconds == 0:
		return f, errors.New("a slow boot needs its seconds")
	case badPattern != nil:
		return f, fmt.Errorf("server pattern %q: %w", f.Server, badPattern)
	}
	return f, nil
}

// resolve returns the one call that is equal to text or ends with it.
func (fs *Faults) resolve(text string) (string, error) {
	method, tail, _ := strings.Cut(text, " ")
	var found []string
	for _, route := range fs.routes {
		m, p, _ := strings.Cut(route, " ")
		if route == text || m == method && tail != "" && strings.HasSuffix(p, "/"+strings.TrimPrefix(tail, "/")) {
			found = append(found, route)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("there is no call %q", text)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%q could be any of %s", text, strings.Join(found, ", "))
}

// List returns a copy of the faults, oldest first.
func (fs *Faults) List() []Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	list := make([]Fault, 0, len(fs.orders))
	for _, o := range fs.orders {
		list = append(list, o.Fault)
	}
	return list
}

// Clear removes the fault with this id, or all faults if id is zero, and lets the calls continue that hang because of
// it. It reports whether there was one.
func (fs *Faults) Clear(id int) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	before := len(fs.orders)
	fs.orders = slices.DeleteFunc(fs.orders, func(o *order) bool {
		if id != 0 && o.ID != id {
			return false
		}
		close(o.cleared)
		return true
	})
	return len(fs.orders) < before
}

// strike reports whether the fault affects a call or build, and counts it.
func (o *order) strike(call, server string) bool {
	if o.Call != "" && o.Call != call {
		return false
	}
	if matched, _ := path.Match(o.Server, server); o.Server != "" && !matched {
		return false
	}
	o.seen++
	if o.seen <= o.Skip || o.Hits >= o.Count {
		return false
	}
	o.Hits++
	return true
}

// onCall finds the fault for a call, or the oldest of several.
func (fs *Faults) onCall(call, server string) (order, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, o := range fs.orders {
		if o.Kind.onCall() && o.strike(call, server) {
			return *o, true
		}
	}
	return order{}, false
}

// buildFaults are the faults of one build of a server.
type buildFaults struct {
	noValidHost bool
	// stuck is closed when a stuck build may end; nil for others.
	stuck     <-chan struct{}
	flags     map[string]bool
	bootDelay time.Duration
}

// onBuild returns all faults of a build.
func (fs *Faults) onBuild(call, server, zone string) buildFaults {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	b := buildFaults{flags: make(map[string]bool)}
	for _, o := range fs.orders {
		if !o.Kind.onBuild() || o.Zone != "" && o.Zone != zone || !o.strike(call, server) {
			continue
		}
		switch o.Kind {
		case NoValidHost:
			b.noValidHost = true
		case StuckBuild:
			b.stuck = o.cleared
		case SlowBoot:
			b.bootDelay = o.duration()
			fallthrough
		default:
			b.flags[string(o.Kind)] = true
		}
	}
	return b
}

// onDelete returns a channel that is closed when a stuck deletion may end; nil for a deletion without a fault.
func (fs *Faults) onDelete(server string) <-chan struct{} {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, o := range fs.orders {
		if o.Kind.onDelete() && o.strike("", server) {
			return o.cleared
		}
	}
	return nil
}

// duration is the fault's Seconds.
func (f Fault) duration() time.Duration { return time.Duration(f.Seconds * float64(time.Second)) }

// applyFault applies a fault to a call before the call is handled. If it returns an error, the call is not handled, and
// the error is the answer.
func (c *Cloud) applyFault(r *request, f order) error {
	switch f.Kind {
	case QuotaExceeded:
		return c.quotaFault(r)
	case RateLimited:
		return &problem{
			code: http.StatusTooManyRequests, kind: "TooManyRequests",
			message:    "This request was rate-limited.",
			retryAfter: max(1, int(math.Ceil(f.Seconds))),
		}
	case ServerError:
		return &problem{
			code: http.StatusInternalServerError, kind: "HTTPInternalServerError",
			message: "Unexpected API Error. The fault was ordered from labcloud.",
		}
	case Unavailable:
		return &problem{
			code: http.StatusServiceUnavailable, kind: "ServiceUnavailable",
			message: "The service is not available. The fault was ordered from labcloud.",
		}
	case Hang:
		return c.hang(r, f)
	}
	return nil
}

// hang waits as Hang describes.
func (c *Cloud) hang(r *request, f order) error {
	var limit <-chan time.Time
	if f.Seconds > 0 {
		timer := time.NewTimer(f.duration())
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-r.Context().Done():
		return &problem{code: http.StatusServiceUnavailable, message: "the client has gone"}
	case <-c.closing:
	case <-f.cleared:
	case <-limit:
	}
	return nil
}

// quotaFault is the service's error for an exceeded quota.
func (c *Cloud) quotaFault(r *request) error {
	if r.service == network {
		thing := strings.TrimSuffix(strings.ReplaceAll(path.Base(r.URL.Path), "-", "_"), "s")
		return conflict("OverQuota", "Quota exceeded for resources: ['%s'].", thing)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.used.instances
	return quotaExceeded("instances", 1, n, n)
}
