package metrics

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

const (
	// before is how long before the day a phase or a run may have begun that ends in it.
	before = 6 * time.Hour
	// late is how long an outcome may be written after its time: as long as a worker goes on while its journal fails.
	late = 15 * time.Minute
	page = 10_000 // events that are read at a time
)

// day counts what happened since the start of a day in UTC. At the next day it begins at zero, as a counter does when
// a process is restarted, and keeps its place in the journal.
type day struct {
	start     time.Time
	requests  map[[2]string]float64 // by mode and outcome
	results   map[[3]string]float64 // by action, group and outcome
	failures  map[[2]string]float64 // by class and group
	phases    map[[2]string]*durations
	runs      map[string]*durations // by phase
	sizes     map[string]*durations
	counted   map[reconfigure.RequestID]bool
	finished  time.Time // the newest outcome that was counted
	event     int64     // the last event that was read
	primed    bool      // the events of the day until then were read
	begun     map[phaseOf]time.Time
	underWay  []*run
	lastNotes map[string]time.Time // the last note of each run, which several plans share
}

type phaseOf struct {
	plan  int64
	node  string
	phase reconfigure.Phase
}

// run is a run of Terraform or Ansible whose nodes do not all have their result.
type run struct {
	phase reconfigure.Phase
	began time.Time
	nodes map[string]bool
}

// durations is a histogram.
type durations struct {
	count   uint64
	sum     float64
	buckets map[float64]uint64 // cumulative, by upper bound
}

var (
	secondBuckets = []float64{1, 2, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 450, 600, 900, 1800, 3600}
	nodeBuckets   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
)

func observe(d *durations, bounds []float64, value float64) *durations {
	if d == nil {
		d = &durations{buckets: map[float64]uint64{}}
		for _, b := range bounds {
			d.buckets[b] = 0
		}
	}
	d.count, d.sum = d.count+1, d.sum+value
	for _, b := range bounds {
		if value <= b {
			d.buckets[b]++
		}
	}
	return d
}

func (d *durations) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstHistogram(desc, d.count, d.sum, d.buckets, labels...)
}

// begin begins a day. Known series stay, at zero, so that the first event of a day is an increase.
func (d *day) begin(start time.Time, groups []string) {
	zero(&d.requests, modes(), codes())
	zero(&d.failures, classes(), groups)
	if d.results == nil {
		d.results = map[[3]string]float64{}
		d.begun, d.lastNotes = map[phaseOf]time.Time{}, map[string]time.Time{}
	}
	for key := range d.results {
		d.results[key] = 0
	}
	for _, action := range []reconfigure.Action{
		reconfigure.Create, reconfigure.Replace, reconfigure.Start, reconfigure.Stop, reconfigure.Remove,
	} {
		for _, g := range groups {
			for _, status := range []reconfigure.Status{reconfigure.StatusDone, reconfigure.StatusFailed} {
				d.results[[3]string{string(action), g, string(status)}] = 0
			}
		}
	}
	d.phases, d.runs, d.sizes = map[[2]string]*durations{}, map[string]*durations{}, map[string]*durations{}
	d.counted, d.finished, d.start = map[reconfigure.RequestID]bool{}, start, start
	maps.DeleteFunc(d.begun, func(_ phaseOf, at time.Time) bool { return at.Before(start.Add(-before)) })
	clear(d.lastNotes)
	d.underWay = slices.DeleteFunc(d.underWay, func(r *run) bool { return r.began.Before(start.Add(-before)) })
}

// zero sets the pairs of words, and those that are known, to zero.
func zero(of *map[[2]string]float64, first, second []string) {
	if *of == nil {
		*of = map[[2]string]float64{}
	}
	for key := range *of {
		(*of)[key] = 0
	}
	for _, a := range first {
		for _, b := range second {
			(*of)[[2]string{a, b}] = 0
		}
	}
}

// advance reads what is new in the journal.
func (d *day) advance(ctx context.Context, j Journal, group func(node string) string) error {
	if err := d.outcomes(ctx, j, group); err != nil {
		return err
	}
	if !d.primed {
		if err := d.prime(ctx, j, group); err != nil {
			return err
		}
		d.primed = true
	}
	for {
		events, err := j.EventsAfter(ctx, d.event, d.start.Add(-before), page)
		if err != nil {
			return err
		}
		for _, e := range events {
			d.count(e, group)
			d.event = e.ID
		}
		if len(events) < page {
			return nil
		}
	}
}

