package web_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/web"
)

// crowd is a cluster of many nodes. Each gets an instance a day; one in fifty fails, and one in ten of the others runs a
// job.
type crowd struct {
	nodes, days int
	journal     *journal.Journal
	cluster     reconfigure.Cluster
	now         time.Time
}

// newCrowd fills a journal in SQLite.
func newCrowd(t testing.TB, nodes, days int) crowd {
	t.Helper()
	j, err := journal.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	source := reconfigure.Source{Image: "rocky-9.6", Flavor: "c16", Network: "cluster"}
	c := crowd{nodes, days, j, reconfigure.Cluster{
		Name: "large", Control: reconfigure.Control{Name: "ctl", Source: source},
		Groups: []reconfigure.NodeGroup{{Name: "standard", Prefix: "node", Width: 4, Source: source, Max: nodes}},
	}, time.Now().Truncate(time.Second)}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := j.Submit(t.Context(), reconfigure.Request{Mode: reconfigure.Deploy})
	check(err)
	release, ok, err := j.Acquire(t.Context())
	if check(err); !ok {
		t.Fatal("the lease is taken")
	}
	plan, err := j.Begin(t.Context(), []reconfigure.RequestID{r.ID})
	check(err)
	for day := range days {
		var events []reconfigure.Event
		var runs []reconfigure.JobRun
		for i := range nodes {
			node := c.cluster.Groups[0].Node(i + 1)
			from := c.now.Add(time.Duration(day-days)*24*time.Hour + time.Duration(i%1200)*time.Minute)
			l := reconfigure.Life{
				Node: node, Instance: fmt.Sprintf("7d0f3c1e-%04d-4b1c-9d55-%012d", i, day), Plan: plan, Group: "standard",
				Image: "rocky-9.6", ImageID: "c2b1a6f4-6d8e-4a3f-8f0a-1b2c3d4e5f60", Flavor: "c16",
				FlavorID: "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", Host: fmt.Sprintf("compute-%03d", i%200),
				Planned: from, Made: from.Add(20 * time.Second), Removed: from.Add(9 * time.Hour),
			}
			if (i+day)%50 == 0 {
				l.Failed, l.Removed = "no-ssh: it does not answer", from.Add(10*time.Minute)
				events = append(events, reconfigure.Event{
					Time: l.Removed, Plan: plan, Node: node, Phase: reconfigure.PhaseBoot, Level: reconfigure.Failed, Message: l.Failed,
				})
			} else {
				l.Booted, l.Configured, l.Registered = from.Add(time.Minute), from.Add(2*time.Minute), from.Add(125*time.Second)
				if (i+day)%10 == 1 {
					runs = append(runs, reconfigure.JobRun{
						ID: int64(day*nodes + i + 1), User: "anna", Partition: "main", State: "COMPLETED", Nodes: nodeset.Of(node),
						Submitted: from, Started: l.Registered, Ended: from.Add(8 * time.Hour),
					})
				}
			}
			events = append(events, reconfigure.Event{Node: node, Life: &l})
		}
		check(j.Record(t.Context(), events...))
		check(j.KeepJobRuns(t.Context(), 0, runs...))
	}
	check(release())
	return c
}

// server serves the pages of a crowd.
func (c crowd) server(t testing.TB) string {
	states, instances := map[string]reconfigure.NodeState{}, map[string]reconfigure.Instance{}
	for i, node := range c.cluster.Groups[0].Nodes().Names() {
		states[node] = reconfigure.NodeState{Node: node, Flags: reconfigure.NodeIdle | reconfigure.NodeCloud, Busy: i%2 == 0}
		instances[node] = reconfigure.Instance{Node: node, ID: node}
	}
	seen := snapshot.Snapshot{States: states, Instances: instances, Servers: map[string][]reconfigure.Server{}}
	return listenAt(t, web.New(t.Context(), web.Sources{
		Journal: c.journal, Cluster: func() reconfigure.Cluster { return c.cluster },
		Ask:  func(context.Context) (web.Answers, error) { return web.Answers{Seen: seen}, nil },
		Last: func() (reconcile.Look, error) { return reconcile.Look{}, nil },
		Log:  slog.New(slog.NewTextHandler(io.Discard, nil)), Now: func() time.Time { return c.now },
	}).Handler())
}

// firstPaint is the limit of a page's size, in bytes: the page itself, its style and its script.
const firstPaint = 300_000

// TestPagesOfManyNodesAreSmall reads the pages of 4000 nodes of which each had an instance on each of 90 days. The lives
// of nodes that the page does not show cost it nothing, so that only those of its rows are written.
func TestPagesOfManyNodesAreSmall(t *testing.T) {
	c := newCrowd(t, 60, 90)
	c.cluster.Groups[0].Max = 4000
	at := c.server(t)
	_, _, style := fetch(t, http.MethodGet, at+"/static/page.css", nil)
	_, _, code := fetch(t, http.MethodGet, at+"/static/page.js", nil)
	for _, path := range []string{
		"", "timeline?window=90d", "timeline?window=30d", "timeline?window=1d", "timeline?window=90d&as=table", "requests",
		"node/node0001", "drift", "hours?period=30d",
	} {
		status, _, body := fetch(t, http.MethodGet, at+"/"+path, nil)
		if size := len(body) + len(style) + len(code); status != http.StatusOK || size > firstPaint {
			t.Errorf("%s: %d, %d bytes", path, status, size)
		}
	}
}

// cpu returns the time of the processor that this process, without Chromium, has used: it depends little on other load.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkFirstPaint opens the start page and the timeline of 4000 nodes over 90 days in Chromium, and reports the time
// until the first contentful paint, the longest one, and the size of all that was loaded.
func BenchmarkFirstPaint(b *testing.B) {
	c := newCrowd(b, 4000, 90)
	at := c.server(b)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium"), chromedp.NoSandbox)...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	for _, path := range []string{"", "timeline?window=90d", "timeline?window=1d", "node/node0001"} {
		name := path
		if name == "" {
			name = "start"
		}
		b.Run(name, func(b *testing.B) {
			const measured = `new Promise((done) => new PerformanceObserver((list) => {
				const paint = list.getEntriesByName('first-contentful-paint')[0];
				if (!paint) return;
				const parts = performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'));
				done([paint.startTime / 1000, parts.filter((p) => !p.name.endsWith('/events'))
					.reduce((sum, p) => sum + p.encodedBodySize, 0) / 1000]);
			}).observe({type: 'paint', buffered: true}))`
			var seconds, size float64
			used := cpu(b)
			for b.Loop() {
				if err := chromedp.Do(ctx, chromedp.Navigate(at+"/"+path)); err != nil {
					b.Fatal(err)
				}
				got, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](measured, chromedp.EvalAwaitPromise))
				if err != nil {
					b.Fatal(err)
				}
				seconds, size = max(seconds, got[0]), max(size, got[1])
			}
			b.ReportMetric(seconds, "s-to-paint")
			b.ReportMetric((cpu(b)-used).Seconds()/float64(b.N), "server-cpu-s")
			b.ReportMetric(size, "kB")
		})
	}
}
