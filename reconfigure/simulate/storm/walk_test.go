package storm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal/memory"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/reconcile"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// declared returns a cluster of a control node and one node group, of image v1.
func declared(least, most int) reconfigure.Cluster {
	source := reconfigure.Source{Image: "v1", Flavor: "small", Network: "cluster"}
	return reconfigure.Cluster{
		Name:     "test",
		Control:  reconfigure.Control{Name: "ctl", Source: source},
		Groups:   []reconfigure.NodeGroup{{Name: "group", Prefix: "p", Width: 1, Source: source, Min: least, Max: most}},
		Slurm:    reconfigure.Timing{ResumeTimeout: 10 * time.Minute},
		Settings: reconfigure.Settings{Interrupt: true, BootTimeout: time.Minute, LockTimeout: 30 * time.Second},
	}
}

// forgiving returns the cluster with a second attempt for each node.
func forgiving(c reconfigure.Cluster) reconfigure.Cluster {
	c.Settings.Retries = 1
	return c
}

// wary returns the cluster with a cool-down, a breaker that opens after two failures, and jobs that get all of their
// nodes or none.
func wary(c reconfigure.Cluster) reconfigure.Cluster {
	c.Settings.CoolDown, c.Settings.Breaker = 2*time.Minute, 2
	return entire(c)
}

// entire returns the cluster with jobs that get all of their nodes or none.
func entire(c reconfigure.Cluster) reconfigure.Cluster {
	c.Partitions = []reconfigure.Partition{{Name: "main", Groups: []string{"group"}, AllOrNothing: true}}
	return c
}

// resting returns the cluster with idle nodes that are stopped, at most two of them.
func resting(c reconfigure.Cluster) reconfigure.Cluster {
	c.Groups = slices.Clone(c.Groups)
	c.Groups[0].WhenIdle, c.Groups[0].MaxStopped = reconfigure.IdleStop, 2
	return c
}

// falling returns the cluster in zone a, with another zone and another flavor to fall back to.
func falling(c reconfigure.Cluster) reconfigure.Cluster {
	c.Groups = slices.Clone(c.Groups)
	c.Groups[0].Zone, c.Groups[0].FallbackZones, c.Groups[0].Fallbacks = "a", []string{"b"}, []string{"large"}
	return c
}

// checked returns the cluster with a health check.
func checked(c reconfigure.Cluster) reconfigure.Cluster {
	c.Groups = slices.Clone(c.Groups)
	c.Groups[0].HealthChecks = []string{"disks"}
	return c
}

// of returns the cluster with another image for its nodes.
func of(image string, c reconfigure.Cluster) reconfigure.Cluster {
	c.Groups = append([]reconfigure.NodeGroup{}, c.Groups...)
	c.Groups[0].Image = image
	return c
}

// scene is a cluster with requests.
type scene struct {
	was      reconfigure.Cluster
	have     []string
	rest     []string            // those that are stopped, configured as declared
	now      reconfigure.Cluster // if the declaration changes
	health   reconfigure.Health  // of the group
	prepare  func(*simulate.World)
	requests []reconfigure.Request
	code     reconfigure.Code // of all requests
	undone   int              // the first requests that are undone
	// later requests come while the others are carried out, and are done as requested. All actions take time then.
	later []reconfigure.Request
}

// pace and meanwhile are chosen so that the later requests begin while the others' nodes boot, and their nodes are
// configured after them.
const pace, meanwhile = 5 * time.Second, 12 * time.Second

func ask(m reconfigure.Mode, nodes ...string) reconfigure.Request {
	return reconfigure.Request{Mode: m, Nodes: nodeset.Of(nodes...)}
}

func image(node string) reconfigure.Request {
	r := ask(reconfigure.MakeImage, node)
	r.Image = "fresh"
	return r
}

func (s scene) cluster() reconfigure.Cluster {
	if s.now.Name != "" {
		return s.now
	}
	return s.was
}

