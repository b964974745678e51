package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

const (
	perPage = 50 // rows of a timeline
	perList = 200
	// mostRuns is the number of jobs up to which a timeline tells busy from idle. With more, the window is so long that a
	// column has many jobs.
	mostRuns = 20_000
	// mostQueued is the number of instances up to which the time before their plan is shown.
	mostQueued = 300
)

// phase is what a node is in at a time. A later one wins where several share a column.
type phase uint8

const (
	gone phase = iota
	up         // it is registered, and the jobs are unknown
	idle
	busy
	queued
	cloud
	boot
	configure
	register
	phases
)

var phaseNames = [phases]string{"gone", "up", "idle", "busy", "queued", "cloud", "boot", "configure", "register"}

// span is a phase from a time to another.
type span struct {
	phase    phase
	from, to time.Time
}

// spansOf returns the phases of a life. An open one lasts until now. Jobs are painted over it.
func spansOf(l reconfigure.Life, asked, now time.Time, jobs bool) (all []span) {
	running := up
	if jobs {
		running = idle
	}
	marks := []span{
		{queued, asked, l.Planned}, {phase: cloud, from: l.Planned}, {phase: boot, from: l.Made},
		{phase: configure, from: l.Booted}, {phase: register, from: l.Configured}, {phase: running, from: l.Registered},
	}
	if l.Plan == 0 { // it was found running
		marks = []span{{phase: running, from: l.Made}}
	}
	end := now
	if l.Ended() {
		end = l.Removed
	}
	for _, m := range marks {
		if m.from.IsZero() || m.phase == queued && (m.to.IsZero() || !m.from.Before(m.to)) {
			continue
		}
		if n := len(all); n > 0 && all[n-1].to.IsZero() {
			all[n-1].to = m.from
		}
		all = append(all, m)
	}
	if n := len(all); n > 0 {
		all[n-1].to = end
	}
	return slices.DeleteFunc(all, func(s span) bool { return s.to.Before(s.from) })
}

// bars paints spans into the columns of a window, and returns the path of each phase: horizontal lines of SVG.
func (w window) bars(spans []span) []path {
	var cells [columns]phase
	for _, s := range spans {
		if !s.to.After(w.Since) || !s.from.Before(w.Until) {
			continue
		}
		from, to := w.column(s.from), w.column(s.to)
		to = min(max(to, from+1), columns) // a short phase must be visible
		for c := min(from, columns-1); c < to; c++ {
			cells[c] = max(cells[c], s.phase)
		}
	}
	var lines [phases][]byte
	for c := 0; c < columns; {
		end := c + 1
		for end < columns && cells[end] == cells[c] {
			end++
		}
		if p := cells[c]; p != gone {
			lines[p] = fmt.Appendf(lines[p], "M%d 0h%d", c, end-c)
		}
		c = end
	}
	var all []path
	for p, line := range lines {
		if line != nil {
			all = append(all, path{phaseNames[p], string(line)})
		}
	}
	return all
}

// path is the lines of one class.
type path struct{ Class, D string }

// row is a node of a timeline.
type row struct {
	Node, Group string
	Y           int
	Usual       string // the path of the 95th percentiles, behind the bars
	Bars        []path
	Failures    string // the path of the marks
	Words       string // for those who do not see it
}

// facts are what the rows of a timeline are made of.
type facts struct {
	window   window
	now      time.Time
	nodes    []string // the rows
	group    func(node string) string
	lives    []reconfigure.Life
	failures []reconfigure.Event
	runs     []reconfigure.JobRun
	jobs     bool                     // the runs are known
	asked    map[int64]time.Time      // when the request of a plan was submitted
	usual    map[string]usage.Typical // by group
}

// rowHeight is the distance of two rows, in pixels.
const rowHeight = 26

