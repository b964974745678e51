// Package web is the read-only page of a cluster: what needs a person, the node groups, a timeline of the nodes, and
// what happened to a request, a job or a node. Functions without side effects make a view of each page from the journal,
// a snapshot, and the reports of packages status, usage and explain, which decide everything; templates escape all
// texts. It answers GET alone, and has no method that writes. It needs no program and no file besides this binary.
package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/explain"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Journal reads the journal. The methods are those of package journal.
type Journal interface {
	status.Reader
	explain.Reader
	explain.HistoryReader
	LivesOf(ctx context.Context, f reconfigure.LifeFilter) ([]reconfigure.Life, error)
	FailuresOf(ctx context.Context, since, until time.Time, nodes ...string) ([]reconfigure.Event, error)
	NodesWithLives(ctx context.Context, since, until time.Time) ([]string, error)
	RunsBetween(ctx context.Context, since, until time.Time, limit int) (runs []reconfigure.JobRun, all bool, err error)
	Pulse(ctx context.Context) (string, error)
}

// Answers is what the sources outside of the journal say.
type Answers struct {
	Seen snapshot.Snapshot
	Room *reconfigure.Room // the quota of the project; nil: unknown
}

// Sources are where the pages come from.
type Sources struct {
	Journal Journal
	Cluster func() reconfigure.Cluster
	// Ask asks Slurm, the cloud and Terraform. It changes nothing.
	Ask func(ctx context.Context) (Answers, error)
	// Last returns the worker's last comparison of the sources.
	Last    func() (reconcile.Look, error)
	Metrics http.Handler // nil: no metrics
	Log     *slog.Logger
	Now     func() time.Time // nil: time.Now
	// AnyHost answers whatever the Host header says. Otherwise only names of the loopback are answered, so that a page of
	// another site cannot read this one by a name that it directs to the loopback.
	AnyHost bool
}

//go:embed static templates
var files embed.FS

// Server makes the pages.
type Server struct {
	Sources
	answers asked
	events  pulses
	ready   cached[readyTimes]
	hours   map[string]*cached[hoursView]
	pages   *template.Template
}

// New returns a server, which asks the sources, while pages are open, until ctx ends.
func New(ctx context.Context, s Sources) *Server {
	if s.Now == nil {
		s.Now = time.Now
	}
	lives := &recent{Journal: s.Journal, now: s.Now}
	s.Journal = lives
	go func() { _, _, _ = lives.settled(ctx, s.Now()) }() // the first page need not wait for it; it repeats an error
	server := &Server{Sources: s, hours: map[string]*cached[hoursView]{}}
	for name := range periods {
		server.hours[name] = new(cached[hoursView])
	}
	server.answers = asked{ctx: ctx, ask: s.Ask, log: s.Log}
	server.events = pulses{ctx: ctx, read: server.renewed}
	own := template.FuncMap{"content": server.content}
	server.pages = template.Must(template.New("").Funcs(functions).Funcs(own).ParseFS(files, "templates/*.html"))
	return server
}

// Handler returns the handler of all pages.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, page := range map[string]pageFunc{
		"GET /{$}":          s.start,
		"GET /timeline":     s.timeline,
		"GET /requests":     s.requests,
		"GET /request/{id}": s.request,
		"GET /job/{id}":     s.job,
		"GET /node/{node}":  s.node,
		"GET /campaign":     s.campaign,
		"GET /drift":        s.drift,
		"GET /hours":        s.usedHours,
	} {
		mux.HandleFunc(pattern, s.page(page))
	}
	mux.HandleFunc("GET /at", s.at)
	mux.HandleFunc("GET /events", s.events.serve)
	mux.HandleFunc("GET /find", s.find)
	static, _ := fs.Sub(files, "static") // the folder is embedded
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(static)))
	if s.Metrics != nil {
		mux.Handle("GET /metrics", s.Metrics)
	}
	return s.guarded(mux)
}

