package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	_ "github.com/eiffel-hpc/eiffel/lab/sameseed"
	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

var (
	declaredSource = reconfigure.Source{Image: "debian-12", Flavor: "m1.large", Network: "cluster"}
	threeGroups    = reconfigure.Cluster{
		Name:    "eiffel",
		Control: reconfigure.Control{Name: "eiffel-control", Source: declaredSource},
		Groups: []reconfigure.NodeGroup{
			{Name: "standard", Prefix: "node", Width: 2, Source: declaredSource, Min: 2, Max: 20},
			{Name: "gpu", Prefix: "gpu", Width: 1, Source: declaredSource, Max: 4},
		},
	}
)

var utcNoon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

const (
	newImage = "11111111-0000-4000-8000-000000000001"
	oldImage = "11111111-0000-4000-8000-000000000000"
)

// busy is a cluster with much activity.
func busy() (snapshot.Snapshot, Journal) {
	seen := snapshot.Snapshot{
		Servers: map[string][]reconfigure.Server{},
		Sources: map[reconfigure.Source]reconfigure.Resolved{
			declaredSource: {ImageID: newImage, FlavorID: "large", NetworkID: "net"},
		},
		Desired:   map[string]reconfigure.Spec{},
		Instances: map[string]reconfigure.Instance{},
		States:    map[string]reconfigure.NodeState{},
	}
	for i, node := range []string{"eiffel-control", "node01", "node02", "node03", "node05", "old1"} {
		image := newImage
		if node == "node02" {
			image = oldImage
		}
		address := fmt.Sprintf("10.60.0.%d", i+1)
		seen.Desired[node] = reconfigure.Spec{
			Group:     groupIn(threeGroups, node),
			ImageID:   image,
			FlavorID:  "large",
			NetworkID: "net",
		}
		seen.Instances[node] = reconfigure.Instance{Node: node, ID: node, Address: address}
		seen.Servers[node] = []reconfigure.Server{
			{
				ID:      node,
				Node:    node,
				Status:  "ACTIVE",
				Address: address,
				ImageID: image,
				Created: utcNoon.Add(-time.Duration(i*i*7) * time.Hour),
			},
		}
	}
	delete(seen.Servers, "node03")
	seen.Desired["node05"] = reconfigure.Spec{
		Group:     "standard",
		ImageID:   newImage,
		FlavorID:  "medium",
		NetworkID: "net",
	}
	seen.Servers["node05"] = append(
		seen.Servers["node05"],
		reconfigure.Server{ID: "x", Node: "node05", Status: "ERROR", Created: utcNoon.Add(-time.Minute)},
	)
	for i := 1; i <= 20; i++ {
		seen.States[fmt.Sprintf("node%02d", i)] = reconfigure.NodeState{
			Flags: reconfigure.NodeIdle | reconfigure.NodeCloud | reconfigure.NodePoweredDown,
		}
	}
	seen.States["node01"] = reconfigure.NodeState{
		Flags:  reconfigure.NodeMixed | reconfigure.NodeDrain,
		Reason: "reconfigure: update",
		Busy:   true,
	}
	seen.States["node02"] = reconfigure.NodeState{
		Flags:  reconfigure.NodeIdle | reconfigure.NodeDrain,
		Reason: "memory errors",
	}
	seen.States["node05"] = reconfigure.NodeState{Flags: reconfigure.NodeAllocated | reconfigure.NodeCloud}
	seen.States["node06"] = reconfigure.NodeState{
		Flags: reconfigure.NodeMixed | reconfigure.NodeCloud | reconfigure.NodePoweringUp,
	}
	known := Journal{
		Time:   utcNoon,
		Leader: "process 4711 on control since 2026-01-31T11:00:00Z",
		Last: map[string]reconfigure.Event{
			"node01": {Phase: reconfigure.PhaseVerify, Level: reconfigure.Done, Time: utcNoon.Add(-26 * time.Hour)},
			"node06": {
				Plan:  5,
				Phase: reconfigure.PhaseBoot,
				Level: reconfigure.Begun,
				Time:  utcNoon.Add(-9 * time.Second),
			},
			"node07": {
				Phase:   reconfigure.PhaseApply,
				Level:   reconfigure.Failed,
				Time:    utcNoon.Add(-3 * time.Minute),
				Message: "No valid host was found",
			},
			"node05": {Phase: reconfigure.PhaseConfigure, Level: reconfigure.Done, Time: utcNoon.Add(-3 * time.Minute)},
		},
		Pending: []Request{
			NewRequest(
				reconfigure.Request{
					ID: 6, Mode: reconfigure.Update, Nodes: nodeset.Of("node01"), Caller: "bob",
					Submitted: utcNoon.Add(-2 * time.Hour),
					Deferred: []reconfigure.Deferral{
						{
							Node:    "node01",
							Request: 6,
							Kind:    reconfigure.WaitsForJobs,
							Reason:  "its jobs have to end first",
						},
					},
				},
				[]reconfigure.Event{
					{
						Plan:  4,
						Node:  "node01",
						Phase: reconfigure.PhaseDrain,
						Level: reconfigure.Begun,
						Time:  utcNoon.Add(-110 * time.Minute),
					},
					{
						Plan:  4,
						Node:  "node01",
						Phase: reconfigure.PhaseDrain,
						Level: reconfigure.Done,
						Time:  utcNoon.Add(-110 * time.Minute),
					},
				}),
			NewRequest(
				reconfigure.Request{
					ID:        7,
					Mode:      reconfigure.Resume,
					Nodes:     nodeset.Of("node06"),
					Caller:    "eiffel from 10.60.0.1",
					Submitted: utcNoon.Add(-10 * time.Second),
				},
				[]reconfigure.Event{
					{
						Plan:  5,
						Node:  "node06",
						Phase: reconfigure.PhaseBoot,
						Level: reconfigure.Begun,
						Time:  utcNoon.Add(-9 * time.Second),
					},
				},
			),
			NewRequest(
				reconfigure.Request{
					ID:        8,
					Mode:      reconfigure.Deploy,
					Caller:    "alice as root",
					Reason:    "new\nimage",
					Submitted: utcNoon.Add(-4 * time.Second),
				},
				nil,
			),
			NewRequest(
				reconfigure.Request{
					ID:        9,
					Mode:      reconfigure.Resume,
					Nodes:     nodeset.Of("gpu1", "node06"),
					Caller:    "eiffel from 10.60.0.1",
					Submitted: utcNoon.Add(-2 * time.Second),
				},
				nil,
			),
		},
	}
	return seen, known
}

