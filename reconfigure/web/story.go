package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/explain"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// storyView is the page of a job, a request or a node: its story as `explain` tells it, and more about each.
type storyView struct {
	explain.Story
	Wait     waitBar
	More     int // steps that are not shown
	Request  *requestView
	Node     *nodeView
	Evidence []reconfigure.Evidence
	Timeline string // the address of the timeline of it
	Requests []reconfigure.Request
}

// waitBar is the wait of a job as a bar.
type waitBar struct {
	Parts []waitPart
	Total time.Duration
}

// waitPart is a part of a wait.
type waitPart struct {
	explain.Part
	Class string
	X, W  string // in percent
}

// mostSteps is the number of steps that a page shows: the newest ones.
const mostSteps = 300

// partClasses are the classes of the bars, as in the timeline.
var partClasses = map[usage.Part]string{
	usage.PartSlurm: "slurm", usage.PartQueue: "queued", usage.PartEarlier: "failed", usage.PartCloud: "cloud",
	usage.PartBoot: "boot", usage.PartAnsible: "configure", usage.PartRegister: "register", usage.PartLaunch: "busy",
	usage.PartTurn: "slurm",
}

func newWaitBar(parts []explain.Part) (b waitBar) {
	for _, p := range parts {
		b.Total += p.Took.Duration()
	}
	x := 0.0
	for _, p := range parts {
		w := 0.0
		if b.Total > 0 {
			w = float64(p.Took.Duration()) / float64(b.Total) * 100
		}
		b.Parts = append(b.Parts, waitPart{p, partClasses[p.Part], percent(x), percent(w)})
		x += w
	}
	return b
}

func percent(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }

func newStory(s explain.Story) storyView {
	v := storyView{Story: s, Wait: newWaitBar(s.Wait)}
	if n := len(s.Steps) - mostSteps; n > 0 {
		v.More, v.Steps = n, s.Steps[n:]
	}
	return v
}

// since is how far back the page of a node looks.
const since = 7 * 24 * time.Hour

// tell returns the story of a subject.
func (s *Server) tell(ctx context.Context, subject explain.Subject) (storyView, explain.Journal, error) {
	known, err := explain.Read(ctx, s.Journal, subject, s.Now().Add(-since))
	if err != nil {
		return storyView{}, known, err
	}
	seen := s.answers.get(ctx).Seen
	if _, ended := known.Outcomes[subject.Request]; ended {
		seen = snapshot.Snapshot{} // the journal has all of it
	}
	facts := explain.Facts{Now: s.Now(), Cluster: s.Cluster(), Seen: seen, Journal: known}
	v := newStory(explain.New(facts, subject))
	v.Evidence = evidence(known.Evidence)
	return v, known, nil
}

// mostEvidence is the number of texts that a page shows, each with at most mostText bytes: the newest ones.
const (
	mostEvidence = 10
	mostText     = 16 << 10
)

func evidence(all []reconfigure.Evidence) []reconfigure.Evidence {
	all = slices.Clone(all[max(len(all)-mostEvidence, 0):])
	slices.Reverse(all)
	for i := range all {
		all[i].Text = text.Printable(reconfigure.Tail(all[i].Text, mostText))
	}
	return all
}

// number returns the number in the path of a page.
func number(r *http.Request) (int64, error) {
	n, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || n < 1 {
		return 0, badRequest(fmt.Errorf("%q is not a number", r.PathValue("id")))
	}
	return n, nil
}

func (s *Server) job(r *http.Request) (view, error) {
	id, err := number(r)
	if err != nil {
		return view{}, err
	}
	v, known, err := s.tell(r.Context(), explain.Subject{Job: id})
	v.Timeline, v.Requests = selection{Job: id}.URL(), known.Requests
	return view{fmt.Sprintf("Job %d", id), "story", v}, err
}

// nodeView is what only the page of a node has.
type nodeView struct {
	Group string
	Lives []reconfigure.Life // the newest first
	Now   *status.Node
}

