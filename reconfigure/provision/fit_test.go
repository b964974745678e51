package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// creations returns changes that make nodes n1, n2, … of these flavors.
func creations(flavors ...string) []reconfigure.Change {
	var all []reconfigure.Change
	for i, flavor := range flavors {
		all = append(all, reconfigure.Change{
			Node: fmt.Sprint("n", i+1), Action: reconfigure.Create, Spec: reconfigure.Spec{FlavorID: flavor},
		})
	}
	return all
}

// Ports that the cloud refuses would keep Terraform from making the instances.
func TestWhenKeptPortsAreMadeWithTheInstances(t *testing.T) {
	deploy := func(nodes, ports int) reconfigure.Plan {
		p := reconfigure.Plan{Shared: true, Desired: map[string]reconfigure.Spec{}}
		for i := range nodes {
			p.Changes = append(p.Changes, reconfigure.Change{Node: fmt.Sprint("n", i), Action: reconfigure.Create})
			p.Desired[fmt.Sprint("n", i)] = reconfigure.Spec{ImageID: "i"}
		}
		for i := range ports {
			p.Desired[fmt.Sprint("k", i)] = reconfigure.Spec{}
		}
		return p
	}
	resume := deploy(1, 2)
	resume.Shared = false
	for name, tc := range map[string]struct {
		plan  reconfigure.Plan
		shard string
		free  int
		err   error
		want  bool
	}{
		"there is room for all": {deploy(3, 4), "", 7, nil, true},
		"one too few":           {deploy(3, 4), "", 6, nil, false},
		"the cloud is silent":   {deploy(3, 4), "", 7, errors.New("silent"), false},
		"no port is kept":       {deploy(3, 0), "", 7, nil, false},
		"more than at a time":   {deploy(3, 38), "", 1000, nil, false},
		"nothing is shared":     {resume, "", 7, nil, false},
		"another shard":         {deploy(3, 4), "group-1", 7, nil, false},
	} {
		r := &run{Shard: &Shard{name: tc.shard}, deps: Deps{
			FreePorts: func(context.Context) (int, error) { return tc.free, tc.err },
		}}
		if got := r.admitsPorts(t.Context(), tc.plan); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if r := (&run{Shard: &Shard{}}); r.admitsPorts(t.Context(), deploy(3, 4)) {
		t.Error("with a cloud that does not say how many ports are free")
	}
}

func TestFit(t *testing.T) {
	const unlimited = -1
	flavors := map[string]reconfigure.Use{
		"small": {Instances: 1, Cores: 4, RAM: 1024}, "big": {Instances: 1, Cores: 16, RAM: 65536},
	}
	for name, tc := range map[string]struct {
		limit, used reconfigure.Use
		wanted      []reconfigure.Change
		want        map[string]string
	}{
		"without limits": {
			reconfigure.Use{Instances: unlimited, Cores: unlimited, RAM: unlimited},
			reconfigure.Use{Instances: 500, Cores: 4000, RAM: 1 << 30}, creations("big", "big"), map[string]string{},
		},
		"just enough": {
			reconfigure.Use{Instances: 12, Cores: 48, RAM: 12288}, reconfigure.Use{Instances: 10, Cores: 40, RAM: 10240},
			creations("small", "small"), map[string]string{},
		},
		"nothing left": {
			reconfigure.Use{Instances: 12, Cores: unlimited, RAM: unlimited}, reconfigure.Use{Instances: 12},
			creations("small", "big"),
			map[string]string{"n1": "12 of 12 instances are in use", "n2": "12 of 12 instances are in use"},
		},
		"more in use than allowed": {
			reconfigure.Use{Instances: 10, Cores: unlimited, RAM: unlimited}, reconfigure.Use{Instances: 12}, creations("small"),
			map[string]string{"n1": "12 of 10 instances are in use"},
		},
		"a limit of nothing": {
			reconfigure.Use{Instances: 0, Cores: unlimited, RAM: unlimited}, reconfigure.Use{}, creations("small"),
			map[string]string{"n1": "0 of 0 instances are in use"},
		},
		"the first take it": {
			reconfigure.Use{Instances: 12, Cores: unlimited, RAM: unlimited}, reconfigure.Use{Instances: 10},
			creations("small", "small", "small", "small"),
			map[string]string{
				"n3": "10 of 12 instances are in use besides 2 for nodes that come first",
				"n4": "10 of 12 instances are in use besides 2 for nodes that come first",
			},
		},
		"no cores": {
			reconfigure.Use{Instances: unlimited, Cores: 48, RAM: unlimited}, reconfigure.Use{Cores: 46}, creations("small"),
			map[string]string{"n1": "46 of 48 cores are in use; it takes 4"},
		},
		"no memory": {
			reconfigure.Use{Instances: unlimited, Cores: unlimited, RAM: 98304}, reconfigure.Use{RAM: 32768},
			creations("small", "big"),
			map[string]string{
				"n2": "32768 of 98304 MiB of memory are in use besides 1024 for nodes that come first; it takes 65536",
			},
		},
		"a small one fits behind a big one that does not": {
			reconfigure.Use{Instances: unlimited, Cores: 48, RAM: unlimited}, reconfigure.Use{Cores: 40},
			creations("big", "small", "small"), map[string]string{"n1": "40 of 48 cores are in use; it takes 16"},
		},
		"a flavor that is not known is an instance": {
			reconfigure.Use{Instances: 12, Cores: 0, RAM: 0}, reconfigure.Use{Instances: 11}, creations("new", "new"),
			map[string]string{"n2": "11 of 12 instances are in use besides 1 for nodes that come first"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for node, err := range fit(
				reconfigure.Room{Limit: tc.limit, Used: tc.used, Flavors: flavors}, groups(tc.wanted, nil, nil),
			) {
				got[node] = err.Error()
				if class := reconfigure.ClassOf(err); class != reconfigure.ClassQuota {
					t.Errorf("%s is of class %s", node, class)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What fits stays within the limits, what does not would exceed one, and a longer list changes nothing for the first
// ones.
func TestFitProperties(t *testing.T) {
	limit := rapid.IntRange(-1, 40)
	use := rapid.Custom(func(r *rapid.T) reconfigure.Use {
		return reconfigure.Use{
			Instances: 1, Cores: rapid.IntRange(0, 8).Draw(r, "cores"), RAM: rapid.IntRange(0, 8).Draw(r, "ram"),
		}
	})
	rapid.Check(t, func(r *rapid.T) {
		room := reconfigure.Room{
			Limit: reconfigure.Use{
				Instances: limit.Draw(r, "instances"), Cores: limit.Draw(r, "cores"), RAM: limit.Draw(r, "ram"),
			},
			Used: reconfigure.Use{
				Instances: rapid.IntRange(0, 20).Draw(r, "used instances"), Cores: rapid.IntRange(0, 20).Draw(r, "used cores"),
				RAM: rapid.IntRange(0, 20).Draw(r, "used ram"),
			},
			Flavors: map[string]reconfigure.Use{"a": use.Draw(r, "a"), "b": use.Draw(r, "b")},
		}
		wanted := creations(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 20).Draw(r, "flavors")...)
		refused := fit(room, groups(wanted, nil, nil))

		within := func(limit, used, more int) bool { return limit < 0 || more == 0 || used+more <= limit }
		fits := func(used, more reconfigure.Use) bool {
			return within(
				room.Limit.Instances, used.Instances, more.Instances,
			) && within(room.Limit.Cores, used.Cores, more.Cores) && within(room.Limit.RAM, used.RAM, more.RAM)
		}
		used := room.Used
		for _, c := range wanted {
			takes := room.Takes(c.Spec.FlavorID)
			if fits(used, takes) == (refused[c.Node] != nil) {
				r.Errorf("%s takes %+v beside %+v of %+v, and the answer is %v", c.Node, takes, used, room.Limit, refused[c.Node])
			}
			if refused[c.Node] == nil {
				used = used.Plus(takes)
			}
		}
		head := wanted[:rapid.IntRange(0, len(wanted)).Draw(r, "head")]
		for node, err := range fit(room, groups(head, nil, nil)) {
			if refused[node] == nil || refused[node].Error() != err.Error() {
				r.Errorf("%s: %v alone, and %v among others", node, err, refused[node])
			}
		}
	})
}

// team returns the job of that number. It gets all of these nodes or none or, if the number is odd, what there is.
func team(id int64, nodes ...string) reconfigure.Job {
	return reconfigure.Job{ID: id, Nodes: nodeset.Of(nodes...)}
}

func entire(j reconfigure.Job) bool { return j.ID%2 == 0 }

// forJobs returns changes that make nodes n1 to that number, for jobs.
func forJobs(n int) []reconfigure.Change {
	all := creations(slices.Repeat([]string{"a"}, n)...)
	for i := range all {
		all[i].ForJobs = true
	}
	return all
}

func TestFitTogether(t *testing.T) {
	const short = "0 of 3 instances are in use besides 3 for nodes that come first"
	given := func(job int64, node string) string {
		return fmt.Sprintf("given up: job %d gets all of its nodes or none, and not %s: %s", job, node, short)
	}
	byHand := forJobs(5)
	byHand[0].ForJobs = false
	firstThree := map[string]string{"n1": given(2, "n4"), "n2": given(2, "n4"), "n3": given(2, "n4"), "n4": short}
	for name, tc := range map[string]struct {
		wanted []reconfigure.Change
		jobs   []reconfigure.Job
		want   map[string]string
	}{
		"they fit":     {forJobs(3), []reconfigure.Job{team(2, "n1", "n2", "n3")}, map[string]string{}},
		"one too many": {forJobs(4), []reconfigure.Job{team(2, "n1", "n2", "n3", "n4")}, firstThree},
		"one too many, and the next": {
			forJobs(6), []reconfigure.Job{team(2, "n1", "n2", "n3", "n4"), team(4, "n5", "n6")}, firstThree,
		},
		"a job of two requests": {
			forJobs(4), []reconfigure.Job{team(2, "n1", "n2"), team(2, "n3", "n4")}, firstThree,
		},
		"their nodes alternate": {
			forJobs(4), []reconfigure.Job{team(2, "n1", "n3"), team(4, "n2", "n4")},
			map[string]string{"n2": given(4, "n4"), "n4": short},
		},
		"a job that takes what it gets": {
			forJobs(4), []reconfigure.Job{team(1, "n1", "n2", "n3", "n4")}, map[string]string{"n4": short},
		},
		"both need a node": {
			forJobs(5), []reconfigure.Job{team(2, "n1", "n2", "n3", "n4"), team(1, "n2", "n5")},
			map[string]string{"n1": given(2, "n4"), "n3": given(2, "n4"), "n4": short},
		},
		"two of all or nothing need a node": {
			forJobs(5), []reconfigure.Job{team(2, "n1", "n2", "n3", "n4"), team(4, "n2", "n5")},
			map[string]string{"n1": given(2, "n4"), "n3": given(2, "n4"), "n4": short},
		},
		"what the first has the second need not get": {
			forJobs(4), []reconfigure.Job{team(2, "n1", "n2"), team(4, "n2", "n3")}, map[string]string{"n4": short},
		},
		"somebody asks by hand": {
			byHand[:4], []reconfigure.Job{team(2, "n1", "n2", "n3", "n4")},
			map[string]string{"n2": given(2, "n4"), "n3": given(2, "n4"), "n4": short},
		},
		"nodes that are there already": {
			forJobs(3), []reconfigure.Job{team(2, "n1", "n2", "n3", "n8", "n9")}, map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			room := reconfigure.Room{Limit: reconfigure.Use{Instances: 3, Cores: -1, RAM: -1}}
			for node, err := range fit(room, groups(tc.wanted, tc.jobs, entire)) {
				got[node] = err.Error()
				if class := reconfigure.ClassOf(err); class != reconfigure.ClassQuota ||
					errors.Is(err, reconfigure.ErrGivenUp) != strings.HasPrefix(err.Error(), "given up") {
					t.Errorf("%s is of class %s: %v", node, class, err)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What fits stays within the limit. A node that only all-or-nothing jobs need has room only if one of these jobs has
// room for all of its nodes. Such a job lacks room only if there is none.
func TestFitTogetherProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		wanted := forJobs(rapid.IntRange(1, 9).Draw(r, "nodes"))
		var names []string
		for i := range wanted {
			wanted[i].ForJobs = rapid.IntRange(0, 4).Draw(r, "by hand") > 0
			names = append(names, wanted[i].Node)
		}
		var jobs []reconfigure.Job
		for range rapid.IntRange(0, 4).Draw(r, "jobs") {
			jobs = append(
				jobs,
				team(
					int64(rapid.IntRange(1, 6).Draw(r, "job")), rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(r, "nodes")...,
				),
			)
		}
		limit := rapid.IntRange(0, 9).Draw(r, "limit")
		refused := fit(
			reconfigure.Room{Limit: reconfigure.Use{Instances: limit, Cores: -1, RAM: -1}}, groups(wanted, jobs, entire),
		)
		made := len(wanted) - len(refused)
		if made > limit {
			r.Fatalf("%d are made of %d", made, limit)
		}
		whole := func(j reconfigure.Job) bool { return j.Nodes.Intersect(refused.Nodes()).Empty() }
		for _, c := range wanted {
			idle := c.ForJobs && refused[c.Node] == nil
			waits := false
			for _, j := range reconfigure.Merged(jobs) {
				if j.Nodes.Contains(c.Node) {
					waits, idle = true, idle && entire(j) && !whole(j)
				}
			}
			if waits && idle {
				r.Fatalf("%s is made for no job that can begin: %v", c.Node, refused)
			}
		}
		for _, j := range reconfigure.Merged(jobs) {
			if lacks := j.Nodes.Intersect(refused.Nodes()).Len(); entire(j) && lacks > 0 && made+lacks <= limit {
				r.Fatalf("%d of %d are made, and job %d does not get %d: %v", made, limit, j.ID, lacks, refused)
			}
		}
	})
}

func TestNodesForTheMostJobsComeFirst(t *testing.T) {
	using := func() (reconfigure.Cluster, Deps) {
		return reconfigure.Cluster{Control: reconfigure.Control{Name: "n4"}}, Deps{}
	}
	a := &run{
		Shard: &Shard{Provisioner: &Provisioner{Config: Config{Using: using}}},
		state: reconfigure.State{Instances: map[string]reconfigure.Instance{
			"n5": {Node: "n5", Tainted: true}, "n6": {Node: "n6", ID: "6", Tainted: true},
		}},
	}
	plan := reconfigure.Plan{Changes: append(creations("a", "a", "a", "a"),
		reconfigure.Change{Node: "n5", Action: reconfigure.Replace},
		reconfigure.Change{Node: "n6", Action: reconfigure.Replace},
		reconfigure.Change{
			Node: "n7", Action: reconfigure.Remove,
		}, reconfigure.Change{Node: "n8", Action: reconfigure.Create})}
	plan.Jobs = []reconfigure.Job{
		{ID: 1, Nodes: nodeset.Of("n2", "n3")}, {ID: 2, Nodes: nodeset.Of("n3")}, {ID: 1, Nodes: nodeset.Of("n2", "n8")},
		{ID: 3, Nodes: nodeset.Of("n7")},
	}
	var got []string
	for _, c := range a.newcomers(plan) {
		got = append(got, c.Node)
	}
	if diff := cmp.Diff([]string{"n4", "n3", "n2", "n8", "n1", "n5"}, got); diff != "" {
		t.Error(diff)
	}
}