// scenes has every mode, and the failures of each that leave something to remove.
func scenes() map[string]scene {
	patient := reconfigure.Options{DrainTimeout: time.Hour}
	anew := reconfigure.Options{DrainTimeout: time.Hour, Reimage: true}
	all := []string{"ctl", "p1", "p2"}
	job := func(node string) func(*simulate.World) {
		return func(w *simulate.World) {
			w.StartJob(node)
			time.AfterFunc(30*time.Second, func() { w.EndJob(node) })
		}
	}
	job4 := func(nodes ...string) reconfigure.Request {
		r := ask(reconfigure.Resume, nodes...)
		r.Jobs = []reconfigure.Job{{ID: 4, Nodes: r.Nodes}}
		return r
	}
	return map[string]scene{
		"resume for a job of all or nothing": {
			was: entire(declared(1, 5)), have: all, code: reconfigure.CodeFailed,
			requests: []reconfigure.Request{job4("p3", "p4", "p5")},
			prepare: func(w *simulate.World) {
				w.PowersUp("p3", "p4", "p5")
				w.Order(simulate.NoValidHost, "p4")
				w.Takes(simulate.Playing, 20*time.Second) // so that no other node is up before
			},
		},
		"resume for a job of all or nothing without quota": {
			was: wary(declared(1, 5)), have: all, code: reconfigure.CodeFailed,
			requests: []reconfigure.Request{job4("p3", "p4", "p5")},
			prepare: func(w *simulate.World) {
				w.PowersUp("p3", "p4", "p5")
				w.Limit(reconfigure.Use{Instances: 5, Cores: -1, RAM: -1})
			},
		},
		"resume while the group cools down": {
			was: wary(declared(1, 5)), have: all, code: reconfigure.CodeFailed,
			health: reconfigure.Health{Full: reconfigure.Setback{
				Node: "p5", Class: reconfigure.ClassCapacity, Reason: "No valid host was found.",
			}},
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4")},
			prepare:  func(w *simulate.World) { w.PowersUp("p3", "p4") },
		},
		"resume while the group is tried": {
			was: wary(declared(1, 5)), have: all, code: reconfigure.CodeFailed,
			health: reconfigure.Health{
				Failures: 2, Last: reconfigure.Setback{Node: "p5", Class: reconfigure.ClassSSH, Reason: "no SSH"},
			},
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4")},
			prepare:  func(w *simulate.World) { w.PowersUp("p3", "p4"); w.Order(simulate.NoSSH, "p3") },
		},
		"deploy": {
			was:      declared(2, 4),
			requests: []reconfigure.Request{ask(reconfigure.Deploy)},
		},
		"deploy again": {
			was: declared(2, 4), have: []string{"ctl", "p1", "p2", "p3"},
			requests: []reconfigure.Request{ask(reconfigure.Deploy)},
			prepare:  func(w *simulate.World) { w.StartJob("p3") },
		},
		"resume": {
			was: declared(1, 4), have: all,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3"), ask(reconfigure.Resume, "p3", "p4")},
			prepare:  func(w *simulate.World) { w.PowersUp("p3", "p4"); w.StartJob("p2") },
		},
		"resume of what was left behind": {
			was: declared(1, 4), have: all, now: of("v2", declared(1, 4)),
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p2", "p3", "p4")},
			prepare:  func(w *simulate.World) { w.HaveTainted("p3"); w.PowersUp("p2", "p3", "p4") },
		},
		"resume that fails": {
			was: declared(1, 5), have: all, code: reconfigure.CodePartial,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4", "p5", "p2")},
			prepare: func(w *simulate.World) {
				w.PowersUp("p3", "p4", "p5")
				w.Order(simulate.NoValidHost, "p4")
				w.Order(simulate.NoSSH, "p5")
			},
		},
		"resume that comes at the second try, with the first one set aside": {
			was: forgiving(declared(1, 5)), have: all,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4"), ask(reconfigure.Resume, "p5")},
			prepare: func(w *simulate.World) {
				w.CanSetAside()
				w.PowersUp("p3", "p4", "p5")
				w.Order(simulate.Lemon, "p3", "p5")
			},
		},
		"resume that fails twice, with the first one set aside": {
			was: forgiving(declared(1, 5)), have: all, code: reconfigure.CodePartial,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4")},
			prepare: func(w *simulate.World) {
				w.CanSetAside()
				w.PowersUp("p3", "p4")
				w.Order(simulate.NoSSH, "p3")
			},
		},
		"resume that comes at the second try": {
			was: forgiving(declared(1, 5)), have: all,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4"), ask(reconfigure.Resume, "p5")},
			prepare:  func(w *simulate.World) { w.PowersUp("p3", "p4", "p5"); w.Order(simulate.Lemon, "p3", "p5") },
		},
		"resume that fails twice": {
			was: forgiving(declared(1, 5)), have: all, code: reconfigure.CodePartial,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4", "p5")},
			prepare: func(w *simulate.World) {
				w.PowersUp("p3", "p4", "p5")
				w.Order(simulate.NoSSH, "p3")
				w.Order(simulate.PlaybookFails, "p5")
			},
		},
		"resume that falls back": {
			was: falling(declared(1, 5)), have: all,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4", "p5")},
			prepare: func(w *simulate.World) {
				w.PowersUp("p3", "p4", "p5")
				w.Order(simulate.NoFirst, "p3", "p4")
			},
		},
		"resume without room for any fallback": {
			was: falling(declared(1, 5)), have: all, code: reconfigure.CodePartial,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4")},
			prepare: func(w *simulate.World) {
				w.PowersUp("p3", "p4")
				w.Order(simulate.NoValidHost, "p3")
				w.Order(simulate.NoFirst, "p4")
			},
		},
		"resume that fails a health check": {
			was: forgiving(declared(1, 5)), have: all, code: reconfigure.CodePartial,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4")},
			prepare:  func(w *simulate.World) { w.PowersUp("p3", "p4"); w.Order(simulate.Unhealthy, "p3") },
		},
		"health checks": {
			was: declared(1, 5), have: []string{"ctl", "p1", "p2", "p3", "p4"}, now: checked(declared(1, 5)),
			code:     reconfigure.CodePartial,
			requests: []reconfigure.Request{ask(reconfigure.CheckNodes, "p1", "p2", "p3", "p4")},
			prepare: func(w *simulate.World) {
				w.Order(simulate.Unhealthy, "p2")
				w.StartJob("p3")
				w.Drained("a disk is replaced", "p4")
			},
		},
		"resume that loses answers": {
			was: declared(1, 4), have: all,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3", "p4")},
			prepare:  func(w *simulate.World) { w.PowersUp("p3", "p4"); w.Order(simulate.LostCreate, "p3", "p4") },
		},
		"resume of what cannot be made": {
			was: declared(1, 4), have: all, now: of("no such image", declared(1, 4)),
			code:     reconfigure.CodeFailed,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3")},
			prepare: func(w *simulate.World) {
				w.Declare(declared(1, 4)) // the cloud still knows its old images
				w.PowersUp("p3")
			},
		},
		"suspend": {
			was: declared(1, 4), have: []string{"ctl", "p1", "p2", "p3", "p4"},
			requests: []reconfigure.Request{ask(reconfigure.Suspend, "p2"), ask(reconfigure.Suspend, "p3")},
			prepare:  func(w *simulate.World) { w.PowersDown("p2", "p3"); w.StartJob("p4") },
		},
		"suspend that stops": {
			was: resting(declared(1, 5)), have: []string{"ctl", "p1", "p2", "p3", "p4"}, rest: []string{"p4"},
			requests: []reconfigure.Request{ask(reconfigure.Suspend, "p2", "p4"), ask(reconfigure.Suspend, "p3")},
			prepare:  func(w *simulate.World) { w.PowersDown("p2", "p3") },
		},
		"suspend that cannot stop": {
			was: resting(declared(1, 4)), have: all,
			requests: []reconfigure.Request{ask(reconfigure.Suspend, "p2")},
			prepare:  func(w *simulate.World) { w.PowersDown("p2"); w.Order(simulate.StopFails, "p2") },
		},
		"resume of stopped nodes": {
			was: resting(declared(1, 5)), have: []string{"ctl", "p1", "p2", "p3"}, rest: []string{"p2", "p3"},
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p2", "p3", "p4")},
			prepare:  func(w *simulate.World) { w.PowersUp("p2", "p3", "p4") },
		},
		"resume of stopped nodes that fails": {
			was: resting(declared(1, 5)), have: []string{"ctl", "p1", "p2", "p3"}, rest: []string{"p2", "p3"},
			code:     reconfigure.CodePartial,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p2", "p3")},
			prepare:  func(w *simulate.World) { w.PowersUp("p2", "p3"); w.Order(simulate.NoSSH, "p3") },
		},
		"resume of stopped nodes that fails a health check": {
			was: forgiving(resting(declared(1, 5))), have: []string{"ctl", "p1", "p2", "p3"}, rest: []string{"p2", "p3"},
			code:     reconfigure.CodePartial,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p2", "p3")},
			prepare:  func(w *simulate.World) { w.PowersUp("p2", "p3"); w.Order(simulate.Unhealthy, "p3") },
		},
		"resume of stopped nodes with other tags": {
			was: resting(declared(1, 5)), have: []string{"ctl", "p1", "p2", "p3"}, rest: []string{"p2", "p3"},
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p2", "p3")},
			prepare:  func(w *simulate.World) { w.PowersUp("p2", "p3"); w.Order(simulate.OtherTags, "p3") },
		},
		"resume of stopped nodes that differ": {
			was: resting(declared(1, 5)), have: []string{"ctl", "p1", "p2"}, rest: []string{"p2"},
			now:      of("v2", resting(declared(1, 5))),
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p2")},
			prepare:  func(w *simulate.World) { w.PowersUp("p2") },
		},
		"stop, then start": {
			was: resting(declared(1, 4)), have: all,
			requests: []reconfigure.Request{ask(reconfigure.Suspend, "p2"), ask(reconfigure.Resume, "p2")},
			prepare: func(w *simulate.World) {
				w.PowersDown("p2")
				w.Then(simulate.AfterApply, func() { w.PowersUp("p2") })
			},
		},
		"start, then stop": {
			was: resting(declared(1, 4)), have: all, rest: []string{"p2"}, undone: 1,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p2"), ask(reconfigure.Suspend, "p2")},
			prepare:  func(w *simulate.World) { w.PowersUp("p2"); w.PowersDown("p2") },
		},
		"stopped nodes in other modes": {
			was: resting(declared(1, 5)), have: []string{"ctl", "p1", "p2", "p3"}, rest: []string{"p2", "p3"},
			now: of("v2", resting(declared(2, 5))),
			requests: []reconfigure.Request{
				{Mode: reconfigure.Enlarge, Nodes: nodeset.Of("p2"), Options: patient},
				{Mode: reconfigure.Update, Nodes: nodeset.Of("p3"), Options: patient},
			},
		},
		"destroy with stopped nodes": {
			was: resting(declared(1, 4)), have: all, rest: []string{"p2"},
			requests: []reconfigure.Request{ask(reconfigure.Destroy)},
		},
		"suspend, then resume": {
			was: declared(1, 4), have: all,
			requests: []reconfigure.Request{ask(reconfigure.Suspend, "p2"), ask(reconfigure.Resume, "p2")},
			prepare: func(w *simulate.World) {
				w.PowersDown("p2")
				w.Then(simulate.AfterApply, func() { w.PowersUp("p2") })
			},
		},
		"resume, then suspend": {
			was: declared(1, 4), have: all, undone: 1,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3"), ask(reconfigure.Suspend, "p3")},
			prepare:  func(w *simulate.World) { w.PowersUp("p3"); w.PowersDown("p3") },
		},
		"resume of what was left behind, then suspend": {
			was: declared(1, 4), have: all, undone: 1,
			requests: []reconfigure.Request{
				ask(reconfigure.Resume, "p2", "p3"),
				ask(reconfigure.Suspend, "p2", "p3"),
			},
			prepare: func(w *simulate.World) { w.HaveTainted("p3"); w.PowersDown("p2", "p3") },
		},
		"resume, suspend and resume": {
			was: declared(1, 4), have: all, undone: 1,
			requests: []reconfigure.Request{
				ask(reconfigure.Resume, "p3"),
				ask(reconfigure.Suspend, "p2", "p3"),
				ask(reconfigure.Resume, "p2", "p3"),
			},
			prepare: func(w *simulate.World) {
				w.PowersUp("p3")
				w.PowersDown("p2", "p3")
				w.Then(simulate.AfterApply, func() { w.PowersUp("p2", "p3") })
			},
		},
		"suspend that gives way": {
			was: declared(1, 4), have: all,
			requests: []reconfigure.Request{ask(reconfigure.Suspend, "p2"), ask(reconfigure.Resume, "p3")},
			prepare:  func(w *simulate.World) { w.PowersDown("p2"); w.PowersUp("p3") },
		},
		"update": {
			was: declared(2, 4), have: all, now: of("v2", declared(2, 4)),
			requests: []reconfigure.Request{
				{Mode: reconfigure.Update, Nodes: nodeset.Of("p1", "p2"), Options: patient},
			},
			prepare: job("p1"),
		},
		"update that reboots": {
			was: declared(2, 4), have: all,
			requests: []reconfigure.Request{
				{Mode: reconfigure.Update, Nodes: nodeset.Of("p1", "p2"), Options: patient},
			},
			prepare: job("p1"),
		},
		"update that reimages": {
			was: declared(2, 4), have: all,
			requests: []reconfigure.Request{
				{Mode: reconfigure.Update, Nodes: nodeset.Of("p1"), Options: anew},
			},
			prepare: job("p1"),
		},
		"update from Slurm": {
			was: declared(2, 4), have: []string{"ctl", "p1", "p2", "p3"}, now: of("v2", declared(2, 4)),
			requests: []reconfigure.Request{
				{Mode: reconfigure.Update, Nodes: nodeset.Of("p1", "p3"), Options: reconfigure.Options{FromSlurm: true}},
			},
			prepare: func(w *simulate.World) { w.Reboots("p1", "p3"); w.StartJob("p2") },
		},
		"update from Slurm that fails": {
			was: declared(2, 4), have: all, code: reconfigure.CodeFailed,
			requests: []reconfigure.Request{
				{Mode: reconfigure.Update, Nodes: nodeset.Of("p1"), Options: reconfigure.Options{FromSlurm: true}},
			},
			prepare: func(w *simulate.World) { w.Reboots("p1"); w.Order(simulate.NeverRegisters, "p1") },
		},
		"image of a persistent node": {
			was: declared(2, 4), have: all,
			requests: []reconfigure.Request{image("p1")},
			prepare:  job("p1"),
		},
		"image of a cloud node": {
			was: declared(1, 4), have: all, now: of("v2", declared(1, 4)),
			requests: []reconfigure.Request{image("p2")},
			prepare:  job("p2"),
		},
		"image of a node of somebody else": {
			was: declared(1, 4), have: all,
			requests: []reconfigure.Request{image("p2")},
			prepare:  func(w *simulate.World) { w.Drained("disk is full", "p2") },
		},
		"image that the cloud loses": {
			was: declared(1, 4), have: all, code: reconfigure.CodeFailed,
			requests: []reconfigure.Request{image("p1")},
			prepare:  func(w *simulate.World) { w.Order(simulate.ImageLost, "p1") },
		},
		"image without quota": {
			was: declared(1, 4), have: all, code: reconfigure.CodeFailed,
			requests: []reconfigure.Request{image("p2")},
			prepare:  func(w *simulate.World) { w.Order(simulate.NoImage, "p2") },
		},
		"image of a node that Slurm powers down": {
			was: declared(1, 4), have: all,
			requests: []reconfigure.Request{image("p2")},
			prepare: func(w *simulate.World) {
				time.AfterFunc(3500*time.Millisecond, func() { w.SuspendsIdle("p2") })
				w.Takes(simulate.Saving, 10*time.Second)
			},
		},
		"image, then resume": {
			was: declared(1, 4), have: all,
			requests: []reconfigure.Request{image("p2"), ask(reconfigure.Resume, "p2")},
		},
		"enlarge": {
			was: declared(1, 4), have: all, now: declared(3, 4),
			requests: []reconfigure.Request{
				{Mode: reconfigure.Enlarge, Nodes: nodeset.Of("p2", "p3"), Options: patient},
			},
			prepare: func(w *simulate.World) { w.StartJob("p2") },
		},
		"enlarge by an old node with a job": {
			was: declared(1, 4), have: all, now: declared(2, 4),
			requests: []reconfigure.Request{ask(reconfigure.Enlarge, "p2")},
			prepare: func(w *simulate.World) {
				w.StartJob("p2")
				_ = w.PowerDownASAP(context.Background(), nodeset.Of("p2"), reconfigure.AgedReason) // Slurm answers
			},
		},
		"shrink": {
			was: declared(3, 4), have: []string{"ctl", "p1", "p2", "p3"}, now: declared(1, 4),
			requests: []reconfigure.Request{
				{Mode: reconfigure.Shrink, Nodes: nodeset.Of("p2", "p3"), Options: patient},
			},
			prepare: job("p2"),
		},
		"resize": {
			was: declared(3, 4), have: []string{"ctl", "p1", "p2", "p3"}, now: declared(2, 3),
			requests: []reconfigure.Request{
				{Mode: reconfigure.Resize, Nodes: nodeset.Of("p1", "p2", "p3", "p4"), Options: patient},
			},
			prepare: job("p3"),
		},
		"destroy": {
			was: declared(2, 4), have: []string{"ctl", "p1", "p2", "p3"},
			requests: []reconfigure.Request{ask(reconfigure.Destroy)},
			prepare:  func(w *simulate.World) { w.StartJob("p3") },
		},
		"resume beside a resume": {
			was: declared(1, 4), have: all,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3")},
			later:    []reconfigure.Request{ask(reconfigure.Resume, "p4")},
			prepare:  func(w *simulate.World) { w.PowersUp("p3", "p4"); w.StartJob("p2") },
		},
		"resume beside one that fails": {
			was: declared(1, 4), have: all, code: reconfigure.CodeFailed,
			requests: []reconfigure.Request{ask(reconfigure.Resume, "p3")},
			later:    []reconfigure.Request{ask(reconfigure.Resume, "p4")},
			prepare:  func(w *simulate.World) { w.PowersUp("p3", "p4"); w.Order(simulate.NoSSH, "p3") },
		},
		"suspend beside an update": {
			was: declared(2, 4), have: []string{"ctl", "p1", "p2", "p3"},
			requests: []reconfigure.Request{
				{Mode: reconfigure.Update, Nodes: nodeset.Of("p1"), Options: reconfigure.Options{FromSlurm: true}},
			},
			later:   []reconfigure.Request{ask(reconfigure.Suspend, "p3")},
			prepare: func(w *simulate.World) { w.Reboots("p1"); w.PowersDown("p3") },
		},
		"several modes": {
			was: declared(2, 6), have: []string{"ctl", "p1", "p2", "p3", "p4"}, now: of("v2", declared(2, 6)),
			requests: []reconfigure.Request{
				ask(reconfigure.Resume, "p5"),
				ask(reconfigure.Suspend, "p3"),
				{Mode: reconfigure.Update, Nodes: nodeset.Of("p2"), Options: patient},
			},
			prepare: func(w *simulate.World) { w.PowersUp("p5"); w.PowersDown("p3"); w.StartJob("p4") },
		},
	}
}

