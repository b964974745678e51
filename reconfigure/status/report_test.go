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

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/openstack"
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

// busy is a cluster on which much goes on.
func busy() (sight, past) {
	seen := sight{
		servers:   map[string][]openstack.Server{},
		sources:   map[reconfigure.Source]reconfigure.Resolved{declaredSource: {ImageID: newImage, FlavorID: "large", NetworkID: "net"}},
		desired:   map[string]reconfigure.Spec{},
		instances: map[string]reconfigure.Instance{},
		states:    map[string]reconfigure.NodeState{},
	}
	for i, node := range []string{"eiffel-control", "node01", "node02", "node03", "node05", "old1"} {
		image := newImage
		if node == "node02" {
			image = oldImage
		}
		address := fmt.Sprintf("10.60.0.%d", i+1)
		seen.desired[node] = reconfigure.Spec{Group: groupIn(threeGroups, node), ImageID: image, FlavorID: "large", NetworkID: "net"}
		seen.instances[node] = reconfigure.Instance{Node: node, ID: node, Address: address}
		seen.servers[node] = []openstack.Server{{ID: node, Name: node, Status: "ACTIVE", Address: address, ImageID: image, Created: utcNoon.Add(-time.Duration(i*i*7) * time.Hour)}}
	}
	delete(seen.servers, "node03")
	seen.desired["node05"] = reconfigure.Spec{Group: "standard", ImageID: newImage, FlavorID: "medium", NetworkID: "net"}
	seen.servers["node05"] = append(seen.servers["node05"], openstack.Server{ID: "x", Name: "node05", Status: "ERROR", Created: utcNoon.Add(-time.Minute)})
	for i := 1; i <= 20; i++ {
		seen.states[fmt.Sprintf("node%02d", i)] = reconfigure.NodeState{Flags: reconfigure.NodeIdle | reconfigure.NodeCloud | reconfigure.NodePoweredDown}
	}
	seen.states["node01"] = reconfigure.NodeState{Flags: reconfigure.NodeMixed | reconfigure.NodeDrain, Reason: "reconfigure: update", Busy: true}
	seen.states["node02"] = reconfigure.NodeState{Flags: reconfigure.NodeIdle | reconfigure.NodeDrain, Reason: "memory errors"}
	seen.states["node05"] = reconfigure.NodeState{Flags: reconfigure.NodeAllocated | reconfigure.NodeCloud}
	seen.states["node06"] = reconfigure.NodeState{Flags: reconfigure.NodeMixed | reconfigure.NodeCloud | reconfigure.NodePoweringUp}
	known := past{
		leader: "process 4711 on control since 2026-01-31T11:00:00Z",
		last: map[string]reconfigure.Event{
			"node01": {Phase: reconfigure.PhaseVerify, Level: reconfigure.Done, Time: utcNoon.Add(-26 * time.Hour)},
			"node06": {Batch: 5, Phase: reconfigure.PhaseBoot, Level: reconfigure.Begun, Time: utcNoon.Add(-9 * time.Second)},
			"node07": {Phase: reconfigure.PhaseApply, Level: reconfigure.Failed, Time: utcNoon.Add(-3 * time.Minute), Message: "No valid host was found"},
			"node05": {Phase: reconfigure.PhaseConfigure, Level: reconfigure.Done, Time: utcNoon.Add(-3 * time.Minute)},
		},
		pending: []pendingRequest{
			newPendingRequest(
				reconfigure.Request{
					ID: 6, Mode: reconfigure.Update, Nodes: nodeset.Of("node01"), Caller: "bob", Submitted: utcNoon.Add(-2 * time.Hour), Held: true,
					Waits: []reconfigure.Deferral{{Node: "node01", Request: 6, Reason: "its jobs have to end first"}},
				},
				[]reconfigure.Event{
					{Batch: 4, Node: "node01", Phase: reconfigure.PhaseDrain, Level: reconfigure.Begun, Time: utcNoon.Add(-110 * time.Minute)},
					{Batch: 4, Node: "node01", Phase: reconfigure.PhaseDrain, Level: reconfigure.Done, Time: utcNoon.Add(-110 * time.Minute)},
				}),
			newPendingRequest(reconfigure.Request{ID: 7, Mode: reconfigure.Resume, Nodes: nodeset.Of("node06"), Caller: "eiffel from 10.60.0.1", Submitted: utcNoon.Add(-10 * time.Second)},
				[]reconfigure.Event{{Batch: 5, Node: "node06", Phase: reconfigure.PhaseBoot, Level: reconfigure.Begun, Time: utcNoon.Add(-9 * time.Second)}}),
			newPendingRequest(reconfigure.Request{ID: 8, Mode: reconfigure.Deploy, Caller: "alice as root", Reason: "new\nimage", Submitted: utcNoon.Add(-4 * time.Second)}, nil),
			newPendingRequest(reconfigure.Request{ID: 9, Mode: reconfigure.Resume, Nodes: nodeset.Of("gpu1", "node06"), Caller: "eiffel from 10.60.0.1", Submitted: utcNoon.Add(-2 * time.Second)}, nil),
		},
	}
	return seen, known
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
	write := func(title string, f filter, wide bool) {
		fmt.Fprintf(&text, "=== %s\n", title)
		if err := seen.report(threeGroups, known).only(f).write(&text, layout{now: utcNoon, wide: wide, width: tableWidth}); err != nil {
			t.Fatal(err)
		}
	}
	write("much goes on", filter{}, false)
	write("wide", filter{}, true)
	write("what is not as declared", filter{outdated: true}, false)
	write("what fails", filter{failing: true}, false)
	write("powered down", filter{groups: []string{"gpu"}, states: []stateWord{"POWERED_DOWN"}}, false)
	write("named", filter{nodes: nodeset.Of("gpu1", "node04")}, false)
	known.leader = ""
	write("the worker has died", filter{}, false)
	known.pause = &reconfigure.Pause{Since: utcNoon.Add(-5 * time.Minute), By: "alice", Reason: "a disk\nis swapped"}
	write("nothing is begun", filter{nodes: nodeset.Of("gpu1")}, false)
	known.pending = known.pending[:1]
	write("nothing is begun, and no request is for the node", filter{nodes: nodeset.Of("old1")}, false)
	known.pause = nil
	write("a request is held, and nobody need be at work", filter{nodes: nodeset.Of("node01")}, false)
	known.pending[0].Deferred = append(known.pending[0].Deferred, reconfigure.Deferral{Request: 6, Reason: "find cloud\n\"openstack\": no route to host"})
	write("it cannot be planned either", filter{nodes: nodeset.Of("node01")}, false)
	seen = sight{silent: []silence{{partyCloud, "no route to host"}, {partyTerraform, "not installed"}, {partySlurm, "not asked"}}}
	known = past{}
	write("nobody answers", filter{}, false)
	write("nobody answers a filter", filter{outdated: true}, false)
	golden(t, "status.txt", text.String())
}

