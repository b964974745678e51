package plan_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/plan"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

var update = flag.Bool("update", false, "write the expected plans anew")

// story is the input of a golden file: declaration, snapshot and requests. Images are ids.
type story struct {
	Groups []struct {
		Name, Prefix string
		Min, Max     int
		Image        string
		Idle         reconfigure.WhenIdle // "" for delete
		Stopped      int                  // the maximum of stopped nodes
		Checks       []string             // health_check
	}
	Control   string            // image of the control node; "" for the default
	Instances map[string]string // hostlist → image id, and " tainted", " stopped" or " shelved" if it is
	Made      map[string]string // hostlist → image id of these in Terraform's state, where it is not that of the map
	Forgotten string            // hostlist of instances without an entry in the map of nodes
	Slurm     map[string]string // hostlist → states, joined by +, and " busy" if the nodes have a job
	Reasons   map[string]string // hostlist → the reason in Slurm
	Returns   string            // hostlist of the nodes that Slurm uses again after their reboot
	Booted    string            // hostlist of the nodes that were booted since the requests were made
	Waited    time.Duration     // since the requests were made
	Patience  time.Duration     // ResumeTimeout; zero: unknown
	Retries   int               // that are declared
	Broken    map[string]string // image → why it cannot be resolved
	// Requests is each mode, options (reimage, image=NAME, slurm, deferred, insist, campaign,
	// job=NUMBER for all nodes, job=NUMBER:HOSTLIST)
	// and hostlist.
	Requests   []string
	Full       map[string]string // group → the failure for lack of room when the requests were made
	Unbooted   map[string]string // group → number of consecutive boot failures, last node, and its failure
	Probes     map[string]string // group → its probe since the requests were made
	Partitions []struct {
		Name   string
		Groups []string
		Entire bool // all or nothing
	}
}

func TestGoldenPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(archive.Files) == 0 || archive.Files[0].Name != "story.yaml" {
				t.Fatal("the first file must be story.yaml")
			}
			got := compute(t, archive.Files[0].Data)
			if *update {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "plan", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(archive.Files) != 2 {
				t.Fatal("there is no expected plan: run the test with -update, and check the plan")
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Errorf("another plan than expected (-want +got):\n%s", diff)
			}
		})
	}
}

func compute(t *testing.T, text []byte) string {
	t.Helper()
	var s story
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil {
		t.Fatal(err)
	}
	cluster := s.cluster()
	return render(plan.Compute(cluster, s.observation(t, cluster), s.requests(t)))
}

func (s story) cluster() reconfigure.Cluster {
	c := reconfigure.Cluster{Control: reconfigure.Control{Name: "ctl", Source: source("control-v1")}}
	if s.Control != "" {
		c.Control.Source = source(s.Control)
	}
	c.Slurm.ResumeTimeout = s.Patience
	c.Settings = reconfigure.Settings{CoolDown: 2 * time.Minute, Breaker: 3, Retries: s.Retries}
	for _, p := range s.Partitions {
		c.Partitions = append(c.Partitions,
			reconfigure.Partition{Name: p.Name, Groups: p.Groups, AllOrNothing: p.Entire})
	}
	for _, g := range s.Groups {
		c.Groups = append(c.Groups, reconfigure.NodeGroup{Name: g.Name, Prefix: g.Prefix, Width: 1,
			Source: source(g.Image), Min: g.Min, Max: g.Max, WhenIdle: g.Idle, MaxStopped: g.Stopped,
			HealthChecks: g.Checks})
	}
	return c
}

func source(image string) reconfigure.Source {
	return reconfigure.Source{Image: image, Flavor: "f", Network: "n"}
}