// report is the report about that cluster.
func report(seen snapshot.Snapshot, known Journal) Report {
	return New(threeGroups, seen, known, reconcile.Look{})
}

func groupIn(c reconfigure.Cluster, node string) string {
	if g, ok := c.GroupOf(node); ok {
		return g.Name
	}
	return map[bool]string{true: reconfigure.ControlGroup, false: "retired"}[node == c.Control.Name]
}

func TestStatusForPeople(t *testing.T) {
	var text strings.Builder
	seen, known := busy()
	write := func(title string, f Filter, wide bool) {
		fmt.Fprintf(&text, "=== %s\n", title)
		if err := report(seen, known).Only(f).Write(&text, Layout{Now: utcNoon, Wide: wide, Width: TableWidth}); err != nil {
			t.Fatal(err)
		}
	}
	write("much goes on", Filter{}, false)
	write("wide", Filter{}, true)
	write("what differs from the declaration", Filter{Outdated: true}, false)
	write("what fails", Filter{Failing: true}, false)
	write("powered down", Filter{Groups: []string{"gpu"}, States: []StateWord{"POWERED_DOWN"}}, false)
	write("named", Filter{Nodes: nodeset.Of("gpu1", "node04")}, false)
	known.Leader = ""
	write("the worker has died", Filter{}, false)
	known.Pause = &reconfigure.Pause{Since: utcNoon.Add(-5 * time.Minute), By: "alice", Reason: "a disk\nis swapped"}
	write("nothing begins", Filter{Nodes: nodeset.Of("gpu1")}, false)
	known.Pending = known.Pending[:1]
	write("nothing begins, and no request is for the node", Filter{Nodes: nodeset.Of("old1")}, false)
	known.Pause = nil
	write("a request is deferred, and no worker need be at work", Filter{Nodes: nodeset.Of("node01")}, false)
	known.Pending[0].Deferred = append(known.Pending[0].Deferred, reconfigure.Deferral{
		Request: 6, Kind: reconfigure.CannotPlan, Reason: "find cloud\n\"openstack\": no route to host",
	})
	write("it cannot be planned either", Filter{Nodes: nodeset.Of("node01")}, false)
	seen = snapshot.Snapshot{Missing: map[snapshot.System]string{
		snapshot.Cloud: "no route to host", snapshot.Terraform: "not installed", snapshot.Slurm: "not\nasked",
	}}
	known = Journal{}
	write("no source answers", Filter{}, false)
	write("no source answers a filter", Filter{Outdated: true}, false)
	golden(t, "status.txt", text.String())
}

