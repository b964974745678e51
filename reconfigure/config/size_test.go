package config_test

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

func TestSizeOfAGroup(t *testing.T) {
	type size = config.Size
	enlarge, shrink := size.Enlarged, size.Shrunk
	g := reconfigure.NodeGroup{Name: "standard", Min: 3, Max: 8}
	for name, c := range map[string]struct {
		become func(size, reconfigure.NodeGroup) (int, error)
		wanted size
		want   int
		err    string
	}{
		"enlarge to more":                {enlarge, size{Nodes: 5}, 5, ""},
		"enlarge to what it is":          {enlarge, size{Nodes: 3}, 3, ""},
		"enlarge to all":                 {enlarge, size{Nodes: 8}, 8, ""},
		"enlarge to less":                {enlarge, size{Nodes: 2}, 0, "`reconfigure shrink standard --to 2`"},
		"enlarge to more than there may": {enlarge, size{Nodes: 9}, 0, "raise max_nodes"},
		"enlarge by some":                {enlarge, size{Nodes: 5, Relative: true}, 8, ""},
		"enlarge by too many":            {enlarge, size{Nodes: 6, Relative: true}, 0, "raise max_nodes"},
		"enlarge by all numbers":         {enlarge, size{Nodes: 1<<63 - 1, Relative: true}, 0, "raise max_nodes"},
		"shrink to less":                 {shrink, size{Nodes: 1}, 1, ""},
		"shrink to what it is":           {shrink, size{Nodes: 3}, 3, ""},
		"shrink to none":                 {shrink, size{Nodes: 0}, 0, ""},
		"shrink to more":                 {shrink, size{Nodes: 4}, 0, "`reconfigure enlarge standard --to 4`"},
		"shrink by some":                 {shrink, size{Nodes: 3, Relative: true}, 0, ""},
		"shrink by too many":             {shrink, size{Nodes: 4, Relative: true}, 0, "4 nodes cannot be removed"},
		"shrink by all numbers":          {shrink, size{Nodes: 1<<63 - 1, Relative: true}, 0, "cannot be removed"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.become(c.wanted, g)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%d, %v; want %d, %q", got, err, c.want, c.err)
			}
		})
	}
}