func (s story) observation(t *testing.T, c reconfigure.Cluster) snapshot.Snapshot {
	t.Helper()
	seen := snapshot.Snapshot{
		Desired:   map[string]reconfigure.Spec{},
		Instances: map[string]reconfigure.Instance{},
		Sources:   map[reconfigure.Source]reconfigure.Resolved{},
	}
	sources := []reconfigure.Source{c.Control.Source, source("special")}
	for _, g := range c.Groups {
		sources = append(sources, g.Source)
	}
	for _, from := range sources {
		seen.Sources[from] = reconfigure.Resolved{ImageID: from.Image, FlavorID: from.Flavor, NetworkID: from.Network,
			Err: s.Broken[from.Image], Class: class(s.Broken[from.Image])}
	}
	for hostlist, what := range s.Instances {
		image, how, _ := strings.Cut(what, " ")
		power := map[string]reconfigure.Power{"stopped": reconfigure.PowerOff, "shelved": reconfigure.Shelved}[how]
		for node := range parse(t, hostlist).All() {
			group := reconfigure.ControlGroup
			if g, ok := c.GroupOf(node); ok {
				group = g.Name
			}
			seen.Instances[node] = reconfigure.Instance{Node: node, ID: "id-" + node, Tainted: how == "tainted"}
			seen.Desired[node] = reconfigure.Spec{Group: group, ImageID: image, FlavorID: "f", NetworkID: "n", Power: power}
		}
	}
	if s.Forgotten != "" {
		for node := range parse(t, s.Forgotten).All() {
			delete(seen.Desired, node)
		}
	}
	seen.Missing, seen.States = map[snapshot.System]string{}, map[string]reconfigure.NodeState{}
	for hostlist, image := range s.Made {
		for node := range parse(t, hostlist).All() {
			instance := seen.Instances[node]
			instance.Made = reconfigure.Spec{ImageID: image, FlavorID: "f"}
			seen.Instances[node] = instance
		}
	}
	if s.Slurm == nil {
		seen.Missing[snapshot.Slurm] = ""
	}
	seen.Time = submitted.Add(s.Waited)
	for hostlist, what := range s.Slurm {
		states, busy := strings.CutSuffix(what, " busy")
		for node := range parse(t, hostlist).All() {
			state := reconfigure.SlurmNode(node, strings.Split(states, "+")...)
			state.Busy = busy
			seen.States[node] = state
		}
	}
	s.details(t, seen)
	seen.Health = s.health(t)
	return seen
}

// health returns the health of the groups.
func (s story) health(t *testing.T) map[string]reconfigure.Health {
	t.Helper()
	all := map[string]reconfigure.Health{}
	change := func(group string, change func(*reconfigure.Health)) {
		h := all[group]
		h.Group = group
		change(&h)
		all[group] = h
	}
	for group, why := range s.Full {
		change(group, func(h *reconfigure.Health) {
			h.Full = reconfigure.Setback{Node: "x", Class: reconfigure.ClassCapacity, Reason: why, Time: submitted}
		})
	}
	for group, what := range s.Unbooted {
		words := strings.SplitN(what, " ", 3)
		n, err := strconv.Atoi(words[0])
		if err != nil {
			t.Fatal(err)
		}
		change(group, func(h *reconfigure.Health) {
			h.Failures, h.Last = n, reconfigure.Setback{Node: words[1], Class: reconfigure.ClassSSH, Reason: words[2],
				Time: submitted}
		})
	}
	for group, node := range s.Probes {
		change(group, func(h *reconfigure.Health) { *h = h.Trying(node, submitted) })
	}
	return all
}

// details adds the properties of nodes in Slurm other than their states.
func (s story) details(t *testing.T, seen snapshot.Snapshot) {
	t.Helper()
	for hostlist, reason := range s.Reasons {
		for node := range parse(t, hostlist).All() {
			state := seen.States[node]
			state.Reason = reason
			seen.States[node] = state
		}
	}
	each := func(hostlist string, change func(*reconfigure.NodeState)) {
		if hostlist == "" {
			return
		}
		for node := range parse(t, hostlist).All() {
			state := seen.States[node]
			change(&state)
			seen.States[node] = state
		}
	}
	each(s.Booted, func(state *reconfigure.NodeState) { state.Boot = submitted.Add(time.Second) })
	each(s.Returns, func(state *reconfigure.NodeState) { state.Returns = true })
}

