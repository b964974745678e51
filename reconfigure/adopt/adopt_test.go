package adopt

import (
	"strings"
	"testing"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

func facts() Facts {
	f := Facts{
		ID: "ours",
		Cluster: reconfigure.Cluster{
			Control: reconfigure.Control{Name: "ctl"},
			Groups:  []reconfigure.NodeGroup{{Name: "group", Prefix: "n", Width: 1, Max: 3}},
		},
		Desired: map[string]reconfigure.Spec{},
		Candidates: map[string][]reconfigure.Candidate{"n1": {{
			Server: reconfigure.Server{
				ID: "1", Node: "n1", Status: reconfigure.ServerActive, ImageID: "image", FlavorID: "flavor",
			},
			Ports: []reconfigure.Port{{ID: "port"}},
		}}},
	}
	return f
}

func TestAServerIsAdoptedOrRefused(t *testing.T) {
	claimed := func(f *Facts) {
		f.Candidates["n1"][0].Cluster, f.Candidates["n1"][0].Adopted = "ours", true
		f.Desired["n1"] = reconfigure.Spec{ImageID: "image"}
	}
	server := func(change func(*reconfigure.Candidate)) func(*Facts) {
		return func(f *Facts) { change(&f.Candidates["n1"][0]) }
	}
	ours := func(c *reconfigure.Candidate) { c.Cluster = "ours" }
	for name, tc := range map[string]struct {
		node   string
		change func(*Facts)
		want   string // empty: it is adopted
	}{
		"a server of no cluster": {"n1", func(*Facts) {}, ""},
		"no node":                {"m1", func(*Facts) {}, "no node group"},
		"no server":              {"n2", func(*Facts) {}, "no server with this name"},
		"two servers": {"n1", func(f *Facts) {
			f.Candidates["n1"] = append(f.Candidates["n1"], f.Candidates["n1"][0])
		}, "2 servers"},
		"the cluster's":          {"n1", server(ours), "the cluster's already"},
		"adopted before":         {"n1", claimed, "the cluster's already"},
		"a call that was killed": {"n1", func(f *Facts) { claimed(f); f.Again = true }, ""},
		"killed, and not adopted": {
			"n1", func(f *Facts) { server(ours)(f); f.Again = true }, "the cluster's already",
		},
		"another cluster's": {"n1", server(func(c *reconfigure.Candidate) { c.Cluster = "theirs" }), "the cluster theirs"},
		"an instance is recorded": {
			"n1", func(f *Facts) { f.Desired["n1"] = reconfigure.Spec{ImageID: "image"} }, "no longer has",
		},
		"a kept port": {"n1", func(f *Facts) { f.Desired["n1"] = reconfigure.Spec{NetworkID: "net"} }, "keeps a port"},
		"stopped":     {"n1", server(func(c *reconfigure.Candidate) { c.Status = reconfigure.ServerStopped }), "start it"},
		"a volume":    {"n1", server(func(c *reconfigure.Candidate) { c.ImageID = "" }), "boots from a volume"},
		"no flavor":   {"n1", server(func(c *reconfigure.Candidate) { c.FlavorID = "" }), "flavor"},
		"two ports":   {"n1", server(func(c *reconfigure.Candidate) { c.Ports = make([]reconfigure.Port, 2) }), "2 ports"},
	} {
		f := facts()
		tc.change(&f)
		chosen, refused := Choose(f, nodeset.Of(tc.node))
		if _, ok := chosen[tc.node]; ok != (tc.want == "") || ok == (refused[tc.node] != nil) {
			t.Errorf("%s: chosen %v, refused %v", name, chosen, refused)
		} else if !ok && !strings.Contains(refused[tc.node].Error(), tc.want) {
			t.Errorf("%s: %v", name, refused[tc.node])
		}
	}
}

func TestAnInstanceIsReleasedOrRefused(t *testing.T) {
	one := map[string][]reconfigure.Server{"n1": {{ID: "1"}}, "ctl": {{ID: "0"}}}
	known := func(f *Facts) {
		f.Desired["n1"], f.Desired["ctl"] = reconfigure.Spec{ImageID: "image"}, reconfigure.Spec{ImageID: "image"}
	}
	for name, tc := range map[string]struct {
		node   string
		change func(*Facts)
		ours   map[string][]reconfigure.Server
		want   string
	}{
		"an instance":            {"n1", known, one, ""},
		"the control node":       {"ctl", known, one, "control node"},
		"no instance":            {"n2", known, one, "no instance"},
		"a server of others":     {"n1", func(*Facts) {}, one, "no instance"},
		"a call that was killed": {"n1", func(f *Facts) { f.Again = true }, one, ""},
		"killed, and it is gone": {"n1", func(f *Facts) { f.Again = true }, nil, "no instance"},
		"it is gone":             {"n1", known, nil, "0 instances"},
		"two instances":          {"n1", known, map[string][]reconfigure.Server{"n1": {{ID: "1"}, {ID: "2"}}}, "2 instances"},
	} {
		f := facts()
		tc.change(&f)
		chosen, refused := Releasable(f, nodeset.Of(tc.node), tc.ours)
		if _, ok := chosen[tc.node]; ok != (tc.want == "") || ok == (refused[tc.node] != nil) {
			t.Errorf("%s: chosen %v, refused %v", name, chosen, refused)
		} else if !ok && !strings.Contains(refused[tc.node].Error(), tc.want) {
			t.Errorf("%s: %v", name, refused[tc.node])
		}
	}
}
