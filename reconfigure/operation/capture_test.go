package operation_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
	"github.com/eiffel-hpc/eiffel/reconfigure/simulate"
)

// images asks for an image of a node, that is drained for it.
func (l *lab) images(node string) {
	l.Helper()
	l.Have("p3")
	time.Sleep(time.Minute)
	l.Drained("reconfigure: image", node)
	l.asks(image(node))
}

func image(node string) reconfigure.Request {
	r := reconfigure.Request{Mode: reconfigure.MakeImage, Nodes: nodeset.Of(node)}
	r.Image = "fresh"
	return r
}

// undrain ends a drain, as an administrator does.
func (l *lab) undrain(node string) {
	l.Helper()
	if err := l.Undrain(l.ctx, nodeset.Of(node)); err != nil {
		l.Error(err)
	}
}

// wantImages checks how many images of clean disks there are.
func (l *lab) wantImages(want int) {
	l.Helper()
	clean := 0
	for _, i := range l.Images() {
		if i.Clean && i.Active() {
			clean++
		}
	}
	l.want("images of clean disks", want, clean)
	l.want("images", want, len(l.Images()))
}

func TestImageOfAPersistentNode(t *testing.T) {
	test(t, func(l *lab) {
		l.images("p1")
		before := l.IDs()["p1"]
		l.wantVerdicts(map[string]string{"p1": "done : image fresh is image-5"})
		l.wantOrder("drain p1: its disk is cleaned", "clean p1", "image p1", "apply replace p1", "configure p1", "undrain p1")
		l.wantImages(1)
		if n := l.Node("p1"); n.State != "IDLE" || n.Reason != "" || l.IDs()["p1"] == before {
			l.Errorf("p1 is %+v", n)
		}
	})
}

func TestImageOfACloudNode(t *testing.T) {
	test(t, func(l *lab) {
		l.images("p3")
		l.carry()
		l.wantOrder("clean p3", "image p3", "apply delete p3", "power_down p3")
		l.wantNever("configure")
		l.wantImages(1)
		if n := l.Node("p3"); n.State != back || n.Reason != "" || n.Instance.ID != "" {
			l.Errorf("p3 is %+v", n)
		}
	})
}

// A node with a job, or one that Slurm may start a job on, is not cleaned.
func TestImageOfANodeInUseIsRefused(t *testing.T) {
	test(t, func(l *lab) {
		l.images("p1")
		l.undrain("p1") // since the plan was made
		l.StartJob("p1")
		l.wantVerdicts(map[string]string{"p1": "failed clean: left alone: a job runs on it"})
		l.wantNever("clean", "image", "apply", "drain")
		l.want("lost jobs", 0, len(l.Lost()))
	})
}

// The drain of an administrator does not end, and its reason is kept.
func TestImageOfANodeThatSomebodyElseHasDrained(t *testing.T) {
	for _, node := range []string{"p1", "p3"} {
		t.Run(node, func(t *testing.T) {
			test(t, func(l *lab) {
				l.images(node)
				l.Drained("disk is full", node)
				l.asks(image(node))
				l.carry()
				l.wantOrder("drain "+node+": its disk is cleaned", "clean "+node, "configure "+node, "drain "+node)
				l.wantNever("undrain", "power_down")
				l.wantImages(1)
				n := l.Node(node)
				l.want("reason", "reconfigure: drained by somebody else: disk is full", n.Reason)
				if !strings.HasSuffix(n.State, "+DRAIN") || n.Instance.ID == "" {
					l.Errorf("%s is %+v", node, n)
				}
			})
		})
	}
}