func TestStatusTableFitsIntoItsWidth(t *testing.T) {
	seen, known := busy()
	var text strings.Builder
	if err := report(seen, known).Write(&text, Layout{Now: utcNoon, Width: TableWidth}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > TableWidth {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

func TestStatusAsJSON(t *testing.T) {
	seen, known := busy()
	text, err := json.MarshalIndent(report(seen, known), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "status.json", string(text)+"\n")
}

func TestListsOfAnEmptyStatusAreLists(t *testing.T) {
	for name, f := range map[string]Filter{"unfiltered": {}, "filtered": {Failing: true}} {
		text, err := json.Marshal(New(reconfigure.Cluster{}, snapshot.Snapshot{}, Journal{}, reconcile.Look{}).Only(f))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "null") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestYAMLSaysWhatJSONSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.String(),
			rapid.SampledFrom(
				[]string{
					"no",
					"1:30",
					"null",
					"~",
					"2026-01-31",
					"0x1f",
					"- a: b",
					"a\nb\n",
					"\u0085\u007f\u2028",
					" ",
					"<<",
				},
			),
		)
		value := map[string]any{
			"text": text.Draw(
				t,
				"text",
			), "list": rapid.SliceOf(text).Draw(t, "list"), "number": rapid.Int64().Draw(t, "number"),
			"truth": rapid.Bool().Draw(t, "truth"), "empty": map[string]any{}, "nothing": nil,
		}
		var written strings.Builder
		if err := WriteYAML(&written, value); err != nil {
			t.Fatal(err)
		}
		var fromYAML, fromJSON any
		if err := yaml.Unmarshal([]byte(written.String()), &fromYAML); err != nil {
			t.Fatalf("%v\n%s", err, written.String())
		}
		asJSON, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(fromYAML)
		if err != nil {
			t.Fatal(err)
		}
		decoder := func(text []byte, into *any) {
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			if err := d.Decode(into); err != nil {
				t.Fatal(err)
			}
		}
		decoder(asJSON, &fromJSON)
		decoder(again, &fromYAML)
		if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
			t.Errorf("(-JSON +YAML):\n%s\n%s", diff, written.String())
		}
	})
}

func TestStatusAsYAMLKeepsTheOrderOfTheFields(t *testing.T) {
	seen, known := busy()
	var text strings.Builder
	if err := WriteYAML(&text, report(seen, known).Only(Filter{Nodes: nodeset.Of("node06")})); err != nil {
		t.Fatal(err)
	}
	golden(t, "status.yaml", text.String())
}

