package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Line is one thing that happened. Its texts are on one line and have no control characters.
type Line struct {
	Time     time.Time               `json:"time"`
	Requests []reconfigure.RequestID `json:"requests,omitempty"`
	Jobs     []int64                 `json:"jobs,omitempty"`
	Nodes    nodeset.NodeSet         `json:"nodes"`
	Plan     int64                   `json:"plan,omitempty"`
	Phase    reconfigure.Phase       `json:"phase,omitempty"`
	What     What                    `json:"what"`
	Class    reconfigure.Class       `json:"class,omitempty"` // of a failure
	Host     string                  `json:"host,omitempty"`  // of the node's instance at that time
	Text     string                  `json:"text,omitempty"`
}

// What is the kind of a line.
type What string

// The kinds. Those of the phase of an operation are begun, done, failed and note.
const (
	Submitted  What = "submitted" // a request
	Ended      What = "ended"     // a request
	Made       What = "made"      // an instance
	Removed    What = "removed"   // an instance
	JobCame    What = "job submitted"
	JobStarted What = "job started"
	JobEnded   What = "job ended"
)

// Filter selects lines. Each field that is not zero must match.
type Filter struct {
	Since   time.Time
	Nodes   nodeset.NodeSet // the line is about one of them, or about a whole plan for a request that names one
	Job     int64
	Request reconfigure.RequestID
	Class   reconfigure.Class
	Host    string
}

func (f Filter) fits(l Line) bool {
	return !l.Time.Before(f.Since) &&
		(f.Nodes.Empty() || !f.Nodes.Intersect(l.Nodes).Empty()) &&
		(f.Job == 0 || slices.Contains(l.Jobs, f.Job)) &&
		(f.Request == 0 || slices.Contains(l.Requests, f.Request)) &&
		(f.Class == "" || l.Class == f.Class) && (f.Host == "" || l.Host == f.Host)
}

// HistoryReader reads the journal for the history.
type HistoryReader interface {
	Requests(ctx context.Context, limit int) ([]reconfigure.Request, error)
	RequestsSince(ctx context.Context, since time.Time) ([]reconfigure.Request, error)
	RequestsOf(ctx context.Context, plans ...int64) (map[int64][]reconfigure.RequestID, error)
	OutcomesOf(ctx context.Context, ids ...reconfigure.RequestID) (map[reconfigure.RequestID]reconfigure.Outcome, error)
	EventsAfter(ctx context.Context, after int64, since time.Time, limit int) ([]reconfigure.Event, error)
	Lives(ctx context.Context, since time.Time) ([]reconfigure.Life, error)
	JobRuns(ctx context.Context, since time.Time, jobs ...int64) ([]reconfigure.JobRun, error)
}

// History reads what happened, and then what is new. It is not safe for several goroutines.
type History struct {
	reader   HistoryReader
	filter   Filter
	requests map[reconfigure.RequestID]reconfigure.Request // that are known
	newest   reconfigure.RequestID
	open     map[reconfigure.RequestID]bool // without an outcome when they were last read
	plans    map[int64][]reconfigure.RequestID
	event    int64 // the last one that was read
	lives    []reconfigure.Life
	told     map[string]bool // the lines about instances and jobs
	slow     time.Time       // when instances and jobs were last read
}

// NewHistory returns a history that begins at filter.Since.
func NewHistory(r HistoryReader, f Filter) *History {
	return &History{
		reader: r, filter: f, requests: map[reconfigure.RequestID]reconfigure.Request{},
		open: map[reconfigure.RequestID]bool{}, plans: map[int64][]reconfigure.RequestID{}, told: map[string]bool{},
	}
}

const (
	// page is the number of events that are read at a time.
	page = 10_000
	// slowly is the interval at which instances and jobs are read while nothing else happens: they are many.
	slowly = 10 * time.Second
)

// Next returns the lines since the last call, by time; at first all lines since the beginning. It may be retried after
// an error, and may then return lines again.
func (h *History) Next(ctx context.Context, now time.Time) ([]Line, error) {
	lines, err := h.ofRequests(ctx)
	if err != nil {
		return nil, err
	}
	events, err := h.events(ctx)
	if err != nil {
		return nil, err
	}
	if len(events) > 0 || now.Sub(h.slow) >= slowly {
		more, err := h.ofInstances(ctx)
		if err != nil {
			return nil, err
		}
		lines, h.slow = append(lines, more...), now
	}
	for _, e := range events {
		if !e.OfResource() {
			lines = append(lines, h.ofEvent(e))
		}
	}
	lines = slices.DeleteFunc(lines, func(l Line) bool { return !h.filter.fits(l) })
	slices.SortStableFunc(lines, func(a, b Line) int { return a.Time.Compare(b.Time) })
	return lines, nil
}

