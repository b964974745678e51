package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// layout is how the report is laid out for people.
type layout struct {
	now   time.Time
	wide  bool // all that is known, a line for every node, however long
	width int  // of the lines of a table that is not wide, in characters
}

// tableWidth is what the lines of the table are kept to where the terminal is not wider: what is cut off there stands in the wide one.
const tableWidth = 120

// write prints the report for people.
func (r statusReport) write(w io.Writer, l layout) error {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s\n\n", r.Cluster)
	r.writeNodes(&b, l)
	if len(r.Groups) > 0 {
		b.WriteString("\n")
		r.writeGroups(&b, l)
	}
	r.writeRequests(&b, l)
	if len(r.Silent) > 0 {
		b.WriteString("\n")
	}
	for _, s := range r.Silent {
		fmt.Fprintf(&b, "%s does not answer: %s\n", s.Who.name(), s.Reason)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p party) name() string {
	return map[party]string{partyCloud: "The cloud", partyTerraform: "Terraform", partySlurm: "Slurm"}[p]
}

func (r statusReport) writeNodes(b *strings.Builder, l layout) {
	header, row := []string{"NODE", "GROUP", "KIND", "SLURM", "INSTANCE", "IMAGE", "DOING; REASON"}, statusNode.row
	if l.wide {
		header, row = []string{"NODE", "GROUP", "KIND", "SLURM", "INSTANCE", "SINCE", "ADDRESS", "IMAGE", "WANTED", "OUTDATED", "DOING", "LAST", "REASON"}, statusNode.wideRow
	}
	rows := [][]string{header}
	var down []string
	for _, n := range r.Nodes {
		if n.powersDown() && !l.wide && !r.unfolded {
			down = append(down, n.Node)
			continue
		}
		rows = append(rows, row(n, l.now))
	}
	switch {
	case len(r.Nodes) == 0 && len(r.Silent) > 0:
		b.WriteString("No node is like that, as far as anybody answers.\n")
	case len(r.Nodes) == 0:
		b.WriteString("No node is like that.\n")
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

// row is a node in the table: its last column is the one that is cut off.
func (n statusNode) row(now time.Time) []string {
	return []string{n.Node, n.Group, string(n.Kind), n.stateWords(), n.Instance, n.imageWords(), strings.Join(n.remarks(now), "; ")}
}

func (n statusNode) wideRow(now time.Time) []string {
	doing := ""
	if n.Doing != nil {
		doing = n.Doing.story(now)
	}
	return []string{
		n.Node, n.Group, string(n.Kind), strings.Join(n.Slurm, "+"), n.Instance, ago(now, n.Created), n.Address, cmp.Or(n.Image, n.ImageID), n.WantedImage,
		join(n.Outdated), doing, n.lastWords(now), n.why(),
	}
}

// stateWords is Slurm's states, less the flag that says what another column does. Like sinfo, it has a sign for the flags that come and go with power and boots
// (sinfo(1), NODE STATE CODES).
func (n statusNode) stateWords() string {
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

// remarks is what is being done with a node, and then what is wrong with it as far as no other column says so.
func (n statusNode) remarks(now time.Time) []string {
	var remarks []string
	if n.Doing != nil {
		remarks = append(remarks, n.Doing.words(now))
	}
	if n.failing() {
		failed := n.lastWords(now)
		if message := oneLine(n.Last.Message); message != "" {
			failed += ": " + message
		}
		remarks = append(remarks, failed)
	}
	if n.Reason != "" {
		remarks = append(remarks, oneLine(n.Reason))
	}
	shown := func(d drift) bool {
		return slices.Contains([]drift{driftImage, driftLost, driftDoubled, driftUndeclared}, d)
	}
	if drifts := slices.DeleteFunc(slices.Clone(n.Outdated), shown); len(drifts) > 0 {
		remarks = append(remarks, "not as declared: "+join(drifts))
	}
	return remarks
}

func join(drifts []drift) string {
	words := make([]string, len(drifts))
	for i, d := range drifts {
		words[i] = string(d)
	}
	return strings.Join(words, ", ")
}

// unseen says what is known of the nodes that have no line of their own.
func (r statusReport) unseen() string {
	if slices.ContainsFunc(r.Silent, func(s silence) bool { return s.Who == partyCloud }) {
		return "Nothing is known of"
	}
	return "Without instance, as nothing needs them"
}

func (r statusReport) writeGroups(b *strings.Builder, l layout) {
	rows := [][]string{summaryHeader()}
	var ailing []string
	for _, g := range r.Groups {
		rows = append(rows, g.row())
		ailing = append(ailing, g.words(l.now)...)
	}
	table(b, rows)
	if len(ailing) > 0 {
		b.WriteString("\n" + strings.Join(ailing, "\n") + "\n")
	}
}

func (r statusReport) writeRequests(b *strings.Builder, l layout) {
	if len(r.Requests) > 0 {
		b.WriteString("\n")
		l.table(b, r.requestRows(l))
	}
	if notes := r.notes(l); len(notes) > 0 {
		b.WriteString("\n" + strings.Join(notes, "\n") + "\n")
	}
}

func (r statusReport) requestRows(l layout) [][]string {
	rows := [][]string{{"REQUEST", "MODE", "STATE", "SINCE", "BY", "NODES", "WHY"}}
	for _, p := range r.Requests {
		rows = append(rows, []string{p.ID.String(), string(p.Mode), p.words(l), ago(l.now, p.Submitted), oneLine(p.Caller), l.shorten(p.Nodes), oneLine(p.Reason)})
	}
	return rows
}

// notes says of the requests what does not go into a table.
func (r statusReport) notes(l layout) []string {
	var notes []string
	if r.Pause != nil {
		notes = append(notes, fmt.Sprintf("Paused by %s for %s: %s; nothing is begun until `reconfigure continue`.",
			oneLine(r.Pause.By), ago(l.now, r.Pause.Since), oneLine(r.Pause.Reason)))
	}
	for _, p := range r.Requests {
		if w, ok := p.Wait(""); ok {
			notes = append(notes, fmt.Sprintf("Request %s is put off and tried again: %s", p.ID, oneLine(w.Reason)))
		}
	}
	if r.Reconcile != nil {
		notes = append(notes, r.Reconcile.words(l.now))
	}
	switch {
	case len(r.Requests) == 0:
	case r.Leader != "":
		notes = append(notes, "At work: "+r.Leader)
	case r.Pause != nil:
	case slices.ContainsFunc(r.Requests, func(p pendingRequest) bool { return !p.Held }):
		notes = append(notes, "No worker is at work: `reconfigure worker` starts one.")
	}
	return notes
}

// words is where a request stands, for people.
func (p pendingRequest) words(l layout) string {
	if p.State == standsHeld {
		return "waits for jobs on " + l.shorten(p.withJobs())
	}
	return p.State.words()
}

// shorten keeps a long hostlist from pushing the columns behind it off the screen.
func (l layout) shorten(nodes nodeset.NodeSet) string {
	const most = 30
	if l.wide {
		return nodes.String()
	}
	return clip(nodes.String(), most)
}

// table writes rows in columns; where the layout is not wide, lines that are too long are cut.
func (l layout) table(b *strings.Builder, rows [][]string) {
	if l.wide {
		table(b, rows)
		return
	}
	var lines strings.Builder
	table(&lines, rows)
	for line := range strings.Lines(lines.String()) {
		b.WriteString(clip(strings.TrimSuffix(line, "\n"), l.width) + "\n")
	}
}

// table writes rows in columns, the first one as the header. A column without any content below its header is left out.
func table(b *strings.Builder, rows [][]string) {
	used := make([]bool, len(rows[0]))
	for _, row := range rows[1:] {
		for i, cell := range row {
			used[i] = used[i] || cell != ""
		}
	}
	out := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.StripEscape)
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			if used[i] {
				cells = append(cells, cmp.Or(cell, "-"))
			}
		}
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	_ = out.Flush() // a builder takes everything
}

// ago is how long something is past; empty where it never was.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return span(now.Sub(then))
}