func (s *Server) node(r *http.Request) (view, error) {
	name := r.PathValue("node")
	if nodes, err := nodeset.Parse(name); err != nil || nodes.Len() != 1 {
		return view{}, badRequest(fmt.Errorf("%q is not the name of a node", name))
	}
	v, known, err := s.tell(r.Context(), explain.Subject{Node: name})
	if err != nil {
		return view{}, err
	}
	now := s.Now()
	lives, err := s.Journal.LivesOf(r.Context(), reconfigure.LifeFilter{
		Since: now.Add(-longest), Until: now, Nodes: []string{name},
	})
	if err != nil {
		return view{}, err
	}
	group := groupIn(s.Cluster())(name)
	if group == "" && len(lives) == 0 && len(known.Requests) == 0 {
		return view{}, notFound("no node group declares %s, and no instance is known of such a name", name)
	}
	report, _, err := s.report(r.Context())
	if err != nil {
		return view{}, err
	}
	slices.Reverse(lives)
	slices.Reverse(v.Steps)
	v.Node = &nodeView{Group: group, Lives: lives[:min(len(lives), perPage)]}
	if i := slices.IndexFunc(report.Nodes, func(n status.Node) bool { return n.Node == name }); i >= 0 {
		v.Node.Now = &report.Nodes[i]
	}
	v.Timeline = selection{Node: name, Window: "7d"}.URL()
	return view{"Node " + name, "story", v}, nil
}

// requestView is what only the page of a request has.
type requestView struct {
	reconfigure.Request
	Outcome   *reconfigure.Outcome
	Verdicts  []reconfigure.Verdict
	Terraform []note // the plans of Terraform, and what it did
	Fence     string // the verdict of the fence and the guard
	Log       []logLine
	More      int // lines that are not shown
	Live      bool
}

// note is a message about a run, at a time.
type note struct {
	Time time.Time
	Text string
}

// logLine is an event.
type logLine struct {
	Time  time.Time
	Node  string
	Phase reconfigure.Phase
	Level reconfigure.Level
	Text  string
}

// mostLines is the number of lines of the log that a page shows: the newest ones.
const mostLines = 200

func (s *Server) request(r *http.Request) (view, error) {
	n, err := number(r)
	if err != nil {
		return view{}, err
	}
	id := reconfigure.RequestID(n)
	v, known, err := s.tell(r.Context(), explain.Subject{Request: id})
	if err != nil {
		return view{}, err
	}
	if len(known.Requests) == 0 {
		return view{}, notFound("there is no request %s, or it is older than keep_days", id)
	}
	outcome, ended := known.Outcomes[id]
	v.Request = newRequest(known.Requests[0], known.Events[id], outcome, ended)
	v.Timeline = selection{Request: id}.URL()
	return view{"Request " + id.String(), "story", v}, nil
}

// newRequest makes the view of a request.
func newRequest(
	r reconfigure.Request, events []reconfigure.Event, o reconfigure.Outcome, ended bool,
) *requestView {
	v := &requestView{Request: r, Verdicts: r.Verdicts, Live: !ended}
	if ended {
		v.Outcome, v.Verdicts = &o, o.Verdicts
	}
	for _, e := range events {
		if e.Node == "" && strings.HasPrefix(e.Message, "Terraform: ") {
			v.Terraform = append(v.Terraform, note{e.Time, text.OneLine(strings.TrimPrefix(e.Message, "Terraform: "))})
		}
	}
	v.Fence = fence(v.Verdicts, len(v.Terraform) > 0)
	v.Log, v.More = logOf(events)
	return v
}

// fence returns what the fence and the guard decided.
func fence(verdicts []reconfigure.Verdict, planned bool) string {
	for _, v := range verdicts {
		if v.Status == reconfigure.StatusRefused || v.Class == reconfigure.ClassRefused {
			return "refused for " + v.Node + ": " + text.OneLine(v.Reason)
		}
	}
	if planned {
		return "passed: Terraform's plan touched no other node"
	}
	return ""
}

// logOf returns the newest events, and how many are not shown.
func logOf(events []reconfigure.Event) (lines []logLine, more int) {
	more = max(len(events)-mostLines, 0)
	for _, e := range events[more:] {
		lines = append(lines, logLine{e.Time, e.Node, e.Phase, e.Level, text.Clip(text.OneLine(e.Message), 500)})
	}
	return lines, more
}

func (s *Server) campaign(r *http.Request) (view, error) {
	c, there, err := s.Journal.Campaign(r.Context())
	if err != nil || !there {
		return view{"Campaign", "campaign", (*campaignView)(nil)}, err
	}
	return view{"Campaign", "campaign", newCampaign(c, s.Now())}, nil
}

