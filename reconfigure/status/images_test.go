package status_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/status"
)

func imagesOfACluster() ([]status.Image, map[string]time.Duration, reconfigure.Cluster) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	source := func(image string) reconfigure.Source {
		return reconfigure.Source{Image: image, Flavor: "small", Network: "n"}
	}
	c := reconfigure.Cluster{
		Control: reconfigure.Control{Name: "ctl", Source: source("base")},
		Groups: []reconfigure.NodeGroup{
			{Name: "standard", Prefix: "p", Width: 1, Source: source("second"), Max: 4},
			{Name: "big", Prefix: "b", Width: 1, Source: source("base"), Max: 4},
		},
	}
	there := []reconfigure.Image{
		{ID: "i0", Name: "base", Status: "active", Size: 3 << 29, Created: now.Add(-100 * 24 * time.Hour)},
		{ID: "i1", Name: "first", Status: "active", Size: 1 << 30, Created: now.Add(-3 * time.Hour), Node: "p1", Request: 3},
		{ID: "i2", Name: "second", Status: "active", Size: 5 << 20, Created: now.Add(-time.Hour), Node: "p2", Request: 8},
		{ID: "i3", Name: "of somebody else", Status: "active", Created: now},
		{ID: "i4", Name: "third", Status: "saving", Created: now.Add(-time.Minute), Node: "p2", Request: 9},
	}
	of := func(image string) reconfigure.Spec { return reconfigure.Spec{Group: "standard", ImageID: image} }
	instance := func(node string) reconfigure.Instance { return reconfigure.Instance{Node: node, ID: node} }
	seen := snapshot.Snapshot{
		Desired: map[string]reconfigure.Spec{
			"ctl": of("i0"), "p1": of("i1"), "p2": of("i1"), "p3": of("i9"), "p4": {Group: "standard"},
		},
		Instances: map[string]reconfigure.Instance{
			"ctl": instance("ctl"), "p1": instance("p1"), "p2": instance("p2"), "p3": instance("p3"),
		},
		Sources: map[reconfigure.Source]reconfigure.Resolved{
			source("base"): {ImageID: "i0"}, source("second"): {ImageID: "i2"},
		},
	}
	ready := map[string]time.Duration{"p1": 80 * time.Second, "p2": 90 * time.Second, "b1": time.Hour}
	return status.NewImages(c, seen, there, ready), ready, c
}

func TestImagesOfACluster(t *testing.T) {
	images, _, _ := imagesOfACluster()
	var b strings.Builder
	if err := status.WriteImages(&b, images, time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), 0); err != nil {
		t.Fatal(err)
	}
	const want = `
IMAGE   ID  STATUS  SIZE     AGE      MADE OF  READY IN  DECLARED FOR  NODES
third   i4  saving  -        1m00s    p2       -         -             unused
second  i2  active  5 MiB    1h00m    p2       -         standard      -
first   i1  active  1.0 GiB  3h00m    p1       1m30s     -             p[1-2]
base    i0  active  1.5 GiB  100d00h  -        -         control,big   ctl
-       i9  gone    -        -        -        -         -             p3
`
	if diff := cmp.Diff(want, "\n"+b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNewImageSaysWhatToDeclare(t *testing.T) {
	images, ready, c := imagesOfACluster()
	made, found := status.Made(images, "second", c.Groups[0], ready)
	const want = `image second is i2, 5 MiB
in all.yml, node group standard:
    image: "second"
its nodes took 1m30s to become ready so far; for the new image see ` + "`reconfigure image list`, after its first node\n"
	if diff := cmp.Diff(want, made.String()); diff != "" || !found {
		t.Errorf("found %t (-want +got):\n%s", found, diff)
	}
	if made, _ = status.Made(images, "second", c.Groups[0], nil); !strings.Contains(made.String(), "it is unknown") {
		t.Errorf("without times it says\n%s", made)
	}
	if made, found := status.Made(images, "base", c.Groups[0], ready); found {
		t.Errorf("an image that was not made here is %+v", made)
	}
}