func TestStatusOfThousandsOfNodesIsOneLineWhileTheyAreDown(t *testing.T) {
	cluster := threeGroups
	cluster.Groups = []reconfigure.NodeGroup{{Name: "standard", Prefix: "node", Width: 4, Max: 4000}}
	var text strings.Builder
	if err := New(
		cluster, snapshot.Snapshot{}, Journal{}, reconcile.Look{},
	).Write(&text, Layout{Width: TableWidth}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(text.String(), "\n"); lines > 9 || !strings.Contains(text.String(), "node[0001-4000]") {
		t.Errorf("%d lines:\n%s", lines, text.String())
	}
}

// TestDocumentedStatusIsTheRealOne compares the example of the documentation with what the command prints for the
// same cluster.
func TestDocumentedStatusIsTheRealOne(t *testing.T) {
	seen, known := busy()
	r := report(seen, known)
	var table, yaml strings.Builder
	if err := r.Write(&table, Layout{Now: utcNoon, Width: TableWidth}); err != nil {
		t.Fatal(err)
	}
	if err := WriteYAML(&yaml, r.Only(Filter{Nodes: nodeset.Of("node06")})); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"guides/status.md": table.String(), "reference/status.md": yaml.String()} {
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), indented(got)) {
			t.Errorf("docs/%s has not this:\n%s", name, indented(got))
		}
	}
}

// TestEveryFieldOfTheStatusIsDocumented searches the documentation for the names of all fields, at any depth.
func TestEveryFieldOfTheStatusIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "status.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen, known := busy()
	known.Pause = &reconfigure.Pause{Since: utcNoon, By: "alice", Reason: "a disk is swapped"}
	known.Pending[0].Jobs = []reconfigure.Job{{ID: 4, Nodes: nodeset.Of("node01")}}
	known.Pending[0].Deferred = append(known.Pending[0].Deferred, reconfigure.Deferral{
		Request: 6, Kind: reconfigure.CloudUnreachable, Reason: "no route to host",
	})
	known.Pending[0].Verdicts = []reconfigure.Verdict{
		{
			Node:   "node04",
			Action: reconfigure.Reboot,
			Status: reconfigure.StatusFailed,
			Phase:  reconfigure.PhaseBoot,
			Reason: "no",
		},
	}
	known.Pending[0].Options = reconfigure.Options{Reimage: true, Image: "x", FromSlurm: true, DrainTimeout: time.Hour}
	seen.Missing = map[snapshot.System]string{snapshot.Cloud: "no route to host"}
	known.Keys = []reconfigure.KeyUse{{Key: "slurm", Refused: []reconfigure.RefusedCall{{Time: utcNoon}}}}
	text, err := json.Marshal(report(seen, known))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(string(page), "`"+key[1]+"`") {
			t.Errorf("docs/reference/status.md does not say what `%s` is", key[1])
		}
	}
}

func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			b.WriteString("    ")
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestReasonOfADrainThatIsOver(t *testing.T) {
	for states, want := range map[string]string{
		"IDLE+CLOUD+POWERED_DOWN":       "",
		"IDLE+CLOUD+POWERING_DOWN":      "",
		"IDLE+CLOUD+POWERED_DOWN+DRAIN": "why",
		"DOWN+CLOUD+POWERED_DOWN":       "why",
		"IDLE":                          "why",
	} {
		state := reconfigure.SlurmNode("", strings.Split(states, "+")...)
		state.Reason = "why"
		if got := reasonOf(state); got != want {
			t.Errorf("%s: %q, not %q", states, got, want)
		}
	}
}

func TestTheFaultOfAnInstanceIsShown(t *testing.T) {
	c := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl"},
		Groups:  []reconfigure.NodeGroup{{Name: "standard", Prefix: "n", Width: 1, Min: 1, Max: 1}},
	}
	seen := snapshot.Snapshot{Servers: map[string][]reconfigure.Server{
		"n1": {{ID: "1", Node: "n1", Status: "ERROR", Fault: reconfigure.Fault{Words: "No valid host was found."}}},
	}}
	var b strings.Builder
	report := New(c, seen, Journal{Time: utcNoon}, reconcile.Look{})
	if err := report.Write(&b, Layout{Now: utcNoon, Width: TableWidth}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "the cloud says: No valid host was found.") || report.Nodes[1].Fault == "" {
		t.Error(b.String())
	}
}
