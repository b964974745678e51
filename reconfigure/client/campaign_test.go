package client

import (
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestTheFormerImage(t *testing.T) {
	began := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	life := func(group, image string, made time.Duration) reconfigure.Life {
		return reconfigure.Life{Group: group, ImageID: image, Made: began.Add(made), Registered: began.Add(made)}
	}
	failed := life("n", "broken", -time.Minute)
	failed.Registered = time.Time{}
	for name, tc := range map[string]struct {
		former map[string]nodeset.NodeSet
		lives  []reconfigure.Life
		want   string
		err    string
	}{
		"one": {
			former: map[string]nodeset.NodeSet{"old": nodeset.Of("n1", "n2")},
			lives:  []reconfigure.Life{life("n", "older", -time.Hour)}, want: "old",
		},
		"only the flavor was other": {former: map[string]nodeset.NodeSet{"new": nodeset.Of("n1")}, want: "new"},
		"several": {
			former: map[string]nodeset.NodeSet{"old": nodeset.Of("n1", "n2"), "older": nodeset.Of("n3")},
			err:    "several images before campaign 4: old on n[1-2], older on n3; write one of them",
		},
		"all nodes were off": {
			lives: []reconfigure.Life{
				life("n", "older", -2*time.Hour), life("n", "old", -time.Hour), life("m", "other", -time.Minute), failed,
				life("n", "new", time.Minute),
			},
			want: "old",
		},
		"there was never a node": {lives: []reconfigure.Life{life("m", "other", -time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			last := reconfigure.Campaign{
				ID: 4, Started: began, Targets: map[string]reconfigure.Spec{"n": {ImageID: "new"}},
				Former: map[string]map[string]nodeset.NodeSet{"n": tc.former},
			}
			got, err := formerImage(last, "n", tc.lives)
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, tc.want, tc.err)
			}
		})
	}
}
