package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/ansible"
	"github.com/eiffel-hpc/eiffel/reconfigure/batch"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
)

// preview shows what a request would come to if it were made now, together with those that wait. Nothing is changed, the declaration neither: s has it as it
// would be after the edit, where there is one.
func preview(c *cli.Context, s site, r reconfigure.Request, e *edit) error {
	r.Submitted = time.Now()
	var report previewReport
	err := s.glance(c.Context, func(log *journal.Journal) error {
		requests, fares, err := together(c.Context, log, r)
		if err != nil {
			return err
		}
		engine, err := s.engine(c.Context, log, fares, logger(c), nil)
		if err != nil {
			return err
		}
		report, err = foresee(c.Context, s.cluster, engine, requests)
		return err
	})
	if err != nil {
		return err
	}
	if e != nil {
		report.Declaration = &e.MinNodes
	}
	err = report.show(c)
	if err == nil && len(report.Refused) > 0 {
		err = &outcomeError{outcome: reconfigure.Outcome{Code: reconfigure.CodeRefused, Error: "Terraform would do what nobody asked for"}, logs: s.state("log")}
	}
	return err
}

// together is the requests that a worker would carry out with this one, and how the node groups fare. One that has to wait for others is shown by itself, as if
// they had been carried out.
func together(ctx context.Context, log *journal.Journal, r reconfigure.Request) ([]reconfigure.Request, foreseen, error) {
	if log == nil {
		return []reconfigure.Request{r}, foreseen{}, nil
	}
	fares, err := log.Health(ctx)
	if err != nil {
		return nil, foreseen{}, err
	}
	waiting, err := log.Pending(ctx)
	if err != nil {
		return nil, foreseen{}, err
	}
	requests := batch.Next(append(waiting, r), nil, time.Now()).Together
	if !slices.ContainsFunc(requests, func(one reconfigure.Request) bool { return one.ID == r.ID }) {
		requests = []reconfigure.Request{r}
	}
	return requests, foreseen{fares}, nil
}

// foreseen is how node groups fare, for an engine that only looks: nothing is written down.
type foreseen struct{ fares map[string]reconfigure.Health }

func (f foreseen) Health(context.Context) (map[string]reconfigure.Health, error) { return f.fares, nil }

func (foreseen) UpdateHealth(context.Context, string, func(reconfigure.Health) reconfigure.Health) error {
	return nil
}

func (foreseen) Record(context.Context, ...reconfigure.Event) error { return nil }

func (foreseen) Keep(context.Context, ...reconfigure.Evidence) error { return nil }

// foreseer is an engine that can look ahead.
type foreseer interface {
	batch.Observer
	Preview(ctx context.Context, p reconfigure.Plan) (reconfigure.Preview, error)
}

// foresee plans as the worker does. Of nodes that must be drained first it shows what is done when their jobs have ended.
func foresee(ctx context.Context, cluster reconfigure.Cluster, engine foreseer, requests []reconfigure.Request) (previewReport, error) {
	seen, first, err := batch.Decide(ctx, cluster, engine, requests)
	if err != nil {
		return previewReport{}, err
	}
	last := plan.Compute(cluster, plan.AfterDrain(seen, first), requests)
	terraform, err := engine.Preview(ctx, last)
	var refusal *reconfigure.Refusal
	if err != nil && !errors.As(err, &refusal) {
		return previewReport{}, err
	}
	report := previewReport{Nodes: []previewNode{}, Rejected: last.Rejected, Terraform: terraform.Changes}
	if refusal != nil {
		report.Refused = refusal.Changes
	}
	for _, change := range last.Changes {
		row := previewNode{Node: change.Node, Action: change.Action, Reason: change.Reason, Requests: change.Requests, Note: change.Note}
		row.Lost = loss(change, terraform.Changes)
		row.Drain = slices.ContainsFunc(first.Deferred, func(w reconfigure.Deferral) bool { return w.Node == change.Node })
		report.Nodes = append(report.Nodes, row)
	}
	report.Plays = ansible.Plays(cluster, seen.Instances, last, true)
	return report, nil
}