// ofRequests returns the lines of new requests and of new outcomes.
func (h *History) ofRequests(ctx context.Context) ([]Line, error) {
	came, err := h.came(ctx)
	if err != nil {
		return nil, err
	}
	var lines []Line
	for _, r := range came {
		h.requests[r.ID], h.open[r.ID] = r, true
		h.newest = max(h.newest, r.ID)
		what := string(r.Mode)
		if !r.Nodes.Empty() {
			what += " " + text.Clip(r.Nodes.String(), 60)
		}
		if words := by(r.Caller, r.Reason); words != "" {
			what += "," + words
		}
		lines = append(lines, Line{
			Time: r.Submitted, Requests: []reconfigure.RequestID{r.ID}, Jobs: jobsOf(r, ""), Nodes: r.Nodes,
			What: Submitted, Text: what,
		})
	}
	ids := slices.Sorted(maps.Keys(h.open))
	outcomes, err := h.reader.OutcomesOf(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		o, ended := outcomes[id]
		if !ended {
			continue
		}
		delete(h.open, id)
		r := h.requests[id]
		what := string(o.Code)
		if o.Error != "" {
			what += ": " + text.OneLine(o.Error)
		}
		lines = append(lines, Line{
			Time: o.Finished, Requests: []reconfigure.RequestID{id}, Jobs: jobsOf(r, ""), Nodes: r.Nodes, What: Ended,
			Text: what + ", after " + text.Span(o.Finished.Sub(r.Submitted)),
		})
		lines = append(lines, rejections(r, o)...)
	}
	return lines, nil
}

// rejections returns a line for each verdict of the planner, which has no event.
func rejections(r reconfigure.Request, o reconfigure.Outcome) []Line {
	var lines []Line
	for _, v := range o.Verdicts {
		if v.Status == reconfigure.StatusRejected {
			lines = append(lines, Line{
				Time: o.Finished, Requests: []reconfigure.RequestID{r.ID}, Jobs: jobsOf(r, v.Node), Nodes: v.Nodes(),
				Phase: reconfigure.PhasePlan, What: What(v.Status), Class: v.Class, Text: text.OneLine(v.Class.Said(v.Reason)),
			})
		}
	}
	return lines
}

// came returns the requests that came since the last call, oldest first.
func (h *History) came(ctx context.Context) ([]reconfigure.Request, error) {
	if h.newest == 0 {
		return h.reader.RequestsSince(ctx, h.filter.Since)
	}
	for limit := 20; ; limit *= 10 {
		newest, err := h.reader.Requests(ctx, limit)
		if err != nil {
			return nil, err
		}
		slices.Reverse(newest)
		i := slices.IndexFunc(newest, func(r reconfigure.Request) bool { return r.ID > h.newest })
		switch {
		case i < 0:
			return nil, nil
		case i > 0 || len(newest) < limit:
			return newest[i:], nil
		}
	}
}

// events returns the events since the last call, and reads the requests of their plans.
func (h *History) events(ctx context.Context) (all []reconfigure.Event, err error) {
	for {
		some, err := h.reader.EventsAfter(ctx, h.event, h.filter.Since, page)
		if err != nil {
			return nil, err
		}
		var plans []int64
		for _, e := range some {
			if _, known := h.plans[e.Plan]; !known && !slices.Contains(plans, e.Plan) {
				plans = append(plans, e.Plan)
			}
		}
		if len(plans) > 0 {
			requests, err := h.reader.RequestsOf(ctx, plans...)
			if err != nil {
				return nil, err
			}
			for _, plan := range plans {
				h.plans[plan] = requests[plan]
			}
		}
		all = append(all, some...)
		if len(some) > 0 {
			h.event = some[len(some)-1].ID
		}
		if len(some) < page {
			return all, nil
		}
	}
}