// An administrator who has drained a node must see that its disk was cleaned, before they end the drain.
func TestCleanedNodeThatSomebodyElseHasDrainedSaysSo(t *testing.T) {
	const cleaned = "reconfigure: " + reconfigure.ImageReason + "; drained by somebody else: disk is full"
	for name, happens := range map[string]func(*lab){
		"while it is cleaned": func(l *lab) {
			l.deps.Cleaner = then{l.deps.Cleaner, func() { l.want("reason", cleaned, l.Node("p1").Reason) }}
		},
		"when it could not be made anew": func(l *lab) { l.Order(simulate.StateLocked) },
		"with another reason meanwhile": func(l *lab) {
			l.Order(simulate.StateLocked)
			l.deps.Cleaner = then{l.deps.Cleaner, func() { l.Drained("disk is full", "p1") }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(l *lab) {
				l.images("p1")
				l.Drained("disk is full", "p1")
				l.asks(image("p1"))
				happens(l)
				l.carry()
				if name == "while it is cleaned" {
					return
				}
				l.want("reason", cleaned, l.Node("p1").Reason)
				l.Clear(simulate.StateLocked)
				l.asks(reconfigure.Request{Mode: reconfigure.Update, Nodes: nodeset.Of("p1")})
				l.wantVerdicts(map[string]string{
					"p1": "done : it stays drained, since reconfigure has not drained it: disk is full",
				})
				l.want("reason", "reconfigure: drained by somebody else: disk is full", l.Node("p1").Reason)
				l.wantOrder("clean p1", "apply replace p1")
			})
		})
	}
}

// After each failure of the image, the node is made anew or removed.
func TestNodeComesBackWithoutAnImage(t *testing.T) {
	for name, rule := range map[string]struct {
		order func(*lab, string)
		said  string
	}{
		"refused": {func(l *lab, node string) { l.Order(simulate.NoImage, node) }, "no image"},
		"lost": {
			func(l *lab, node string) { l.Order(simulate.ImageLost, node) }, "the cloud has removed image image-5",
		},
		"not in time": {
			func(l *lab, node string) { l.Takes(simulate.Saving, simulate.Forever, node) },
			"the image was not there in time",
		},
		"not cleaned": {
			func(l *lab, node string) {
				l.Order(simulate.PlaybookFails, node)
				l.deps.Cleaner = then{l.deps.Cleaner, func() { l.Clear(simulate.PlaybookFails) }}
			}, "playbook fails",
		},
	} {
		for _, node := range []string{"p1", "p3"} {
			t.Run(name+" "+node, func(t *testing.T) {
				test(t, func(l *lab) {
					rule.order(l, node)
					l.images(node)
					before := l.IDs()[node]
					got := l.carry()[node]
					if !strings.HasPrefix(got, "failed") || !strings.HasSuffix(got, ": "+rule.said) {
						l.Errorf("verdict %q", got)
					}
					n := l.Node(node)
					if state := map[string]string{"p1": "IDLE", "p3": back}[node]; n.State != state || n.Reason != "" ||
						l.IDs()[node] == before {
						l.Errorf("it is %+v", n)
					}
				})
			})
		}
	}
}

// A node that could not be made anew stays drained.
func TestCleanedNodeThatDoesNotComeBackStaysDrained(t *testing.T) {
	for node, fault := range map[string]simulate.Fault{"p1": simulate.NoSSH, "p3": simulate.NeverRemoved} {
		test(t, func(l *lab) {
			l.images(node)
			l.Then(simulate.AfterPreview, func() { l.Order(fault, node) })
			if fault == simulate.NeverRemoved {
				l.Order(fault, node)
			}
			l.carry()
			l.wantImages(1)
			l.wantNever("undrain", "power_down")
			if n := l.Node(node); !strings.Contains(n.State, "DRAIN") {
				l.Errorf("%s is %+v", node, n)
			}
		})
	}
}

// Somebody who ends the drain meanwhile gets no job onto the node.
func TestDrainThatSomebodyEndsIsRenewed(t *testing.T) {
	test(t, func(l *lab) {
		l.images("p1")
		l.deps.Cleaner = then{l.deps.Cleaner, func() { time.AfterFunc(100*time.Millisecond, func() { l.undrain("p1") }) }}
		l.carry()
		l.wantImages(1)
		l.wantOrder("image p1", "drain p1: its disk is cleaned", "apply replace p1")
		l.want("state", "IDLE", l.Node("p1").State)
	})
}

// then does something after the disk was cleaned.
type then struct {
	operation.Cleaner
	do func()
}

func (t then) Clean(ctx context.Context, c reconfigure.Cluster, i reconfigure.Instance) error {
	defer t.do()
	return t.Cleaner.Clean(ctx, c, i)
}