// rows makes the rows of a timeline.
func (f facts) rows() []row {
	all := make([]row, len(f.nodes))
	place := map[string]int{}
	spans := make([][]span, len(f.nodes))
	counts := make([]struct{ lives, failed int }, len(f.nodes))
	for i, node := range f.nodes {
		place[node] = i
		all[i] = row{Node: node, Group: f.group(node), Y: i*rowHeight + rowHeight/2}
	}
	for _, l := range f.lives {
		i, shown := place[l.Node]
		if !shown {
			continue
		}
		counts[i].lives++
		spans[i] = append(spans[i], spansOf(l, f.asked[l.Plan], f.now, f.jobs)...)
		all[i].Usual += f.usualOf(l)
	}
	for _, r := range f.runs {
		if r.Started.IsZero() {
			continue
		}
		s := span{busy, r.Started, r.Ended}
		if s.to.IsZero() {
			s.to = f.now
		}
		f.onRows(r.Nodes, place, func(i int) { spans[i] = append(spans[i], s) })
	}
	marked := map[[2]int]bool{}
	for _, e := range f.failures {
		i, shown := place[e.Node]
		if !shown {
			continue
		}
		counts[i].failed++
		c := f.window.column(e.Time)
		if at := [2]int{i, c}; !marked[at] {
			marked[at] = true
			all[i].Failures += fmt.Sprintf("M%d -10v20", c)
		}
	}
	for i := range all {
		all[i].Bars = f.window.bars(spans[i])
		all[i].Words = text.Count(counts[i].lives, "instance")
		if n := counts[i].failed; n > 0 {
			all[i].Words += ", " + text.Count(n, "failure")
		}
	}
	return all
}

// onRows calls do for each row whose node is in a set.
func (f facts) onRows(nodes nodeset.NodeSet, place map[string]int, do func(i int)) {
	if nodes.Len() < len(place) {
		for node := range nodes.All() {
			if i, shown := place[node]; shown {
				do(i)
			}
		}
		return
	}
	for node, i := range place {
		if nodes.Contains(node) {
			do(i)
		}
	}
}

// usualOf returns the path of what is usual for a life, from its plan on; empty if it is too short to see.
func (f facts) usualOf(l reconfigure.Life) string {
	t, known := f.usual[l.Group]
	if !known || l.Planned.IsZero() || l.Planned.Before(f.window.Since) || l.Planned.After(f.window.Until) {
		return ""
	}
	from, to := f.window.column(l.Planned), f.window.column(l.Planned.Add(t.P95))
	if to-from < 2 {
		return ""
	}
	return fmt.Sprintf("M%d 0h%d", from, to-from)
}

// timelineView is the timeline of nodes.
type timelineView struct {
	selection
	From, To       time.Time
	Rows           []row
	Height, Middle int
	Ticks          []tick
	Count          int // the nodes of all pages
	First, Last    int // the numbers of the rows of this page
	Jobs           bool
	Legend         []string
	Lengths        []link
	Earlier, Later string
	Prev, Next     string // the other pages
	Other          string // the same as a table, or as bars
	Groups         []string
	Classes        []reconfigure.Class
	Lives          []reconfigure.Life // of the table
	Failures       []reconfigure.Event
	Columns        int
}

// link is an address with its text.
type link struct {
	Text, URL string
	Here      bool
}

func (s *Server) timeline(r *http.Request) (view, error) {
	pick, err := parseSelection(r.URL.Query())
	if err != nil {
		return view{}, badRequest(err)
	}
	v, err := s.timelineOf(r.Context(), pick)
	return view{"Timeline", "timeline", v}, err
}

// timelineOf reads the journal for the rows of one page.
func (s *Server) timelineOf(ctx context.Context, pick selection) (v timelineView, err error) {
	now, cluster := s.Now(), s.Cluster()
	named, begin, end, err := s.named(ctx, pick)
	if err != nil {
		return v, err
	}
	f := facts{window: newWindow(pick, begin, end, now), now: now, group: groupIn(cluster)}
	if f.nodes, err = s.nodesOf(ctx, pick, f.window, named, cluster); err != nil {
		return v, err
	}
	v = newTimeline(pick, f.window, len(f.nodes), now)
	for _, g := range cluster.Groups {
		v.Groups = append(v.Groups, g.Name)
	}
	f.nodes = f.nodes[max(v.First-1, 0):v.Last]
	if len(f.nodes) == 0 {
		return v, nil
	}
	if err := s.fill(ctx, &f, pick); err != nil {
		return v, err
	}
	v.Jobs = f.jobs
	if pick.Table {
		v.Lives, v.Failures = f.lives, f.failures
		slices.SortStableFunc(v.Lives, func(a, b reconfigure.Life) int { return b.Made.Compare(a.Made) })
		slices.Reverse(v.Failures)
		v.Lives, v.Failures = v.Lives[:min(len(v.Lives), perList)], v.Failures[:min(len(v.Failures), perList)]
		return v, nil
	}
	v.Rows, v.Height, v.Ticks = f.rows(), len(f.nodes)*rowHeight, f.window.ticks(now.Location())
	v.Legend = legend(v.Rows)
	return v, nil
}