func TestStatusTableFitsIntoItsWidth(t *testing.T) {
	seen, known := busy()
	var text strings.Builder
	if err := seen.report(threeGroups, known).write(&text, layout{now: utcNoon, width: tableWidth}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > tableWidth {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}

func TestStatusAsJSON(t *testing.T) {
	seen, known := busy()
	text, err := json.MarshalIndent(seen.report(threeGroups, known), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "status.json", string(text)+"\n")
}

func TestListsOfAnEmptyStatusAreLists(t *testing.T) {
	for name, f := range map[string]filter{"unfiltered": {}, "filtered": {failing: true}} {
		text, err := json.Marshal((sight{}).report(reconfigure.Cluster{}, past{}).only(f))
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
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"no", "1:30", "null", "~", "2026-01-31", "0x1f", "- a: b", "a\nb\n", "\u0085\u007f\u2028", " ", "<<"}))
		value := map[string]any{
			"text": text.Draw(t, "text"), "list": rapid.SliceOf(text).Draw(t, "list"), "number": rapid.Int64().Draw(t, "number"),
			"truth": rapid.Bool().Draw(t, "truth"), "empty": map[string]any{}, "nothing": nil,
		}
		var written strings.Builder
		if err := writeYAML(&written, value); err != nil {
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
	if err := writeYAML(&text, seen.report(threeGroups, known).only(filter{nodes: nodeset.Of("node06")})); err != nil {
		t.Fatal(err)
	}
	golden(t, "status.yaml", text.String())
}

func TestStatusOfThousandsOfNodesIsOneLineWhileTheyAreDown(t *testing.T) {
	cluster := threeGroups
	cluster.Groups = []reconfigure.NodeGroup{{Name: "standard", Prefix: "node", Width: 4, Max: 4000}}
	var text strings.Builder
	if err := (sight{}).report(cluster, past{}).write(&text, layout{width: tableWidth}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(text.String(), "\n"); lines > 9 || !strings.Contains(text.String(), "node[0001-4000]") {
		t.Errorf("%d lines:\n%s", lines, text.String())
	}
}

// TestDocumentedStatusIsTheRealOne compares the example of the documentation with what the command prints for the same cluster.
func TestDocumentedStatusIsTheRealOne(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "status.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen, known := busy()
	report := seen.report(threeGroups, known)
	var table, yaml strings.Builder
	if err := report.write(&table, layout{now: utcNoon, width: tableWidth}); err != nil {
		t.Fatal(err)
	}
	if err := writeYAML(&yaml, report.only(filter{nodes: nodeset.Of("node06")})); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"table": table.String(), "YAML": yaml.String()} {
		if !strings.Contains(string(page), indented(got)) {
			t.Errorf("docs/status.md has not this %s:\n%s", name, indented(got))
		}
	}
}

// TestEveryFieldOfTheStatusIsDocumented looks for the names of all fields, however deep, in the documentation.
func TestEveryFieldOfTheStatusIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "status.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen, known := busy()
	known.pause = &reconfigure.Pause{Since: utcNoon, By: "alice", Reason: "a disk is swapped"}
	known.pending[0].Jobs = []reconfigure.Job{{ID: 4, Nodes: nodeset.Of("node01")}}
	known.pending[0].Deferred = append(known.pending[0].Deferred, reconfigure.Deferral{Request: 6, Reason: "no route to host"})
	known.pending[0].Verdicts = []reconfigure.Verdict{{Node: "node04", Action: reconfigure.Reboot, Status: reconfigure.StatusFailed, Phase: reconfigure.PhaseBoot, Reason: "no"}}
	known.pending[0].Options = reconfigure.Options{Reimage: true, Image: "x", FromSlurm: true, DrainTimeout: time.Hour}
	seen.silent = []silence{{partyCloud, "no route to host"}}
	text, err := json.Marshal(seen.report(threeGroups, known))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(string(page), "`"+key[1]+"`") {
			t.Errorf("docs/status.md does not say what `%s` is", key[1])
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
