package metrics

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/usage"
)

// Journal is what the collector reads. The methods are those of package journal.
type Journal interface {
	Pending(ctx context.Context) ([]reconfigure.Request, error)
	RequestsSince(ctx context.Context, since time.Time) ([]reconfigure.Request, error)
	OutcomesOf(ctx context.Context, ids ...reconfigure.RequestID) (map[reconfigure.RequestID]reconfigure.Outcome, error)
	EventsOf(ctx context.Context, ids ...reconfigure.RequestID) (map[reconfigure.RequestID][]reconfigure.Event, error)
	EventsAfter(ctx context.Context, after int64, since time.Time, limit int) ([]reconfigure.Event, error)
	LastMoves(ctx context.Context) (map[string]reconfigure.Event, error)
	Lives(ctx context.Context, since time.Time) ([]reconfigure.Life, error)
	JobRuns(ctx context.Context, since time.Time, jobs ...int64) ([]reconfigure.JobRun, error)
	Health(ctx context.Context) (map[string]reconfigure.Health, error)
	Campaign(ctx context.Context) (reconfigure.Campaign, bool, error)
	Paused(ctx context.Context) (reconfigure.Pause, bool, error)
	HolderSince(ctx context.Context) (holder string, acquired time.Time)
}

// Facts are where the values come from. The functions may be nil, except Cluster.
type Facts struct {
	Journal Journal
	Cluster func() reconfigure.Cluster
	Size    func(ctx context.Context) (bytes int64, err error) // of the journal
	Look    func() (reconcile.Look, error)                     // the last comparison
	Lost    func() int64                                       // events that could not be written
	// Notified reports whether the last call of the notify command succeeded; known is false if none was made.
	Notified func() (up, known bool)
}

const (
	none = "none" // the value of a label that has none
	// fresh is the time for which an answer is used again: several scrapers cost the journal no more than one.
	fresh = 5 * time.Second
	// usageFresh is the same for the hours of instances, for which all jobs of the day are read.
	usageFresh = time.Minute
	// patience is the time limit for reading the journal.
	patience = 30 * time.Second
)

// Collector is a prometheus.Collector. Its methods may be called from several goroutines.
type Collector struct {
	facts Facts

	lock    sync.Mutex
	day     day
	at      time.Time // of the last answer
	last    []prometheus.Metric
	usedAt  time.Time
	used    []prometheus.Metric
	usedDay time.Time
}

// NewCollector returns a collector.
func NewCollector(f Facts) *Collector { return &Collector{facts: f} }

// Describe sends all metrics of the table.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range table {
		to <- m.desc
	}
}

// Collect reads the journal. If it cannot be read, the answer has reconfigure_journal_up 0 and no value from it.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.lock.Lock()
	defer c.lock.Unlock()
	now := time.Now()
	if c.last == nil || now.Sub(c.at) >= fresh || now.Before(c.at) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c.at = now
		got, err := c.read(ctx, now)
		up := 1.0
		if err != nil {
			got, up = nil, 0
		}
		c.last = append(got, c.outside()...)
		c.last = append(c.last, value(journalUp, up))
	}
	for _, m := range c.last {
		to <- m
	}
}