// newTimeline returns the view without its rows.
func newTimeline(pick selection, w window, count int, now time.Time) timelineView {
	v := timelineView{
		selection: pick, From: w.Since, To: w.Until, Count: count, Classes: reconfigure.Classes(), Columns: columns,
	}
	pick.Page = min(pick.Page, max((count+perPage-1)/perPage, 1))
	v.First, v.Last = min((pick.Page-1)*perPage+1, count), min(pick.Page*perPage, count)
	other := func(change func(s *selection)) string {
		s := pick
		change(&s)
		return s.URL()
	}
	for _, length := range lengths {
		url := other(func(s *selection) { s.Window, s.Page = length, 0 })
		v.Lengths = append(v.Lengths, link{length, url, pick.Window == length || pick.Window == "" && fits(w, length)})
	}
	at := func(until time.Time) func(s *selection) {
		return func(s *selection) {
			if s.Until = until; !until.Before(now) {
				s.Until = time.Time{}
			}
			if s.Window == "" {
				s.Window = strconv.Itoa(int(w.length()/time.Minute)) + "m"
			}
		}
	}
	v.Earlier = other(at(w.Until.Add(-w.length() / 2)))
	if w.Until.Before(now) {
		v.Later = other(at(w.Until.Add(w.length() / 2)))
	}
	if pick.Page > 1 {
		v.Prev = other(func(s *selection) { s.Page-- })
	}
	if v.Last < count {
		v.Next = other(func(s *selection) { s.Page++ })
	}
	v.Other = other(func(s *selection) { s.Table = !s.Table })
	return v
}

func fits(w window, length string) bool {
	d, err := text.ParseDuration(length)
	return err == nil && d == w.length()
}

// legend returns the classes of the bars that occur, in order.
func legend(rows []row) (all []string) {
	seen := map[string]bool{}
	for _, r := range rows {
		for _, b := range r.Bars {
			seen[b.Class] = true
		}
		seen["failed"] = seen["failed"] || r.Failures != ""
		seen["usual"] = seen["usual"] || r.Usual != ""
	}
	order := []string{"queued", "cloud", "boot", "configure", "register", "busy", "idle", "up", "failed", "usual"}
	for _, class := range order {
		if seen[class] {
			all = append(all, class)
		}
	}
	return all
}

// groupIn returns the function that names the group of a node.
func groupIn(c reconfigure.Cluster) func(node string) string {
	return func(node string) string {
		if node == c.Control.Name {
			return reconfigure.ControlGroup
		}
		g, _ := c.GroupOf(node)
		return g.Name
	}
}

// named returns the nodes of the job and of the request that a selection names, and their period. Nil: it names none.
func (s *Server) named(ctx context.Context, pick selection) (named *nodeset.NodeSet, begin, end time.Time, err error) {
	var nodes nodeset.NodeSet
	if pick.Request != 0 {
		r, there, err := s.Journal.Request(ctx, pick.Request)
		if err != nil {
			return nil, begin, end, err
		}
		if !there {
			return nil, begin, end, notFound("there is no request %s", pick.Request)
		}
		outcomes, err := s.Journal.OutcomesOf(ctx, pick.Request)
		if err != nil {
			return nil, begin, end, err
		}
		begin, end = r.Submitted, outcomes[pick.Request].Finished
		if nodes = r.Nodes; !nodes.Empty() {
			named = &nodes
		}
	}
	if pick.Job == 0 {
		return named, begin, end, nil
	}
	of, from, to, err := s.jobNodes(ctx, pick.Job)
	if err != nil {
		return nil, begin, end, err
	}
	if from.IsZero() {
		return nil, begin, end, notFound("the journal does not know job %d", pick.Job)
	}
	if named != nil {
		of = of.Intersect(*named)
	}
	return &of, from, to, nil
}