// ofEvent returns the line of an event. It is for the requests of its plan that name its node, or all nodes.
func (h *History) ofEvent(e reconfigure.Event) Line {
	l := Line{Time: e.Time, Plan: e.Plan, Phase: e.Phase, What: What(e.Level), Text: text.OneLine(e.Message)}
	if e.Node != "" {
		l.Nodes, l.Host = nodeset.Of(e.Node), text.OneLine(h.hostOf(e))
	}
	for _, id := range h.plans[e.Plan] {
		r, known := h.requests[id]
		if known && e.Node != "" && !r.Nodes.Empty() && !r.Nodes.Contains(e.Node) {
			continue
		}
		l.Requests, l.Jobs = append(l.Requests, id), append(l.Jobs, jobsOf(r, e.Node)...)
		if e.Node == "" {
			l.Nodes = l.Nodes.Union(r.Nodes)
		}
	}
	if e.Level == reconfigure.Failed {
		l.Class = reconfigure.ClassIn(e.Message)
	}
	return l
}

// hostOf returns the host of the instance that an event is about.
func (h *History) hostOf(e reconfigure.Event) string {
	for _, l := range slices.Backward(h.lives) {
		if l.Node == e.Node && (l.Plan == e.Plan || !l.Made.After(e.Time)) && !(l.Ended() && l.Removed.Before(e.Time)) {
			return l.Host
		}
	}
	return ""
}

// ofInstances returns the new lines of instances and of jobs.
func (h *History) ofInstances(ctx context.Context) (lines []Line, err error) {
	if h.lives, err = h.reader.Lives(ctx, h.filter.Since); err != nil {
		return nil, err
	}
	add := func(key string, l Line) {
		if key = fmt.Sprint(key, " ", l.What); !l.Time.IsZero() && !h.told[key] {
			h.told[key] = true
			lines = append(lines, l)
		}
	}
	for _, l := range h.lives {
		key := fmt.Sprint(l.Node, " ", l.Instance, " ", l.Plan)
		line := Line{
			Time: l.Made, Requests: h.plans[l.Plan], Nodes: nodeset.Of(l.Node), Plan: l.Plan, What: Made,
			Host: text.OneLine(l.Host), Text: text.OneLine(fmt.Sprintf("instance %s of image %s and flavor %s", l.Instance,
				cmp.Or(l.Image, l.ImageID), cmp.Or(l.Flavor, l.FlavorID))),
		}
		for _, id := range line.Requests {
			line.Jobs = append(line.Jobs, jobsOf(h.requests[id], l.Node)...)
		}
		add(key, line)
		line.Time, line.What, line.Text = l.Removed, Removed, text.OneLine("instance "+l.Instance)
		if l.Failed != "" {
			line.Class, line.Text = reconfigure.ClassIn(l.Failed), text.OneLine(line.Text+": "+l.Failed)
		}
		add(key, line)
	}
	runs, err := h.reader.JobRuns(ctx, h.filter.Since)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		key := fmt.Sprint("job ", r.ID, " ", r.Submitted.Unix())
		line := Line{
			Time: r.Submitted, Jobs: []int64{r.ID}, Nodes: r.Nodes, What: JobCame, Text: text.OneLine(by(r.User, "")),
		}
		add(key, line)
		line.Time, line.What, line.Text = r.Started, JobStarted, ""
		add(key, line)
		line.Time, line.What, line.Text = r.Ended, JobEnded, text.OneLine(r.State)
		add(key, line)
	}
	return lines, nil
}

// jobsOf returns the jobs that wait for a node of a request; for any of its nodes if the node is empty.
func jobsOf(r reconfigure.Request, node string) []int64 {
	var ids []int64
	for _, job := range r.Jobs {
		if node == "" || job.Nodes.Contains(node) {
			ids = append(ids, job.ID)
		}
	}
	return ids
}

// String returns the line for people.
func (l Line) String() string {
	words := []string{clock(l.Time)}
	if len(l.Requests) > 0 {
		ids := make([]string, len(l.Requests))
		for i, id := range l.Requests {
			ids[i] = id.String()
		}
		words = append(words, "request "+strings.Join(ids, ","))
	}
	if len(l.Requests) == 0 && len(l.Jobs) > 0 {
		words = append(words, fmt.Sprintf("job %d", l.Jobs[0]))
	}
	if !l.Nodes.Empty() {
		words = append(words, text.Clip(l.Nodes.String(), 40))
	}
	what := strings.TrimSpace(string(l.Phase) + " " + string(l.What))
	if l.Text != "" {
		what += ": " + l.Text
	}
	if words = append(words, what); l.Host != "" {
		words = append(words, "host "+l.Host)
	}
	return strings.Join(words, "  ")
}
