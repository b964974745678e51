package storm

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/campaign"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// campaign returns the controller's dependencies for campaigns.
func (l *life) campaign(open func() reconfigure.Cluster) func(context.Context) (time.Duration, bool) {
	runner := campaign.Runner{Journal: diary{l}, Open: func(context.Context) (campaign.Site, error) {
		l.alive()
		cluster := open()
		cluster.Settings.CanaryJob, cluster.Settings.CanaryTime = l.job, time.Minute
		site := l.site(cluster)
		observe := func(ctx context.Context, scope snapshot.Scope) (snapshot.Snapshot, error) {
			l.alive()
			return site.Observe(ctx, scope)
		}
		return campaign.Site{Cluster: cluster, Observe: observe, Tester: func(reconfigure.Instance) campaign.Tester {
			return tester{l}
		}}, nil
	}}
	return runner.Advance(slog.New(slog.NewTextHandler(io.Discard, nil)))
}

// tester plays Slurm in the test of a canary.
type tester struct{ *life }

func (s tester) Reserve(ctx context.Context, name, node string) error {
	s.alive()
	defer s.did("reserved " + node)
	return s.world.Reserve(ctx, name, node)
}

func (s tester) Test(
	ctx context.Context, name, node, partition string, limit time.Duration,
) (bool, string, error) {
	s.alive()
	defer s.did("tested " + node)
	return s.world.Test(ctx, name, node, partition, limit)
}

func (s tester) Release(ctx context.Context, name string) error {
	s.alive()
	defer s.did("released " + name)
	return s.world.Release(ctx, name)
}

func (s tester) Drain(ctx context.Context, nodes nodeset.NodeSet, reason string) error {
	s.alive()
	defer s.did("drained " + nodes.String())
	return s.world.Drain(ctx, nodes, reason)
}

// crusade is a campaign in a separate world.
type crusade struct {
	*play
	nodes int
}