// jobNodes returns the nodes that a job had, or that were made for it, and its period.
func (s *Server) jobNodes(ctx context.Context, job int64) (nodes nodeset.NodeSet, begin, end time.Time, err error) {
	runs, err := s.Journal.JobRuns(ctx, time.Unix(0, 0), job)
	if err != nil {
		return nodes, begin, end, err
	}
	first := func(t time.Time) {
		if begin.IsZero() || t.Before(begin) {
			begin = t
		}
	}
	for _, run := range runs {
		nodes, end = nodes.Union(run.Nodes), run.Ended
		first(run.Submitted)
	}
	requests, err := s.Journal.RequestsFor(ctx, job)
	for _, r := range requests {
		first(r.Submitted)
		for _, j := range r.Jobs {
			if j.ID == job {
				nodes = nodes.Union(j.Nodes)
			}
		}
	}
	return nodes, begin, end, err
}

// nodesOf returns the nodes of a timeline, in order: those that had an instance in the window, or a failure, and that
// the selection selects.
func (s *Server) nodesOf(
	ctx context.Context, pick selection, w window, named *nodeset.NodeSet, cluster reconfigure.Cluster,
) ([]string, error) {
	failures, err := s.Journal.FailuresOf(ctx, w.Since, w.Until)
	if err != nil {
		return nil, err
	}
	var names []string
	if pick.Class == "" {
		if names, err = s.Journal.NodesWithLives(ctx, w.Since, w.Until); err != nil {
			return nil, err
		}
	}
	for _, e := range failures {
		if pick.Class == "" || reconfigure.ClassIn(e.Message) == pick.Class {
			names = append(names, e.Node)
		}
	}
	nodes := nodeset.Of(names...)
	if pick.Host != "" || pick.Image != "" {
		lives, err := s.Journal.LivesOf(ctx, pick.lives(w, nil))
		if err != nil {
			return nil, err
		}
		there := make([]string, len(lives))
		for i, l := range lives {
			there[i] = l.Node
		}
		nodes = nodes.Intersect(nodeset.Of(there...))
	}
	if pick.Group != "" {
		of := nodeset.NodeSet{}
		if g, err := reconfigure.GroupNamed(cluster.Groups, pick.Group); err == nil {
			of = g.Nodes()
		}
		if pick.Group == reconfigure.ControlGroup {
			of = nodeset.Of(cluster.Control.Name)
		}
		nodes = nodes.Intersect(of)
	}
	if named != nil {
		nodes = nodes.Intersect(*named)
	}
	if pick.Node != "" {
		nodes = nodes.Intersect(pick.nodes)
	}
	return nodes.Names(), nil
}

// lives returns the filter of the lives of a selection.
func (s selection) lives(w window, nodes []string) reconfigure.LifeFilter {
	return reconfigure.LifeFilter{Since: w.Since, Until: w.Until, Nodes: nodes, Host: s.Host, Image: s.Image}
}

// fill reads what the rows of one page show.
func (s *Server) fill(ctx context.Context, f *facts, pick selection) (err error) {
	if f.lives, err = s.Journal.LivesOf(ctx, pick.lives(f.window, f.nodes)); err != nil {
		return err
	}
	if f.failures, err = s.Journal.FailuresOf(ctx, f.window.Since, f.window.Until, f.nodes...); err != nil {
		return err
	}
	if f.runs, f.jobs, err = s.Journal.RunsBetween(ctx, f.window.Since, f.window.Until, mostRuns); err != nil {
		return err
	}
	ready, err := s.readyTimes(ctx)
	if err != nil {
		return err
	}
	f.usual = ready.week
	f.asked, err = s.submitted(ctx, f.lives)
	return err
}