// campaignView is the newest campaign.
type campaignView struct {
	reconfigure.Campaign
	Words          []string
	Meter          meter
	Done, Outdated int
}

func newCampaign(c reconfigure.Campaign, now time.Time) *campaignView {
	of := status.NewCampaign(c)
	return &campaignView{
		Campaign: c, Words: of.Words(now), Done: c.Done.Len(), Outdated: of.Outdated.Len(),
		Meter: newMeter("updated", c.Done.Len(), of.Outdated.Len()),
	}
}

// driftView lists the nodes that differ from the declaration.
type driftView struct {
	Nodes []status.Node // the first ones
	All   nodeset.NodeSet
	Known bool
}

func (s *Server) drift(r *http.Request) (view, error) {
	report, answers, err := s.report(r.Context())
	v := driftView{Known: answers.Seen.Asked(snapshot.Cloud) && answers.Seen.Asked(snapshot.Terraform)}
	var names []string
	for _, n := range report.Nodes {
		if len(n.Outdated) == 0 {
			continue
		}
		if names = append(names, n.Node); len(names) <= perList {
			v.Nodes = append(v.Nodes, n)
		}
	}
	v.All = nodeset.Of(names...)
	return view{"Drift", "drift", v}, err
}

// periods are the periods of the report of hours.
var periods = map[string]time.Duration{"1d": 24 * time.Hour, "7d": since, "30d": 30 * 24 * time.Hour}

// hoursView is what the hours of instances went to.
type hoursView struct {
	Period        string
	Periods       []link
	Groups, Users []hoursRow
	TooMany       bool // there are too many jobs
	Since         time.Time
}

// hoursRow is the hours of a group or a user.
type hoursRow struct {
	Name      string
	Instances int
	usage.Hours
	Bar []slice
}

func (s *Server) usedHours(r *http.Request) (view, error) {
	period := r.URL.Query().Get("period")
	if period == "" {
		period = "7d"
	}
	length, known := periods[period]
	if !known {
		return view{}, badRequest(errors.New("the period is 1d, 7d or 30d"))
	}
	v, err := s.hours[period].get(func() (hoursView, error) { return s.hoursOf(r.Context(), period, length) })
	return view{"Hours", "hours", v}, err
}

// hoursOf reads the instances and the jobs of a period.
func (s *Server) hoursOf(ctx context.Context, period string, length time.Duration) (v hoursView, err error) {
	now := s.Now()
	v = hoursView{Period: period, Since: now.Add(-length)}
	for _, name := range []string{"1d", "7d", "30d"} {
		v.Periods = append(v.Periods, link{name, "hours?period=" + name, name == period})
	}
	f := usage.Facts{Now: now}
	var all bool
	if f.Runs, all, err = s.Journal.RunsBetween(ctx, v.Since, now, mostRuns); err != nil || !all {
		v.TooMany = !all
		return v, err
	}
	if f.Lives, err = s.Journal.Lives(ctx, v.Since); err != nil {
		return v, err
	}
	jobs := make([]int64, len(f.Runs))
	for i, run := range f.Runs {
		jobs[i] = run.ID
	}
	if f.Requests, err = s.Journal.RequestsFor(ctx, jobs...); err != nil {
		return v, err
	}
	report := usage.NewReport(f, v.Since, "")
	v.Groups, v.Users = hoursRows(report.Groups, report.Instances), hoursRows(report.Users, nil)
	return v, nil
}

// hoursRows returns the rows, the largest first.
func hoursRows(all map[string]usage.Hours, instances map[string]int) []hoursRow {
	rows := make([]hoursRow, 0, len(all))
	for name, h := range all {
		row := hoursRow{Name: name, Instances: instances[name], Hours: h}
		x := 0.0
		for _, part := range []struct {
			state string
			time.Duration
		}{{"busy", h.Used}, {"idle", h.Idle}, {"boot", h.Booting}, {"failed", h.Wasted}} {
			if part.Duration > 0 {
				w := float64(part.Duration) / float64(h.Total()) * 100
				row.Bar = append(row.Bar, slice{part.state, int(part.Hours()), percent(x), percent(w)})
				x += w
			}
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b hoursRow) int {
		if a.Total() != b.Total() {
			return map[bool]int{true: -1, false: 1}[a.Total() > b.Total()]
		}
		return strings.Compare(a.Name, b.Name)
	})
	return rows
}