// view is the result of a scene, in a form that does not depend on the number of attempts.
type view struct {
	Nodes   map[string]node
	Orphans []string
	Lost    []string
	Images  []string
	Said    map[reconfigure.RequestID]said
}

// node is the result of a node. Ids of the cloud and the number of boots do not count.
type node struct {
	There, Tainted, Job bool
	Made, Spec          reconfigure.Spec
	State, Reason       string
}

// said is an outcome, with whether each node ended as requested.
type said struct {
	Code  reconfigure.Code
	Error string
	Good  map[string]bool
}

// play is a scene with running workers.
type play struct {
	*testing.T
	scene
	world   *simulate.World
	book    book
	callers sync.WaitGroup
}

func (s scene) begin(t *testing.T, b book) *play {
	t.Helper()
	w := simulate.NewWorld(s.was)
	w.Have(s.have...)
	if len(s.rest) > 0 {
		if err := b.KeepSums(t.Context(), w.Rest(s.rest...)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Minute) // so that the boots are older than the requests
	if s.now.Name != "" {
		w.Declare(s.now)
	}
	if s.prepare != nil {
		s.prepare(w)
	}
	if !s.health.Well() {
		if s.health.Full.Node != "" {
			s.health.Full.Time = time.Now()
		}
		err := b.UpdateHealth(t.Context(), "group", func(reconfigure.Health) reconfigure.Health { return s.health })
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range s.requests {
		if _, err := b.Submit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second) // so that boots from now on are newer
	p := &play{T: t, scene: s, world: w, book: b}
	if len(s.later) > 0 {
		p.callers.Go(p.comeLater)
	}
	return p
}

// comeLater submits the later requests, and starts a worker for them that is not killed.
func (p *play) comeLater() {
	time.Sleep(meanwhile)
	for _, r := range p.later {
		if _, err := p.book.Submit(p.Context(), r); err != nil {
			p.Error(err)
		}
	}
	if _, err := p.worker(0); err != nil {
		p.Error(err)
	}
}

func (s scene) all() []reconfigure.Request { return slices.Concat(s.requests, s.later) }

// worker runs a worker until no work is left, or until it is killed at a moment.
func (p *play) worker(killed int) (*life, error) {
	l := newLife(p.world, p.book)
	if l.end = killed; len(p.later) > 0 {
		l.pace = pace
	}
	err := l.work(p.Context(), p.cluster)
	return l, err
}

func (p *play) view() view {
	p.Helper()
	p.callers.Wait()
	v := view{
		Nodes: map[string]node{}, Orphans: p.world.Orphans(), Lost: p.world.Lost(), Said: map[reconfigure.RequestID]said{},
	}
	for name := range p.was.Nodes().Union(p.cluster().Nodes()).Union(nodeset.Of("ctl")).All() {
		n := p.world.Node(name)
		// The rest of the reason depends on what the first worker reported to Slurm.
		reason, _, _ := strings.Cut(n.Reason, ": Slurm has it as")
		v.Nodes[name] = node{n.Instance.Node != "", n.Instance.Tainted, n.Job, n.Made, n.Spec, n.State, reason}
	}
	for _, i := range p.world.Images() {
		v.Images = append(v.Images, fmt.Sprintf("%s %s of %s, clean %t", i.Status, i.Name, i.Node, i.Clean))
	}
	for i, r := range p.all() {
		id := reconfigure.RequestID(i + 1)
		o, ok, err := p.book.Outcome(p.Context(), id)
		if err != nil || !ok {
			p.Errorf("request %s has no outcome, error %v", id, err)
		}
		s := said{o.Code, o.Error, map[string]bool{}}
		for _, verdict := range o.Verdicts {
			s.Good[verdict.Node] = good(verdict)
		}
		// A node that the request does not name has a verdict only if it changed for the request.
		maps.DeleteFunc(s.Good, func(node string, good bool) bool { return good && !r.Nodes.Contains(node) })
		v.Said[id] = s
	}
	return v
}

// outcomes returns the outcomes for callers, for a test that fails.
func (p *play) outcomes() string {
	var all []string
	for i := range p.all() {
		o, _, _ := p.book.Outcome(p.Context(), reconfigure.RequestID(i+1))
		all = append(all, fmt.Sprintf("%+v", o))
	}
	if j, ok := p.book.(*memory.Journal); ok {
		all = append(all, j.Messages())
	}
	return strings.Join(all, "\n")
}

func good(v reconfigure.Verdict) bool {
	return v.Status == reconfigure.StatusDone || v.Status == reconfigure.StatusUnchanged
}

// TestCrashWalk kills the worker, and Terraform and Ansible with it, at each moment in turn. The next worker must reach
// the same result as a worker that is not killed.
func TestCrashWalk(t *testing.T) {
	total := 0
	for name, s := range scenes() {
		t.Run(name, func(t *testing.T) { total += s.walk(t, 1, func(*testing.T) book { return memory.New() }) })
	}
	t.Logf("%d points altogether", total)
}

// TestCrashWalkOnTheRealJournal does the same with the SQLite journal, but only at some moments of eventful scenes,
// since each write waits for the disk.
func TestCrashWalkOnTheRealJournal(t *testing.T) {
	for _, name := range []string{"several modes", "resume beside one that fails"} {
		t.Run(name, func(t *testing.T) { scenes()[name].walk(t, 7, sqlite) })
	}
}

func sqlite(t *testing.T) book {
	t.Helper()
	j, err := journal.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// walk kills the worker at every moment, or at every nth one, each time in a new world. It returns the number of
// moments.
func (s scene) walk(t *testing.T, every int, open func(*testing.T) book) (moments int) {
	t.Helper()
	want, ended, moments := s.undisturbed(t, open)
	t.Logf("the worker is killed at %d points", moments)
	for moment := 1; moment <= moments && !t.Failed(); moment += every {
		s.killedAt(t, open, moment, want, ended)
	}
	return moments
}

// undisturbed returns the result of a scene without a kill, the nodes whose boot was cut short, and the number of
// moments.
func (s scene) undisturbed(t *testing.T, open func(*testing.T) book) (v view, ended []string, moments int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := s.begin(t, open(t))
		l, err := p.worker(0)
		if err != nil {
			t.Fatal(err)
		}
		p.nothingMore()
		v, ended, moments = p.view(), p.world.Ended(), l.now
		if len(s.later) > 0 && l.overlaps == 0 {
			t.Error("no plans overlap")
		}
		for id, said := range v.Said {
			want := s.code
			switch {
			case int(id) <= s.undone:
				want = reconfigure.CodeCancelled
			case want == "" || int(id) > len(s.requests):
				want = reconfigure.CodeDone
			}
			if said.Code != want {
				t.Errorf("request %s ends as %+v", id, said)
			}
		}
		if len(v.Orphans) > 0 || len(v.Lost) > 0 && s.requests[0].Mode != reconfigure.Destroy {
			t.Errorf("orphans of %v, lost jobs of %v", v.Orphans, v.Lost)
		}
	})
	return v, ended, moments
}

// killedAt kills the worker at a moment, and lets a second one continue.
func (s scene) killedAt(t *testing.T, open func(*testing.T) book, moment int, want view, ended []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := s.begin(t, open(t))
		l, err := p.worker(moment)
		// If plans overlap, the order of moments varies, so the worker may end before the last moments.
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatalf("the worker was to be killed at moment %d, but ended with error %v", moment, err)
		}
		synctest.Wait()
		if _, err := p.worker(0); err != nil {
			t.Fatalf("killed at moment %d, when it had just %s; the next one: %v", moment, l.last, err)
		}
		p.removeAside()
		diff := cmp.Diff(want, p.view())
		p.nothingMore()
		time.Sleep(time.Hour) // until the batchers of the killed worker have given up waiting
		for node := range nodeset.Of(p.world.Ended()...).Difference(nodeset.Of(ended...)).All() {
			t.Errorf("killed at moment %d, when it had just %s: the boot of %s that Slurm waits for is ended: calls %q\n%s",
				moment, l.last, node, p.world.Calls(), p.outcomes())
		}
		if diff != "" {
			t.Errorf("killed at moment %d, when it had just %s (-undisturbed +got):\n%s\ncalls %q\noutcomes %s",
				moment, l.last, diff, p.world.Calls(), p.outcomes())
		}
	})
}