func beginCampaign(t *testing.T, nodes int, spoiled string, change func(*reconfigure.Campaign)) crusade {
	t.Helper()
	s := scene{was: declared(nodes, nodes+2), now: of("v2", declared(nodes, nodes+2)), have: []string{"ctl"}}
	for node := range s.was.Persistent().All() {
		s.have = append(s.have, node)
	}
	s.prepare = func(w *simulate.World) {
		w.Spoil(spoiled)
		for i := 1; i <= nodes; i += 3 { // every third node has a job, and later gets another one if possible
			node := s.was.Groups[0].Node(i)
			w.StartJob(node)
			time.AfterFunc(time.Duration(40+i)*time.Second, func() { w.EndJob(node) })
		}
	}
	p := s.begin(t, memory.New())
	site := newLife(p.world, p.book).site(p.cluster())
	seen, err := site.Observe(t.Context(), snapshot.Scope{Declared: true})
	if err != nil {
		t.Fatal(err)
	}
	c := reconfigure.Campaign{Groups: []string{"group"}, Canary: true, CampaignLimits: reconfigure.CampaignLimits{
		Batch: 2, MaxUnavailable: 2, PauseOnFailures: 1, DrainTimeout: time.Hour,
	}}
	if change != nil {
		change(&c)
	}
	if c, err = campaign.New(c, p.cluster(), seen); err != nil {
		t.Fatal(err)
	}
	if _, err := p.book.StartCampaign(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return crusade{p, nodes}
}

// work runs a worker until the campaign needs none, or until the worker is killed at a moment.
func (c crusade) work(killed int) (*life, error) {
	l := newLife(c.world, c.book)
	l.end, l.job, l.pace = killed, "true", time.Second
	err := l.work(c.Context(), c.cluster)
	return l, err
}

// result is the part of a campaign's result that must not depend on kills.
func (c crusade) result() (reconfigure.Campaign, view) {
	c.Helper()
	time.Sleep(10 * time.Minute) // until the jobs have ended
	record, _, err := c.book.Campaign(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	record.Started, record.Ended = time.Time{}, time.Time{}
	for i := range record.Canaries {
		record.Canaries[i].Since = time.Time{}
	}
	v := c.view()
	if reserved := c.world.Reserved(); !reserved.Empty() {
		c.Errorf("%s are still reserved", reserved)
	}
	return record, v
}

// updated checks that each node had one request of the campaign.
func (c crusade) updated(requests int) {
	c.Helper()
	all, err := c.book.(*memory.Journal).Requests(c.Context(), 1000)
	if err != nil {
		c.Fatal(err)
	}
	nodes := map[string]int{}
	for _, r := range all {
		for node := range r.Nodes.All() {
			nodes[node]++
			if nodes[node] > 1 || r.Campaign != 1 {
				c.Errorf("request %+v is not the only one for its node", r)
			}
		}
	}
	if len(nodes) != requests {
		c.Errorf("%d nodes had a request, not %d: %v", len(nodes), requests, nodes)
	}
}

// TestACampaignSurvivesEachKill kills the worker of a campaign at each moment in turn.
func TestACampaignSurvivesEachKill(t *testing.T) {
	for name, s := range map[string]struct {
		spoiled         string
		state           reconfigure.CampaignState
		nodes, requests int
	}{
		"a good image": {"", reconfigure.CampaignDone, 4, 4},
		"a bad image":  {"v2", reconfigure.CampaignPaused, 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var want reconfigure.Campaign
			var end view
			moments := 0
			synctest.Test(t, func(t *testing.T) {
				c := beginCampaign(t, s.nodes, s.spoiled, nil)
				l, err := c.work(0)
				if err != nil {
					t.Fatal(err)
				}
				want, end = c.result()
				moments = l.now
				if c.updated(s.requests); want.State != s.state || want.Done.Len() != s.requests {
					t.Fatalf("the campaign is %+v\ncalls %q", want, c.world.Calls())
				}
			})
			t.Logf("the worker is killed at %d points", moments)
			for moment := 1; moment <= moments && !t.Failed(); moment++ {
				synctest.Test(t, func(t *testing.T) {
					c := beginCampaign(t, s.nodes, s.spoiled, nil)
					l, err := c.work(moment)
					if err != nil && !errors.Is(err, errKilled) {
						t.Fatalf("killed at moment %d: %v", moment, err)
					}
					synctest.Wait()
					if _, err := c.work(0); err != nil {
						t.Fatal(err)
					}
					c.updated(s.requests)
					is, now := c.result()
					diff := cmp.Diff(want, is, cmpopts.EquateEmpty()) + cmp.Diff(end.Nodes, now.Nodes)
					if diff != "" || len(now.Lost)+len(now.Orphans) > 0 {
						t.Errorf("killed at moment %d, when it had just %s: lost %v, orphans %v (-undisturbed +got):\n%s\ncalls %q",
							moment, l.last, now.Lost, now.Orphans, diff, c.world.Calls())
					}
					time.Sleep(time.Hour) // until the batchers of the killed worker have given up waiting
				})
			}
		})
	}
}

// TestACampaignOverTwentyNodes has jobs on some of the nodes and two kills of its worker. The number of unavailable
// nodes never exceeds the limit.
func TestACampaignOverTwentyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := beginCampaign(t, 20, "", func(c *reconfigure.Campaign) { c.Batch, c.MaxUnavailable = 5, 4 })
		ctx, stop := context.WithCancel(t.Context())
		watched := make(chan int)
		go func() {
			most := 0
			for ctx.Err() == nil {
				away := 0
				for node := range c.was.Persistent().All() {
					if n := c.world.Node(node); n.State != "IDLE" && n.State != "ALLOCATED" {
						away++
					}
				}
				most = max(most, away)
				time.Sleep(250 * time.Millisecond)
			}
			watched <- most
		}()
		for _, moment := range []int{60, 150, 0} {
			l, err := c.work(moment)
			if moment > 0 && !errors.Is(err, errKilled) || moment == 0 && err != nil {
				t.Fatalf("moment %d: %v, when it had just %s", moment, err, l.last)
			}
		}
		stop()
		if most := <-watched; most > 4 || most < 2 {
			t.Errorf("%d nodes were unavailable at once", most)
		}
		c.updated(20)
		is, v := c.result()
		if is.State != reconfigure.CampaignDone || is.Done.Len() != 20 || len(v.Lost) > 0 {
			t.Errorf("%+v, lost %v", is, v.Lost)
		}
		for node := range c.was.Persistent().All() {
			if n := v.Nodes[node]; n.Made.ImageID != v.Nodes["p1"].Made.ImageID || n.State != "IDLE" {
				t.Errorf("%s: %+v", node, n)
			}
		}
		time.Sleep(time.Hour) // until the batchers of the killed workers have given up waiting
	})
}

// TestACampaignRestsInAPause pauses the whole cluster, which must not pause the campaign.
func TestACampaignRestsInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := beginCampaign(t, 4, "", nil)
		j := c.book.(*memory.Journal)
		if err := j.Pause(t.Context(), "a disk is swapped", "anna"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.work(0); err != nil {
			t.Fatal(err)
		}
		c.updated(0)
		if err := j.Continue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.work(0); err != nil {
			t.Fatal(err)
		}
		c.updated(4)
		if is, _ := c.result(); is.State != reconfigure.CampaignDone {
			t.Errorf("%+v", is)
		}
	})
}
