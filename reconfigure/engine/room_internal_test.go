package engine

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// creations is changes that make nodes n1, n2, … of these flavors.
func creations(flavors ...string) []reconfigure.Change {
	var all []reconfigure.Change
	for i, flavor := range flavors {
		all = append(all, reconfigure.Change{Node: fmt.Sprint("n", i+1), Action: reconfigure.Create, Spec: reconfigure.Spec{FlavorID: flavor}})
	}
	return all
}

func TestFit(t *testing.T) {
	const unlimited = -1
	flavors := map[string]reconfigure.Use{"small": {Instances: 1, Cores: 4, RAM: 1024}, "big": {Instances: 1, Cores: 16, RAM: 65536}}
	for name, tc := range map[string]struct {
		limit, used reconfigure.Use
		wanted      []reconfigure.Change
		want        map[string]string
	}{
		"without limits": {
			reconfigure.Use{Instances: unlimited, Cores: unlimited, RAM: unlimited}, reconfigure.Use{Instances: 500, Cores: 4000, RAM: 1 << 30}, creations("big", "big"), map[string]string{},
		},
		"just enough": {reconfigure.Use{Instances: 12, Cores: 48, RAM: 12288}, reconfigure.Use{Instances: 10, Cores: 40, RAM: 10240}, creations("small", "small"), map[string]string{}},
		"nothing left": {
			reconfigure.Use{Instances: 12, Cores: unlimited, RAM: unlimited}, reconfigure.Use{Instances: 12}, creations("small", "big"),
			map[string]string{"n1": "12 of 12 instances are in use", "n2": "12 of 12 instances are in use"},
		},
		"more in use than allowed": {
			reconfigure.Use{Instances: 10, Cores: unlimited, RAM: unlimited}, reconfigure.Use{Instances: 12}, creations("small"), map[string]string{"n1": "12 of 10 instances are in use"},
		},
		"a limit of nothing": {reconfigure.Use{Instances: 0, Cores: unlimited, RAM: unlimited}, reconfigure.Use{}, creations("small"), map[string]string{"n1": "0 of 0 instances are in use"}},
		"the first take it": {
			reconfigure.Use{Instances: 12, Cores: unlimited, RAM: unlimited}, reconfigure.Use{Instances: 10}, creations("small", "small", "small", "small"),
			map[string]string{
				"n3": "10 of 12 instances are in use besides 2 for nodes that come first",
				"n4": "10 of 12 instances are in use besides 2 for nodes that come first",
			},
		},
		"no cores": {
			reconfigure.Use{Instances: unlimited, Cores: 48, RAM: unlimited}, reconfigure.Use{Cores: 46}, creations("small"), map[string]string{"n1": "46 of 48 cores are in use; it takes 4"},
		},
		"no memory": {
			reconfigure.Use{Instances: unlimited, Cores: unlimited, RAM: 98304}, reconfigure.Use{RAM: 32768}, creations("small", "big"),
			map[string]string{"n2": "32768 of 98304 MiB of memory are in use besides 1024 for nodes that come first; it takes 65536"},
		},
		"a small one fits behind a big one that does not": {
			reconfigure.Use{Instances: unlimited, Cores: 48, RAM: unlimited}, reconfigure.Use{Cores: 40}, creations("big", "small", "small"), map[string]string{"n1": "40 of 48 cores are in use; it takes 16"},
		},
		"a flavor that is not known is an instance": {
			reconfigure.Use{Instances: 12, Cores: 0, RAM: 0}, reconfigure.Use{Instances: 11}, creations("new", "new"),
			map[string]string{"n2": "11 of 12 instances are in use besides 1 for nodes that come first"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for node, err := range fit(reconfigure.Room{Limit: tc.limit, Used: tc.used, Flavors: flavors}, companies(tc.wanted, nil, nil)) {
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

// What fits stays within the limits, what does not would have exceeded one, and a longer list changes nothing for those that come first.
func TestFitProperties(t *testing.T) {
	limit := rapid.IntRange(-1, 40)
	use := rapid.Custom(func(r *rapid.T) reconfigure.Use {
		return reconfigure.Use{Instances: 1, Cores: rapid.IntRange(0, 8).Draw(r, "cores"), RAM: rapid.IntRange(0, 8).Draw(r, "ram")}
	})
	rapid.Check(t, func(r *rapid.T) {
		room := reconfigure.Room{
			Limit:   reconfigure.Use{Instances: limit.Draw(r, "instances"), Cores: limit.Draw(r, "cores"), RAM: limit.Draw(r, "ram")},
			Used:    reconfigure.Use{Instances: rapid.IntRange(0, 20).Draw(r, "used instances"), Cores: rapid.IntRange(0, 20).Draw(r, "used cores"), RAM: rapid.IntRange(0, 20).Draw(r, "used ram")},
			Flavors: map[string]reconfigure.Use{"a": use.Draw(r, "a"), "b": use.Draw(r, "b")},
		}
		wanted := creations(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 20).Draw(r, "flavors")...)
		refused := fit(room, companies(wanted, nil, nil))

		within := func(limit, used, more int) bool { return limit < 0 || more == 0 || used+more <= limit }
		fits := func(used, more reconfigure.Use) bool {
			return within(room.Limit.Instances, used.Instances, more.Instances) && within(room.Limit.Cores, used.Cores, more.Cores) && within(room.Limit.RAM, used.RAM, more.RAM)
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
		for node, err := range fit(room, companies(head, nil, nil)) {
			if refused[node] == nil || refused[node].Error() != err.Error() {
				r.Errorf("%s: %v alone, and %v among others", node, err, refused[node])
			}
		}
	})
}

func TestThoseForWhichTheMostJobsWaitComeFirst(t *testing.T) {
	b := &batch{Engine: &Engine{cluster: reconfigure.Cluster{Control: reconfigure.Control{Name: "n4"}}}, instances: map[string]reconfigure.Instance{
		"n5": {Node: "n5", Tainted: true}, "n6": {Node: "n6", ID: "6", Tainted: true},
	}}
	plan := reconfigure.Plan{Changes: append(creations("a", "a", "a", "a"),
		reconfigure.Change{Node: "n5", Action: reconfigure.Replace}, reconfigure.Change{Node: "n6", Action: reconfigure.Replace},
		reconfigure.Change{Node: "n7", Action: reconfigure.Remove}, reconfigure.Change{Node: "n8", Action: reconfigure.Create})}
	plan.Jobs = []reconfigure.Job{
		{ID: 1, Nodes: nodeset.Of("n2", "n3")}, {ID: 2, Nodes: nodeset.Of("n3")}, {ID: 1, Nodes: nodeset.Of("n2", "n8")}, {ID: 3, Nodes: nodeset.Of("n7")},
	}
	var got []string
	for _, c := range b.newcomers(plan) {
		got = append(got, c.Node)
	}
	if diff := cmp.Diff([]string{"n4", "n3", "n2", "n8", "n1", "n5"}, got); diff != "" {
		t.Error(diff)
	}
}