// submitted returns when the request of each plan was submitted, for few lives.
func (s *Server) submitted(ctx context.Context, lives []reconfigure.Life) (map[int64]time.Time, error) {
	if len(lives) > mostQueued {
		return nil, nil // the time before a plan is too short to see
	}
	plans := map[int64]bool{}
	for _, l := range lives {
		if l.Plan != 0 {
			plans[l.Plan] = true
		}
	}
	requests, err := s.Journal.RequestsOf(ctx, slices.Sorted(maps.Keys(plans))...)
	if err != nil {
		return nil, err
	}
	at, known := map[int64]time.Time{}, map[reconfigure.RequestID]time.Time{}
	for plan, ids := range requests {
		for _, id := range ids {
			if _, read := known[id]; !read {
				r, _, err := s.Journal.Request(ctx, id)
				if err != nil {
					return nil, err
				}
				known[id] = r.Submitted
			}
			if t := known[id]; at[plan].IsZero() || t.Before(at[plan]) {
				at[plan] = t
			}
		}
	}
	return at, nil
}

// readyTimes are how long nodes took to become ready, by group.
type readyTimes struct{ today, week map[string]usage.Typical }

func (s *Server) readyTimes(ctx context.Context) (readyTimes, error) {
	return s.ready.get(func() (readyTimes, error) {
		const day = 24 * time.Hour
		now := s.Now()
		lives, err := s.Journal.Lives(ctx, now.Add(-7*day))
		return readyTimes{usage.Ready(lives, now.Add(-day)), usage.Ready(lives, now.Add(-7*day))}, err
	})
}

// moment is what the hover of a timeline shows, as JSON.
type moment struct {
	Node  string   `json:"node"`
	Lines []string `json:"lines"`
}

// at answers what a node was at a time: the last instance before it, and the failures near it.
func (s *Server) at(w http.ResponseWriter, r *http.Request) {
	m, err := s.moment(r.Context(), r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m) // the reader may be gone
}

func (s *Server) moment(ctx context.Context, q url.Values) (m moment, err error) {
	m.Node = q.Get("node")
	at, err := time.Parse(time.RFC3339, q.Get("time"))
	if err != nil {
		return m, err
	}
	around, err := strconv.Atoi(q.Get("around")) // the seconds of a column
	if err != nil || around < 0 || around > 1e6 {
		return m, fmt.Errorf("around needs seconds")
	}
	near := time.Duration(around) * time.Second
	f := reconfigure.LifeFilter{Since: at.Add(-near), Until: at.Add(near), Nodes: []string{m.Node}}
	lives, err := s.Journal.LivesOf(ctx, f)
	if err != nil {
		return m, err
	}
	failures, err := s.Journal.FailuresOf(ctx, f.Since, f.Until, m.Node)
	if err != nil {
		return m, err
	}
	m.Lines = momentLines(lives, failures, at)
	return m, nil
}

// momentLines returns what is known around a time.
func momentLines(lives []reconfigure.Life, failures []reconfigure.Event, at time.Time) []string {
	lines := []string{at.Local().Format(time.DateTime)}
	if len(lives) == 0 && len(failures) == 0 {
		return append(lines, "no instance")
	}
	for _, l := range lives[max(len(lives)-2, 0):] {
		line := "instance " + l.Instance
		for _, part := range [][2]string{
			{"image", cmp.Or(l.Image, l.ImageID)}, {"flavor", cmp.Or(l.Flavor, l.FlavorID)}, {"host", l.Host},
		} {
			if part[1] != "" {
				line += ", " + part[0] + " " + part[1]
			}
		}
		if !l.Planned.IsZero() && !l.Registered.IsZero() {
			line += ", ready in " + text.Span(l.Registered.Sub(l.Planned))
		}
		lines = append(lines, text.Clip(text.OneLine(line), 300))
		if l.Failed != "" && len(failures) == 0 {
			lines = append(lines, text.Clip(text.OneLine("it did not become ready: "+l.Failed), 300))
		}
	}
	for _, e := range failures[max(len(failures)-3, 0):] {
		lines = append(lines, text.Clip(text.OneLine(fmt.Sprintf("%s failed (%s): %s", e.Phase,
			reconfigure.ClassIn(e.Message), e.Message)), 300))
	}
	return lines
}
