package snapshot_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// TestTheAgeOfInstances uses n1, which was rebuilt an hour ago, and n2, which was removed and made again.
func TestTheAgeOfInstances(t *testing.T) {
	now := time.Now()
	ago := func(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour) }
	c := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl"},
		Groups:  []reconfigure.NodeGroup{{Name: "a", Prefix: "n", Width: 1, Max: 9, MaxAge: 2 * time.Hour}},
	}
	asked := 0
	o := snapshot.Observer{
		Cluster: c,
		State: func(context.Context, nodeset.NodeSet) (reconfigure.State, error) {
			return reconfigure.State{}, errors.New("not asked for")
		},
		Servers: func(context.Context) (map[string][]reconfigure.Server, error) {
			return map[string][]reconfigure.Server{"n1": {{ID: "1", Created: ago(9)}}, "n2": {{ID: "2", Created: ago(9)}},
				"n3": {{ID: "3", Created: ago(1)}}}, nil
		},
		Lives: func(context.Context) ([]reconfigure.Life, error) {
			asked++
			return []reconfigure.Life{{Node: "n1", Instance: "1", Made: ago(9)}, {Node: "n1", Instance: "1", Made: ago(1)},
				{Node: "n2", Instance: "former", Made: ago(1)}, {Node: "n2", Instance: "2", Made: ago(1), Removed: now}}, nil
		},
	}
	seen, err := o.Observe(t.Context(), snapshot.Scope{Servers: true})
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]bool{"n1": false, "n2": true, "n3": false, "n4": false} {
		if seen.Aged(c, node) != want {
			t.Errorf("%s is too old: %t; made at %s", node, !want, seen.Fresh(c, node))
		}
	}
	if _, err := o.Observe(t.Context(), snapshot.Scope{}); err != nil || asked != 1 {
		t.Errorf("the journal was asked %d times, error %v", asked, err)
	}
	o.Cluster.Groups = nil
	if _, err := o.Observe(t.Context(), snapshot.Scope{Servers: true}); err != nil || asked != 1 {
		t.Errorf("without a maximum age the journal was asked %d times, error %v", asked, err)
	}
}
