package cloudtest

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"testing"
)

// check is one property that a cloud must have.
type check struct {
	name string
	run  func(*session) error
	// reads reports whether the check needs a running server and does not change it. All such checks share one
	// server, since a real cloud takes seconds to make one.
	reads bool
}

// checks are all checks.
func checks() []check {
	return slices.Concat(lives(), reads(), changes(), refusals(), neutrons(), placements(), extras())
}

// Run runs all checks on a cloud, each as a subtest. A check that [Differences] lists for the cloud must fail.
func Run(t *testing.T, c *Cloud) {
	different := map[string]string{}
	for _, d := range Differences() {
		if d.Cloud == c.Name {
			different[d.Check] = d.Reason
		}
	}
	shared := &session{Context: t.Context(), Cloud: c, name: "shared", version: "2.79", ids: maps.Clone(c.ids)}
	all := checks()
	// The quota counts servers, so the checks that share one come last.
	slices.SortStableFunc(all, func(a, b check) int { return cmp.Compare(rank(a), rank(b)) })
	for _, k := range all {
		reason, fails := different[k.name]
		delete(different, k.name)
		t.Run(k.name, func(t *testing.T) {
			s := &session{Context: t.Context(), Cloud: c, name: "check", version: "2.79", ids: maps.Clone(c.ids)}
			var err error
			if k.reads {
				if shared.ids["{server}"] == "" {
					err = shared.running()
				}
				s.ids["{server}"] = shared.ids["{server}"]
			}
			err = errors.Join(err, k.run(s))
			s.version = "2.79"
			if err := s.remove(); err != nil {
				t.Errorf("remove what the check made: %v", err)
			}
			switch {
			case err == nil && fails:
				t.Errorf("%s does it now: remove the entry of Differences (%s)", c.Name, reason)
			case err != nil && fails:
				t.Logf("%s differs, as expected: %s\n%v", c.Name, reason, err)
			case err != nil:
				t.Error(err)
			}
		})
	}
	if err := shared.remove(); err != nil {
		t.Errorf("remove the server that checks shared: %v", err)
	}
	for _, kind := range Questions() {
		if !c.asked[kind] {
			t.Errorf("no check asks for %q", kind)
		}
	}
	for name := range different {
		t.Errorf("Differences names the check %q, which there is not", name)
	}
}

func rank(k check) int {
	if k.reads {
		return 1
	}
	return 0
}