// removeAside removes the instances that a killed worker has set aside, if the comparison of the sources would remove
// them.
func (p *play) removeAside() {
	p.Helper()
	l := newLife(p.world, p.book)
	site := l.site(p.cluster())
	seen, err := site.Observe(p.Context(), snapshot.Scope{Servers: true})
	if err != nil {
		p.Fatal(err)
	}
	findings := reconcile.Compare(p.cluster(), seen, reconcile.Busy{}, 0, reconfigure.CloudCommands{})
	for _, f := range reconcile.Unattended(p.cluster(), seen, findings) {
		if f.Kind == reconcile.Orphan && len(seen.Aside[f.Node]) > 0 {
			if err := l.deps.Cloud.RemoveServer(p.Context(), f.Server, f.Node, time.Now().Add(time.Hour)); err != nil {
				p.Error(err)
			}
		}
	}
}

// nothingMore checks that another worker has nothing to do.
func (p *play) nothingMore() {
	p.Helper()
	if clashes := p.world.Clashes(); len(clashes) > 0 {
		p.Errorf("%v", clashes)
	}
	before, calls := p.view(), len(p.world.Calls())
	if _, err := p.worker(0); err != nil {
		p.Error(err)
	}
	if diff := cmp.Diff(before, p.view()); diff != "" || len(p.world.Calls()) > calls {
		p.Errorf("another worker found something to do: %q\n%s", p.world.Calls()[calls:], diff)
	}
}
