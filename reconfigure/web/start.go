package web

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// startView is the start page.
type startView struct {
	Needs    []need
	Groups   []groupView
	Quota    []meter
	Limits   []meter
	Requests []status.Request
	Campaign []string
	Worker   string
	Look     *status.Look
}

// groupView is a node group.
type groupView struct {
	status.Group
	Bar         []slice
	Max, Exists int
	Known       bool // the instances are known
	Drifts      int  // outdated nodes; 0 also if they are unknown
	Today, Week usage.Typical
}

// slice is a part of a bar: the nodes of one state.
type slice struct {
	State string
	Count int
	X, W  string // in percent
}

// meter is an amount with its limit.
type meter struct {
	Name        string
	Used, Limit int
	W           string // in percent
	Full        bool   // nearly
	Unit        string
}

func newMeter(name string, used, limit int) meter {
	m := meter{Name: name, Used: used, Limit: limit}
	if limit > 0 {
		m.W = strconv.FormatFloat(min(float64(used)/float64(limit)*100, 100), 'f', 1, 64)
		m.Full = used*10 >= limit*9
	}
	return m
}

// Left returns how much is left.
func (m meter) Left() int { return max(m.Limit-m.Used, 0) }

func (s *Server) start(r *http.Request) (view, error) {
	report, answers, err := s.report(r.Context())
	if err != nil {
		return view{}, err
	}
	ready, err := s.readyTimes(r.Context())
	if err != nil {
		return view{}, err
	}
	look, err := s.Last()
	if err != nil {
		look = reconcile.Look{} // as in the report
	}
	return view{"Overview", "start", newStart(s.Cluster(), report, answers, look, ready, s.Now())}, nil
}

// newStart makes the start page.
func newStart(
	c reconfigure.Cluster, r status.Report, a Answers, look reconcile.Look, ready readyTimes, now time.Time,
) startView {
	v := startView{
		Needs: needsOf(r, look, now), Requests: r.Requests, Worker: r.Leader, Look: r.Reconcile, Quota: quota(a.Room),
	}
	if r.Campaign != nil {
		v.Campaign = r.Campaign.Words(now)
	}
	for _, l := range r.Limits {
		v.Limits = append(v.Limits, newMeter(join(l.Groups), l.Nodes, l.Max))
	}
	for _, g := range r.Groups {
		view := groupView{
			Group: g, Bar: barOf(r.Nodes, g.Group, a.Seen), Today: ready.today[g.Group], Week: ready.week[g.Group],
			Known: a.Seen.Asked(snapshot.Terraform),
		}
		if g.Outdated != nil {
			view.Drifts = *g.Outdated
		}
		if declared, err := reconfigure.GroupNamed(c.Groups, g.Group); err == nil {
			view.Max = declared.Max
		}
		for _, n := range r.Nodes {
			if _, exists := a.Seen.Instances[n.Node]; exists && n.Group == g.Group {
				view.Exists++
			}
		}
		v.Groups = append(v.Groups, view)
	}
	return v
}

func join(names []string) string {
	all := ""
	for i, name := range names {
		all += map[bool]string{true: "", false: ", "}[i == 0] + name
	}
	return all
}

// quota returns the quota of the project that has a limit.
func quota(room *reconfigure.Room) (all []meter) {
	if room == nil {
		return nil
	}
	add := func(name, unit string, used, limit int) {
		if limit > 0 {
			m := newMeter(name, used, limit)
			m.Unit = unit
			all = append(all, m)
		}
	}
	add("instances", "", room.Used.Instances, room.Limit.Instances)
	add("cores", "", room.Used.Cores, room.Limit.Cores)
	add("memory", "GiB", room.Used.RAM/1024, room.Limit.RAM/1024)
	return all
}

// barStates are the states of a bar, in order.
var barStates = []string{"busy", "idle", "powering", "drained", "down", "other", "off"}

// stateOf returns the one state of a node that a bar shows.
func stateOf(s reconfigure.NodeState) string {
	switch {
	case s.Down():
		return "down"
	case s.PoweringUp(), s.PoweringDown():
		return "powering"
	case s.PoweredDown():
		return "off"
	case s.Drained():
		return "drained"
	case s.Running():
		return "busy"
	case s.Usable():
		return "idle"
	}
	return "other"
}

// barOf returns the bar of a group; none if Slurm does not answer.
func barOf(nodes []status.Node, group string, seen snapshot.Snapshot) (bar []slice) {
	if !seen.Asked(snapshot.Slurm) {
		return nil
	}
	counts, all := map[string]int{}, 0
	for _, n := range nodes {
		if n.Group == group && n.Kind != status.KindControl {
			counts[stateOf(seen.States[n.Node])]++
			all++
		}
	}
	x := 0.0
	for _, state := range barStates {
		n := counts[state]
		if n == 0 {
			continue
		}
		w := float64(n) / float64(all) * 100
		bar = append(bar, slice{state, n, strconv.FormatFloat(x, 'f', 2, 64), strconv.FormatFloat(w, 'f', 2, 64)})
		x += w
	}
	return bar
}

// typical returns the median and the 95th percentile for people.
func typical(t usage.Typical) string {
	if t.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("%s, p95 %s", text.Span(t.Median), text.Span(t.P95))
}

// requestRow is a request of the list.
type requestRow struct {
	reconfigure.Request
	Code     reconfigure.Code // empty: it has no outcome
	Finished time.Time
	Error    string
}

// Took returns how long it took, or takes.
func (r requestRow) Took(now time.Time) string {
	end := r.Finished
	if end.IsZero() {
		end = now
	}
	return text.Span(end.Sub(r.Submitted))
}

// State returns its outcome.
func (r requestRow) State() string { return cmp.Or(string(r.Code), "open") }

func (s *Server) requests(r *http.Request) (view, error) {
	newest, err := s.Journal.Requests(r.Context(), perList)
	if err != nil {
		return view{}, err
	}
	ids := make([]reconfigure.RequestID, len(newest))
	for i, q := range newest {
		ids[i] = q.ID
	}
	outcomes, err := s.Journal.OutcomesOf(r.Context(), ids...)
	rows := make([]requestRow, len(newest))
	for i, q := range newest {
		o := outcomes[q.ID]
		rows[i] = requestRow{q, o.Code, o.Finished, o.Error}
	}
	return view{"Requests", "requests", rows}, err
}