// policy forbids everything that the page does not need: inline scripts and styles, forms and connections to other
// sites, and frames.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guarded sets the headers of all answers, and rejects other methods and hosts.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "this page only shows: it answers GET", http.StatusMethodNotAllowed)
			return
		}
		if !s.AnyHost && !loopback(r.Host) {
			http.Error(w, "the Host header is not a name of the loopback: the proxy must send localhost, or use the Unix socket",
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// pageFunc makes the view of a page.
type pageFunc func(r *http.Request) (view, error)

// view is what a template shows.
type view struct {
	Title    string
	Template string // the name of its template
	Body     any
}

// problem is an error that is the caller's.
type problem struct {
	status int
	words  string
}

func (p *problem) Error() string { return p.words }

func badRequest(err error) error { return &problem{http.StatusBadRequest, err.Error()} }

func notFound(format string, args ...any) error {
	return &problem{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// layout is what all pages have around their view.
type layout struct {
	view
	Cluster string
	Root    string // the relative path to the start page: a proxy may serve the page below any path
	Here    string // the name of the page in the menu
	Now     time.Time
	Asked   time.Time // when the sources were last asked; zero: not yet
	Missing []snapshot.Unreachable
	Pulse   string
}

func (s *Server) page(make pageFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pulse, err := s.pulse(r.Context()) // first: what comes later is shown, or announced
		var v view
		if err == nil {
			v, err = make(r)
		}
		code := http.StatusOK
		if err != nil {
			var bad *problem
			code = http.StatusInternalServerError
			if errors.As(err, &bad) {
				code = bad.status
			} else if r.Context().Err() == nil {
				s.Log.WarnContext(r.Context(), "a page could not be made", "path", r.URL.Path, "reason", err.Error())
			}
			v = view{"Not shown", "problem", err.Error()}
		}
		s.write(w, r, code, v, pulse)
	}
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, code int, v view, pulse string) {
	answers, at := s.answers.last()
	path := strings.TrimPrefix(r.URL.Path, "/")
	here, _, _ := strings.Cut(path, "/")
	l := layout{
		view: v, Cluster: s.Cluster().Name, Root: strings.Repeat("../", strings.Count(path, "/")), Here: here, Now: s.Now(),
		Asked: at, Missing: answers.Seen.Unreachable(), Pulse: pulse,
	}
	if l.Root == "" {
		l.Root = "./"
	}
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, "layout", l); err != nil {
		s.Log.ErrorContext(r.Context(), "a page could not be written", "path", r.URL.Path, "reason", err.Error())
		http.Error(w, "the page could not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text.Printable(b.String())) // the reader may be gone
}

// content executes the template of a view, for the body of the layout.
func (s *Server) content(l layout) (template.HTML, error) {
	var b strings.Builder
	err := s.pages.ExecuteTemplate(&b, l.Template, l)
	return template.HTML(b.String()), err // made by a template, which has escaped it
}

// find leads from the form with a name or a number to its page.
func (s *Server) find(w http.ResponseWriter, r *http.Request) {
	what := strings.TrimSpace(r.URL.Query().Get("q"))
	kind, name, both := strings.Cut(what, " ")
	if !both {
		kind, name = "", what
	}
	id, err := strconv.ParseInt(strings.TrimSpace(name), 10, 64)
	switch {
	case err == nil && kind == "request":
		http.Redirect(w, r, fmt.Sprintf("request/%d", id), http.StatusSeeOther)
	case err == nil && (kind == "job" || kind == ""):
		http.Redirect(w, r, fmt.Sprintf("job/%d", id), http.StatusSeeOther)
	default:
		nodes, err := nodeset.Parse(strings.TrimPrefix(what, "node "))
		if err != nil || nodes.Len() != 1 {
			s.page(func(*http.Request) (view, error) {
				return view{}, badRequest(errors.New("type a node, `job NUMBER` or `request NUMBER`"))
			})(w, r)
			return
		}
		http.Redirect(w, r, "node/"+nodes.String(), http.StatusSeeOther)
	}
}

// pulse returns a text that changes when a page may show something new.
func (s *Server) pulse(ctx context.Context) (string, error) {
	p, err := s.Journal.Pulse(ctx)
	_, at := s.answers.last()
	return fmt.Sprintf("%s-%d", p, at.UnixNano()), err
}

// renewed is pulse for an open page: what Slurm, the cloud and Terraform say does not grow old on it.
func (s *Server) renewed(ctx context.Context) (string, error) {
	s.answers.renew()
	return s.pulse(ctx)
}

// report returns the report of all nodes, and the answers that it is made of.
func (s *Server) report(ctx context.Context) (status.Report, Answers, error) {
	known, err := status.Read(ctx, s.Journal)
	if err != nil {
		return status.Report{}, Answers{}, err
	}
	known.Time = s.Now()
	last, err := s.Last()
	if err != nil {
		last = reconcile.Look{} // the worker logs it, and compares anew
	}
	answers := s.answers.get(ctx)
	return status.New(s.Cluster(), answers.Seen, known, last), answers, nil
}
