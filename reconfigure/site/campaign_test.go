package site

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func TestTheFormerImage(t *testing.T) {
	for name, c := range map[string]struct {
		former map[string]nodeset.NodeSet
		want   string
		err    string
	}{
		"one":                       {map[string]nodeset.NodeSet{"old": nodeset.Of("n1", "n2")}, "old", ""},
		"no node was outdated":      {nil, "", ""},
		"only the flavor was other": {map[string]nodeset.NodeSet{"new": nodeset.Of("n1")}, "", ""},
		"several": {
			map[string]nodeset.NodeSet{"old": nodeset.Of("n1", "n2"), "older": nodeset.Of("n3")}, "",
			"several images before campaign 4: old on n[1-2], older on n3; write one of them",
		},
	} {
		t.Run(name, func(t *testing.T) {
			last := reconfigure.Campaign{
				ID: 4, Targets: map[string]reconfigure.Spec{"n": {ImageID: "new"}},
				Former: map[string]map[string]nodeset.NodeSet{"n": c.former},
			}
			got, err := formerImage(last, "n")
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}