func value(desc *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	kind := prometheus.GaugeValue
	if i := slices.IndexFunc(table, func(m Metric) bool { return m.desc == desc }); table[i].Type == counter {
		kind = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(desc, kind, v, labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}

// outside returns the values that do not come from the journal.
func (c *Collector) outside() (all []prometheus.Metric) {
	if c.facts.Lost != nil {
		all = append(all, value(eventsLost, float64(c.facts.Lost())))
	}
	if c.facts.Notified != nil {
		if up, known := c.facts.Notified(); known {
			all = append(all, value(notifyUp, truth(up)))
		}
	}
	if c.facts.Look == nil {
		return all
	}
	look, err := c.facts.Look()
	if err != nil {
		look = reconcile.Look{} // the worker logs it, and compares anew
	}
	all = append(all, value(comparedAt, seconds(look.Time)))
	if look.Time.IsZero() {
		return all
	}
	for _, source := range []snapshot.System{snapshot.Cloud, snapshot.Terraform, snapshot.Slurm} {
		missing := slices.ContainsFunc(look.Unreachable, func(u snapshot.Unreachable) bool { return u.Source == source })
		all = append(all, value(sourceUp, truth(!missing), string(source)))
	}
	for _, n := range look.Nodes {
		all = append(all, value(nodes, float64(n.Nodes), cmp.Or(n.Group, none), string(n.Source), n.State))
	}
	found := map[[2]string]float64{}
	for _, f := range look.Findings {
		found[[2]string{c.group(f.Node), string(f.Kind)}]++
	}
	for key, n := range found {
		all = append(all, value(findings, n, key[0], key[1]))
	}
	return all
}

// group returns the label of a node's group.
func (c *Collector) group(node string) string {
	cluster := c.facts.Cluster()
	if g, ok := cluster.GroupOf(node); ok {
		return g.Name
	}
	if node == cluster.Control.Name && node != "" {
		return reconfigure.ControlGroup
	}
	return none
}

func (c *Collector) read(ctx context.Context, now time.Time) ([]prometheus.Metric, error) {
	cluster := c.facts.Cluster()
	groups := []string{reconfigure.ControlGroup}
	for _, g := range cluster.Groups {
		groups = append(groups, g.Name)
	}
	if start := now.UTC().Truncate(24 * time.Hour); !start.Equal(c.day.start) {
		c.day.begin(start, groups)
	}
	j := c.facts.Journal
	if err := c.day.advance(ctx, j, c.group); err != nil {
		return nil, err
	}
	all := c.day.metrics()
	for _, add := range []func(context.Context, time.Time) ([]prometheus.Metric, error){
		c.queue, c.state, c.health, c.campaign, c.lives,
	} {
		more, err := add(ctx, now)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

func (d *day) metrics() (all []prometheus.Metric) {
	for key, n := range d.requests {
		all = append(all, value(requestsTotal, n, key[0], key[1]))
	}
	for key, n := range d.results {
		all = append(all, value(operationsTotal, n, key[0], key[1], key[2]))
	}
	for key, n := range d.failures {
		all = append(all, value(failuresTotal, n, key[0], key[1]))
	}
	for key, h := range d.phases {
		all = append(all, h.metric(phaseSeconds, key[0], key[1]))
	}
	for phase, h := range d.runs {
		all = append(all, h.metric(runSeconds, phase))
	}
	for phase, h := range d.sizes {
		all = append(all, h.metric(runNodes, phase))
	}
	return all
}

// queue returns the values of the open requests.
func (c *Collector) queue(ctx context.Context, now time.Time) (all []prometheus.Metric, err error) {
	pending, err := c.facts.Journal.Pending(ctx)
	if err != nil {
		return nil, err
	}
	open, age, waits := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, kind := range []reconfigure.DeferralKind{
		reconfigure.WaitsForJobs, reconfigure.SlurmUnreachable, reconfigure.CloudUnreachable, reconfigure.CannotPlan,
	} {
		waits[string(kind)] = 0
	}
	for _, r := range pending {
		open[string(r.Mode)]++
		age[string(r.Mode)] = max(age[string(r.Mode)], now.Sub(r.Submitted).Seconds())
		for _, d := range r.Deferred {
			waits[string(d.Kind)]++
		}
	}
	for _, mode := range modes() {
		all = append(all, value(requestsOpen, open[mode], mode), value(requestsAge, age[mode], mode))
	}
	for kind, n := range waits {
		all = append(all, value(deferrals, n, kind))
	}
	return all, nil
}

// state returns the values of the journal, the lease and the pause.
func (c *Collector) state(ctx context.Context, _ time.Time) ([]prometheus.Metric, error) {
	_, pause, err := c.facts.Journal.Paused(ctx)
	if err != nil {
		return nil, err
	}
	holder, since := c.facts.Journal.HolderSince(ctx)
	all := []prometheus.Metric{
		value(paused, truth(pause)), value(leaseHeld, truth(holder != "")), value(leaseSince, seconds(since)),
	}
	if c.facts.Size != nil {
		size, err := c.facts.Size(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, value(journalSize, float64(size)))
	}
	return all, nil
}

func (c *Collector) health(ctx context.Context, _ time.Time) (all []prometheus.Metric, err error) {
	known, err := c.facts.Journal.Health(ctx)
	if err != nil {
		return nil, err
	}
	cluster := c.facts.Cluster()
	for _, g := range cluster.Groups {
		failures, breaker := known[g.Name].Failures, cluster.Settings.Breaker
		all = append(all, value(groupFailures, float64(failures), g.Name),
			value(groupBreaker, truth(breaker > 0 && failures >= breaker), g.Name))
	}
	return all, nil
}

func (c *Collector) campaign(ctx context.Context, _ time.Time) ([]prometheus.Metric, error) {
	k, there, err := c.facts.Journal.Campaign(ctx)
	if err != nil || !there {
		return nil, err
	}
	return []prometheus.Metric{
		value(campaignActive, truth(k.Active())),
		value(campaignPaused, truth(k.State == reconfigure.CampaignPaused)),
		value(campaignNodes, float64(len(k.Open)), "open"),
		value(campaignNodes, float64(k.Done.Len()), "done"),
		value(campaignNodes, float64(len(k.Failed)), "failed"),
	}, nil
}

// lives returns the values of the instances of the day.
func (c *Collector) lives(ctx context.Context, now time.Time) ([]prometheus.Metric, error) {
	if c.usedDay.Equal(c.day.start) && now.Sub(c.usedAt) < usageFresh && !now.Before(c.usedAt) {
		return c.used, nil
	}
	start := c.day.start
	lives, err := c.facts.Journal.Lives(ctx, start)
	if err != nil {
		return nil, err
	}
	runs, err := c.facts.Journal.JobRuns(ctx, start)
	if err != nil {
		return nil, err
	}
	ready := map[string]*durations{}
	for _, l := range lives {
		if !l.Planned.IsZero() && !l.Registered.Before(start) {
			g := cmp.Or(l.Group, none)
			ready[g] = observe(ready[g], secondBuckets, max(0, l.Registered.Sub(l.Planned).Seconds()))
		}
	}
	var all []prometheus.Metric
	for g, h := range ready {
		all = append(all, h.metric(readySeconds, g))
	}
	for g, h := range usage.NewReport(usage.Facts{Now: now, Runs: runs, Lives: lives}, start, "").Groups {
		for use, d := range map[string]time.Duration{
			"used": h.Used, "idle": h.Idle, "booting": h.Booting, "wasted": h.Wasted,
		} {
			all = append(all, value(instanceSeconds, d.Seconds(), cmp.Or(g, none), use))
		}
	}
	c.usedAt, c.usedDay, c.used = now, start, all
	return all, nil
}

func modes() []string {
	return []string{
		string(reconfigure.Resume), string(reconfigure.Suspend), string(reconfigure.Update), string(reconfigure.Enlarge),
		string(reconfigure.Shrink), string(reconfigure.Resize), string(reconfigure.Deploy), string(reconfigure.Destroy),
		string(reconfigure.MakeImage), string(reconfigure.CheckNodes),
	}
}

func codes() []string {
	return []string{
		string(reconfigure.CodeDone), string(reconfigure.CodePartial), string(reconfigure.CodeFailed),
		string(reconfigure.CodeRefused), string(reconfigure.CodeCancelled),
	}
}

func classes() (all []string) {
	for _, class := range reconfigure.Classes() {
		all = append(all, string(class))
	}
	return all
}
