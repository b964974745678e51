package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Layout is how a report is laid out for people.
type Layout struct {
	Now   time.Time
	Wide  bool // all columns, a line for every node, nothing cut off
	Width int  // in characters, of the lines of a table that is not wide
	// Verbose prints the answers of other programs in full.
	Verbose bool
	// CloudTold leaves out why the cloud does not answer: the caller prints it.
	CloudTold bool
}

// TableWidth is the width of the table if the terminal is not wider. Longer lines are cut off; the wide table has them
// in full.
const TableWidth = 120

// Write prints the report for people.
func (r Report) Write(w io.Writer, l Layout) error {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s\n\n", r.Cluster)
	r.writeNodes(&b, l)
	if len(r.Groups) > 0 {
		b.WriteString("\n")
		r.writeGroups(&b, l)
	}
	r.writeRequests(&b, l)
	told := slices.DeleteFunc(slices.Clone(r.Unreachable), func(u snapshot.Unreachable) bool {
		return l.CloudTold && u.Source == snapshot.Cloud
	})
	if len(told) > 0 {
		b.WriteString("\n")
	}
	writeUnreachable(&b, told, l.Verbose)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeUnreachable(b *strings.Builder, all []snapshot.Unreachable, full bool) {
	for _, u := range all {
		reason := u.Reason
		if line, cut := text.Brief(reason); cut && !full {
			reason = line + " (-v prints all of it)"
		} else if !full {
			reason = line
		}
		fmt.Fprintf(b, "%s does not answer: %s\n", u.Source.Words(), reason)
	}
}

func (r Report) writeNodes(b *strings.Builder, l Layout) {
	header, row := []string{"NODE", "GROUP", "KIND", "SLURM", "INSTANCE", "IMAGE", "DOING; REASON"}, Node.row
	if l.Wide {
		header, row = []string{
			"NODE",
			"GROUP",
			"KIND",
			"SLURM",
			"INSTANCE",
			"SINCE",
			"ADDRESS",
			"IMAGE",
			"WANTED",
			"OUTDATED",
			"DOING",
			"LAST",
			"REASON",
		}, Node.wideRow
	}
	rows := [][]string{header}
	var down []string
	for _, n := range r.Nodes {
		if n.idle() && !l.Wide && !r.unfolded {
			down = append(down, n.Node)
			continue
		}
		rows = append(rows, row(n, l.Now))
	}
	switch {
	case len(r.Nodes) == 0 && len(r.Unreachable) > 0:
		b.WriteString("No node matches, but not all sources answered.\n")
	case len(r.Nodes) == 0:
		b.WriteString("No node matches.\n")
	case len(rows) > 1:
		l.table(b, rows)
	}
	if len(rows) > 1 && len(down) > 0 {
		b.WriteString("\n")
	}
	if len(down) > 0 {
		fmt.Fprintf(b, "%s: %s\n", r.unseen(), nodeset.Of(down...))
	}
}

// row returns a node's row in the table. Its last column is cut off if the line is too long.
func (n Node) row(now time.Time) []string {
	return []string{
		n.Node,
		n.Group,
		string(n.Kind),
		n.stateWords(),
		n.Instance,
		n.imageWords(),
		strings.Join(n.remarks(now), "; "),
	}
}

func (n Node) wideRow(now time.Time) []string {
	doing := ""
	if n.Doing != nil {
		doing = n.Doing.details(now)
	}
	return []string{
		n.Node, n.Group, string(n.Kind), strings.Join(n.Slurm, "+"), n.Instance, text.Ago(now, n.Created), n.Address,
		cmp.Or(n.Image, n.ImageID), n.WantedImage,
		join(n.Outdated), doing, n.lastWords(now), n.why(),
	}
}

// stateWords returns Slurm's states without CLOUD, which another column has. Flags of power and boots are signs, as in
// sinfo(1), NODE STATE CODES.
func (n Node) stateWords() string {
	signs := map[reconfigure.NodeFlags]string{
		reconfigure.NodeCloud: "", reconfigure.NodeNotResponding: "*", reconfigure.NodePoweredDown: "~",
		reconfigure.NodePoweringUp: "#", reconfigure.NodePowerUp: "#", reconfigure.NodePoweringDown: "%",
		reconfigure.NodePowerDown: "!", reconfigure.NodeRebootRequested: "@", reconfigure.NodeRebootIssued: "^",
		reconfigure.NodeMaintenance: "$", reconfigure.NodePlanned: "-",
	}
	var words []string
	var marks string
	for _, word := range n.Slurm {
		flag, _ := reconfigure.ParseNodeFlags(word)
		if sign, ok := signs[flag]; ok {
			marks += sign
		} else {
			words = append(words, word)
		}
	}
	return strings.Join(words, "+") + marks
}

// remarks returns the activity at a node, then its problems that have no other column.
func (n Node) remarks(now time.Time) []string {
	var remarks []string
	if n.Doing != nil {
		remarks = append(remarks, n.Doing.words(now))
	}
	if n.failing() {
		failed := n.lastWords(now)
		if message := text.OneLine(n.Last.Message); message != "" {
			failed += ": " + message
		}
		remarks = append(remarks, failed)
	}
	if n.Reason != "" {
		remarks = append(remarks, text.OneLine(n.Reason))
	}
	if n.Fault != "" {
		remarks = append(remarks, "the cloud says: "+text.OneLine(n.Fault))
	}
	shown := func(d snapshot.Drift) bool {
		return slices.Contains([]snapshot.Drift{
			snapshot.DriftImage, snapshot.DriftLost, snapshot.DriftDoubled, snapshot.DriftUndeclared, snapshot.DriftStopped,
			snapshot.DriftError,
		}, d)
	}
	if drifts := slices.DeleteFunc(slices.Clone(n.Outdated), shown); len(drifts) > 0 {
		remarks = append(remarks, "differs: "+join(drifts))
	}
	return remarks
}

// unseen returns the heading for the nodes that have no line of their own.
func (r Report) unseen() string {
	if slices.ContainsFunc(r.Unreachable, func(u snapshot.Unreachable) bool { return u.Source == snapshot.Cloud }) {
		return "Nothing is known about"
	}
	return "Without instance, since no job needs them"
}

func (r Report) writeGroups(b *strings.Builder, l Layout) {
	rows := [][]string{summaryHeader()}
	var failures []string
	for _, g := range r.Groups {
		rows = append(rows, g.row())
		failures = append(failures, g.words(l.Now)...)
	}
	_ = text.Table(b, rows, 0) // writing to a builder never fails
	for _, limit := range r.Limits {
		failures = append(failures, fmt.Sprintf("Limit: %d of %d nodes of %s.", limit.Nodes, limit.Max,
			strings.Join(limit.Groups, ", ")))
	}
	if len(failures) > 0 {
		b.WriteString("\n" + strings.Join(failures, "\n") + "\n")
	}
}

func (r Report) writeRequests(b *strings.Builder, l Layout) {
	if len(r.Requests) > 0 {
		b.WriteString("\n")
		l.table(b, r.requestRows(l))
	}
	if notes := r.notes(l); len(notes) > 0 {
		b.WriteString("\n" + strings.Join(notes, "\n") + "\n")
	}
}

func (r Report) requestRows(l Layout) [][]string {
	rows := [][]string{{"REQUEST", "MODE", "STATE", "SINCE", "BY", "NODES", "WHY"}}
	for _, p := range r.Requests {
		rows = append(
			rows,
			[]string{
				p.ID.String(),
				string(p.Mode),
				p.words(l),
				text.Ago(l.Now, p.Submitted),
				text.OneLine(p.Caller),
				list(p.Nodes, l.Wide),
				text.OneLine(p.Reason),
			},
		)
	}
	return rows
}

// notes returns the facts about the requests that the table does not show.
func (r Report) notes(l Layout) []string {
	var notes []string
	if r.Pause != nil {
		notes = append(notes, fmt.Sprintf("Paused by %s for %s: %s; nothing begins until `reconfigure continue`.",
			text.OneLine(r.Pause.By), text.Ago(l.Now, r.Pause.Since), text.OneLine(r.Pause.Reason)))
	}
	if r.Campaign != nil {
		notes = append(notes, r.Campaign.Words(l.Now)...)
	}
	var pending []reconfigure.Request
	for _, p := range r.Requests {
		pending = append(pending, p.Request)
	}
	for _, p := range r.Requests {
		if p.Waits() {
			if ahead := aheadWords(p.Request, pending); ahead != "" {
				notes = append(notes, "R"+ahead[1:]+".")
			}
		}
		if p.State.Deferred() && p.State != WaitsForJobs {
			note := fmt.Sprintf("Request %s %s, and will be retried", p.ID, p.State.Words())
			if !l.CloudTold || !r.forCloud(p) {
				note += ": " + text.OneLine(p.Why())
			}
			notes = append(notes, note)
		}
	}
	if r.Reconcile != nil {
		notes = append(notes, r.Reconcile.words(l.Now))
	}
	notes = append(notes, refusals(r.Refused, l.Now)...)
	campaign := r.Campaign != nil && r.Campaign.Active()
	switch {
	case len(r.Requests) == 0 && !campaign:
	case r.Leader != "":
		notes = append(notes, "At work: "+r.Leader)
	case r.Pause != nil:
	case campaign || slices.ContainsFunc(r.Requests, func(p Request) bool { return !p.IsDeferred() }):
		notes = append(notes, "No worker runs: `reconfigure worker` starts one.")
	}
	return notes
}

// forCloud reports whether a request is deferred for the reason for which the cloud does not answer now.
func (r Report) forCloud(p Request) bool {
	return slices.ContainsFunc(r.Unreachable, func(u snapshot.Unreachable) bool {
		return u.Source == snapshot.Cloud && strings.Contains(p.Why(), u.Reason)
	})
}

// words returns the state of a request for people.
func (p Request) words(l Layout) string {
	if p.State == WaitsForJobs && !p.WithJobs().Empty() {
		return "waits for jobs on " + list(p.WithJobs(), l.Wide)
	}
	return p.State.Words()
}

// table writes rows in columns. If the layout is not wide, lines that are too long are cut off.
func (l Layout) table(b *strings.Builder, rows [][]string) {
	width := l.Width
	if l.Wide {
		width = 0
	}
	_ = text.Table(b, rows, width) // writing to a builder never fails
}