// submitted is the time of all requests.
var submitted = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (s story) requests(t *testing.T) []reconfigure.Request {
	t.Helper()
	var requests []reconfigure.Request
	for i, line := range s.Requests {
		mode, hostlist, _ := strings.Cut(line, " ")
		r := reconfigure.Request{ID: reconfigure.RequestID(i + 1), Mode: reconfigure.Mode(mode), Submitted: submitted}
		r.DrainTimeout = time.Hour
		var jobs []string
		for _, word := range strings.Fields(hostlist) {
			image, isImage := strings.CutPrefix(word, "image=")
			switch {
			case isImage:
				r.Image = image
			case word == "reimage":
				r.Reimage = true
			case word == "slurm":
				r.FromSlurm = true
			case word == "campaign":
				r.Campaign = 1
			case word == "insist":
				r.Insist = true
			case strings.HasPrefix(word, "job="):
				jobs = append(jobs, strings.TrimPrefix(word, "job="))
			case word == "deferred":
				r.Deferred = []reconfigure.Deferral{{Request: r.ID, Kind: reconfigure.WaitsForJobs}}
			default:
				r.Nodes = parse(t, word)
			}
		}
		for _, job := range jobs {
			r.Jobs = append(r.Jobs, parseJob(t, job, r.Nodes))
		}
		requests = append(requests, r)
	}
	return requests
}

// parseJob reads NUMBER or NUMBER:HOSTLIST.
func parseJob(t *testing.T, text string, all nodeset.NodeSet) reconfigure.Job {
	t.Helper()
	number, hostlist, some := strings.Cut(text, ":")
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if some {
		all = parse(t, hostlist)
	}
	return reconfigure.Job{ID: id, Nodes: all}
}

func parse(t *testing.T, hostlist string) nodeset.NodeSet {
	t.Helper()
	nodes, err := nodeset.Parse(hostlist)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

func render(p reconfigure.Plan) string {
	var b strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "%-9s %-6s %s; for request %v", c.Action, c.Node, c.Reason, c.Requests)
		if c.Spec != (reconfigure.Spec{}) {
			fmt.Fprintf(&b, "; %s of %s", c.Spec.Group, imageOf(c.Spec))
		}
		if c.Undrain {
			b.WriteString("; undrained then")
		}
		if c.Note != "" {
			b.WriteString("; " + c.Note)
		}
		if c.HandOver {
			b.WriteString("; handed over to power saving")
		}
		if !c.Deadline.IsZero() {
			fmt.Fprintf(&b, "; within %s", c.Deadline.Sub(submitted))
		}
		if c.Retries > 0 {
			fmt.Fprintf(&b, ", retries %d", c.Retries)
		}
		if c.Force {
			b.WriteString("; also with a job on it")
		}
		b.WriteString("\n")
	}
	for _, r := range p.Rejected {
		fmt.Fprintf(&b, "rejected  %-6s %s; of request %d\n", r.Node, r.Reason, r.Request)
	}
	for _, w := range p.Deferred {
		fmt.Fprintf(&b, "deferred  %-6s %s: %s; of request %d\n", w.Node, w.Kind, w.Reason, w.Request)
	}
	images := map[string][]string{}
	for node, spec := range p.Desired {
		images[imageOf(spec)] = append(images[imageOf(spec)], node)
	}
	var lines []string
	for image, nodes := range images {
		lines = append(lines, fmt.Sprintf("desired   %s: %s\n", image, nodeset.Of(nodes...)))
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, ""))
	if p.Shared {
		b.WriteString("shared resources too\n")
	}
	if p.Everywhere {
		b.WriteString("slurm.conf everywhere\n")
	}
	return b.String()
}

// imageOf returns the image of an entry, and its power state if it is stopped.
func imageOf(s reconfigure.Spec) string {
	if s.Power == "" {
		return s.ImageID
	}
	return s.ImageID + " " + string(s.Power)
}

// class returns the class of the error of a broken image: ClassMissing, or ClassCloud if the cloud caused the error.
func class(broken string) reconfigure.Class {
	switch {
	case broken == "":
		return ""
	case strings.HasPrefix(broken, "the cloud"):
		return reconfigure.ClassCloud
	}
	return reconfigure.ClassMissing
}