// prime reads the events of the day's requests by the requests: the journal has months of other events.
func (d *day) prime(ctx context.Context, j Journal, group func(node string) string) error {
	moves, err := j.LastMoves(ctx)
	if err != nil {
		return err
	}
	last := int64(0)
	for _, e := range moves {
		last = max(last, e.ID)
	}
	requests, err := j.RequestsSince(ctx, d.start.Add(-before))
	if err != nil {
		return err
	}
	ids := make([]reconfigure.RequestID, len(requests))
	for i, r := range requests {
		ids[i] = r.ID
	}
	byRequest, err := j.EventsOf(ctx, ids...)
	if err != nil {
		return err
	}
	byID := map[int64]reconfigure.Event{}
	for _, events := range byRequest {
		for _, e := range events {
			if !e.Time.Before(d.start.Add(-before)) {
				byID[e.ID] = e
			}
			last = max(last, e.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		d.count(byID[id], group)
	}
	d.event = last
	return nil
}

// outcomes counts the requests that got their outcome.
func (d *day) outcomes(ctx context.Context, j Journal, group func(node string) string) error {
	since := d.finished.Add(-late)
	if since.Before(d.start) {
		since = d.start
	}
	requests, err := j.RequestsSince(ctx, since)
	if err != nil {
		return err
	}
	var fresh []reconfigure.RequestID
	mode := map[reconfigure.RequestID]reconfigure.Mode{}
	for _, r := range requests {
		if !d.counted[r.ID] {
			fresh, mode[r.ID] = append(fresh, r.ID), r.Mode
		}
	}
	outcomes, err := j.OutcomesOf(ctx, fresh...)
	if err != nil {
		return err
	}
	for id, o := range outcomes {
		d.counted[id] = true
		if o.Finished.Before(d.start) {
			continue
		}
		if o.Finished.After(d.finished) {
			d.finished = o.Finished
		}
		d.requests[[2]string{string(mode[id]), string(o.Code)}]++
		for _, v := range o.Verdicts {
			d.verdict(v, group)
		}
	}
	return nil
}

func (d *day) verdict(v reconfigure.Verdict, group func(node string) string) {
	action := string(v.Action)
	if action == "" {
		action = none
	}
	for node := range v.Nodes().All() {
		g := group(node)
		d.results[[3]string{action, g, string(v.Status)}]++
		if v.Status != reconfigure.StatusDone && v.Status != reconfigure.StatusUnchanged {
			class := v.Class
			if class == "" {
				class = reconfigure.ClassOther
			}
			d.failures[[2]string{string(class), g}]++
		}
	}
}

// count counts an event.
func (d *day) count(e reconfigure.Event, group func(node string) string) {
	if e.Node == "" {
		d.note(e)
		return
	}
	key := phaseOf{e.Plan, e.Node, e.Phase}
	switch e.Level {
	case reconfigure.Begun:
		d.begun[key] = e.Time
	case reconfigure.Done, reconfigure.Failed:
		if began, known := d.begun[key]; known {
			delete(d.begun, key)
			if !e.Time.Before(d.start) {
				labels := [2]string{group(e.Node), string(e.Phase)}
				d.phases[labels] = observe(d.phases[labels], secondBuckets, max(0, e.Time.Sub(began).Seconds()))
			}
		}
		d.result(e)
	}
}

// note recognizes the notes that say which nodes a run has (operation, noteRun).
func (d *day) note(e reconfigure.Event) {
	var named nodeset.NodeSet
	if text, ok := strings.CutPrefix(e.Message, "Ansible: "); ok && e.Phase == reconfigure.PhaseConfigure {
		named, _ = nodeset.Parse(text)
	} else if text, ok := strings.CutPrefix(e.Message, "Terraform: "); ok && e.Phase == reconfigure.PhaseApply {
		named = changed(text)
	}
	if named.Empty() || d.lastNotes[e.Message].Equal(e.Time) {
		return
	}
	d.lastNotes[e.Message] = e.Time
	// A run whose node is in another one has ended without a result for it: a removal after a failure has none.
	for _, earlier := range d.underWay {
		if earlier.phase == e.Phase {
			maps.DeleteFunc(earlier.nodes, func(node string, _ bool) bool { return named.Contains(node) })
		}
	}
	d.underWay = slices.DeleteFunc(d.underWay, func(r *run) bool { return len(r.nodes) == 0 })
	r := &run{e.Phase, e.Time, map[string]bool{}}
	for node := range named.All() {
		r.nodes[node] = true
	}
	if !e.Time.Before(d.start) {
		d.sizes[string(e.Phase)] = observe(d.sizes[string(e.Phase)], nodeBuckets, float64(len(r.nodes)))
	}
	d.underWay = append(d.underWay, r)
}

// changed returns the nodes in the text of a plan: "create node[03-04], destroy node07".
func changed(text string) (all nodeset.NodeSet) {
	for part := range strings.SplitSeq(text, ", ") {
		if _, hostlist, ok := strings.Cut(part, " "); ok {
			if nodes, err := nodeset.Parse(hostlist); err == nil {
				all = all.Union(nodes)
			}
		}
	}
	return all
}

// result ends the run of a node's phase, if the node is the last one of the run.
func (d *day) result(e reconfigure.Event) {
	for i, r := range d.underWay {
		if r.phase != e.Phase || !r.nodes[e.Node] || e.Time.Before(r.began) {
			continue
		}
		delete(r.nodes, e.Node)
		if len(r.nodes) > 0 {
			return
		}
		d.underWay = slices.Delete(d.underWay, i, i+1)
		if !e.Time.Before(d.start) {
			d.runs[string(r.phase)] = observe(d.runs[string(r.phase)], secondBuckets, e.Time.Sub(r.began).Seconds())
		}
		return
	}
}