// loss is what is gone when a change has been made.
func loss(change reconfigure.Change, terraform []reconfigure.ResourceChange) string {
	if change.Action == reconfigure.Reboot {
		return "reboot: what is in memory"
	}
	words := map[reconfigure.Effect]string{
		reconfigure.EffectReplace: "replace: new instance",
		reconfigure.EffectRebuild: "rebuild: disk lost, same address",
		reconfigure.EffectResize:  "resize: restarted",
		reconfigure.EffectDelete:  "delete: the instance",
	}
	for _, effect := range []reconfigure.Effect{reconfigure.EffectReplace, reconfigure.EffectRebuild, reconfigure.EffectResize, reconfigure.EffectDelete} {
		if slices.ContainsFunc(terraform, func(c reconfigure.ResourceChange) bool { return c.Node == change.Node && c.Effect == effect }) {
			return words[effect]
		}
	}
	return ""
}

// previewReport is what a dry run prints.
type previewReport struct {
	Declaration *config.MinNodes             `json:"declaration,omitempty"` // what would be changed in it
	Nodes       []previewNode                `json:"nodes"`
	Rejected    []reconfigure.Rejection      `json:"rejected,omitempty"`
	Terraform   []reconfigure.ResourceChange `json:"terraform,omitempty"`
	Refused     []reconfigure.ResourceChange `json:"refused,omitempty"` // by the fence
	Plays       []ansible.Play               `json:"plays,omitempty"`
}

type previewNode struct {
	Node     string                  `json:"node"`
	Action   reconfigure.Action      `json:"action"`
	Drain    bool                    `json:"drain,omitempty"` // first, and wait until its jobs have ended
	Reason   string                  `json:"reason"`
	Requests []reconfigure.RequestID `json:"requests"` // 0 is the one that was previewed
	Lost     string                  `json:"lost,omitempty"`
	Note     string                  `json:"note,omitempty"`
}

func (r previewReport) show(c *cli.Context) error {
	if wantsJSON(c) {
		return json.NewEncoder(c.App.Writer).Encode(r)
	}
	return r.write(c.App.Writer)
}

func (r previewReport) write(w io.Writer) error {
	if r.Declaration != nil {
		if _, err := fmt.Fprintf(w, "%s\n\n", r.Declaration); err != nil {
			return err
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Nodes) > 0 {
		fmt.Fprintln(table, "NODE\tWHAT\tWHY\tREQUEST\tLOST")
	}
	for _, n := range r.Nodes {
		what, why := string(n.Action), n.Reason
		if n.Drain {
			what = "drain, " + what
		}
		if n.Note != "" {
			why += "; " + n.Note
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", n.Node, what, why, whose(n.Requests), cmp.Or(n.Lost, "-"))
	}
	for _, c := range alike(r.Rejected, func(one reconfigure.Rejection) (string, reconfigure.Rejection) {
		node := one.Node
		one.Node = ""
		return node, one
	}) {
		fmt.Fprintf(table, "%s\tnothing\t%s\t%s\t-\n", c.nodes, oneLine(c.first.Reason), whose([]reconfigure.RequestID{c.first.Request}))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	if len(r.Nodes)+len(r.Rejected) == 0 {
		b.WriteString("nothing to do\n")
	}
	resources(&b, "\nTerraform:\n", r.Terraform)
	resources(&b, "\nrefused, since nobody asked for it:\n", r.Refused)
	for i, play := range r.Plays {
		if i == 0 {
			b.WriteString("\nAnsible:\n")
		}
		fmt.Fprintf(&b, "  %s: %s\n", play.Name, play.Hosts)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func resources(b *strings.Builder, title string, changes []reconfigure.ResourceChange) {
	for i, change := range changes {
		if i == 0 {
			b.WriteString(title)
		}
		fmt.Fprintf(b, "  %s %s", change.Effect, change.Address)
		if change.Detail != "" {
			fmt.Fprintf(b, " (%s)", change.Detail)
		}
		b.WriteString("\n")
	}
}

// whose names requests.
func whose(requests []reconfigure.RequestID) string {
	names := make([]string, len(requests))
	for i, id := range requests {
		names[i] = id.String()
		if id == 0 {
			names[i] = "(this one)"
		}
	}
	return strings.Join(names, ", ")
}
