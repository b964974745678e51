package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

// Image is an image that the cluster uses, declares or has made.
type Image struct {
	reconfigure.Image
	Declared []string        `json:"declared"` // the node groups, or "control", that declare it now
	Nodes    nodeset.NodeSet `json:"nodes"`    // the nodes whose instance was made of it
	Unused   bool            `json:"unused"`   // no group declares it, and no node uses it
	// ReadySeconds is the median time that its nodes took to become ready when they were last made; zero if unknown.
	ReadySeconds float64 `json:"ready_seconds,omitempty"`
}

// StatusGone is the status of an image that nodes use and the cloud no longer has.
const StatusGone = "gone"

// NewImages returns the images of a cluster: those that its nodes use, those that are declared, and those that it has
// made, the newest first. Ready is how long nodes took to become ready when they were last made.
func NewImages(
	c reconfigure.Cluster, seen snapshot.Snapshot, there []reconfigure.Image, ready map[string]time.Duration,
) []Image {
	of := map[string]*Image{}
	for _, i := range there {
		of[i.ID] = &Image{Image: i}
	}
	took := map[string][]time.Duration{}
	for node := range seen.Instances {
		id := seen.Desired[node].ImageID
		if id == "" {
			continue
		}
		if of[id] == nil {
			of[id] = &Image{Image: reconfigure.Image{ID: id, Status: StatusGone}}
		}
		of[id].Nodes = of[id].Nodes.Union(nodeset.Of(node))
		if d, known := ready[node]; known {
			took[id] = append(took[id], d)
		}
	}
	declare := func(group string, source reconfigure.Source) {
		if i := of[seen.Sources[source].ImageID]; i != nil {
			i.Declared = append(i.Declared, group)
		}
	}
	if !c.Attached() {
		declare(reconfigure.ControlGroup, c.Control.Source)
	}
	for _, g := range c.Groups {
		declare(g.Name, g.Source)
	}
	images := []Image{}
	for id, i := range of {
		i.Unused = i.Nodes.Empty() && len(i.Declared) == 0
		if i.Unused && i.Request == 0 {
			continue // it is not an image of the cluster
		}
		if all := slices.Sorted(slices.Values(took[id])); len(all) > 0 {
			i.ReadySeconds = all[len(all)/2].Seconds()
		}
		images = append(images, *i)
	}
	slices.SortFunc(images, func(a, b Image) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
	})
	return images
}

// WriteImages writes images as a table for people.
func WriteImages(w io.Writer, images []Image, now time.Time, width int) error {
	rows := [][]string{{"IMAGE", "ID", "STATUS", "SIZE", "AGE", "MADE OF", "READY IN", "DECLARED FOR", "NODES"}}
	for _, i := range images {
		nodes := i.Nodes.String()
		if i.Unused {
			nodes = "unused"
		}
		ready := ""
		if i.ReadySeconds > 0 {
			ready = text.Span(seconds(i.ReadySeconds))
		}
		rows = append(rows, []string{
			text.Printable(i.Name), i.ID, i.Status, size(i.Size), text.Ago(now, i.Created), text.Printable(i.Node), ready,
			strings.Join(i.Declared, ","), nodes,
		})
	}
	if len(images) == 0 {
		_, err := fmt.Fprintln(w, "no images")
		return err
	}
	return text.Table(w, rows, width)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// size returns a number of bytes for people; empty for zero.
func size(bytes int64) string {
	switch {
	case bytes == 0:
		return ""
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", (bytes+1<<10-1)>>10)
	case bytes < 1<<30:
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// NewImage is an image that was made, and what to do with it.
type NewImage struct {
	Image
	Group string `json:"group"` // the group of the node of which it was made
	Line  string `json:"line"`  // for the node group in all.yml
	// BeforeSeconds is the median time that the nodes of the group took to become ready when they were last made;
	// zero if unknown.
	BeforeSeconds float64 `json:"before_seconds,omitempty"`
}

// Made returns the image with a name, and how long the nodes of a group took to become ready; false if there is none.
func Made(images []Image, name string, g reconfigure.NodeGroup, ready map[string]time.Duration) (NewImage, bool) {
	i := slices.IndexFunc(images, func(i Image) bool { return i.Name == name && i.Request != 0 })
	if i < 0 {
		return NewImage{}, false
	}
	made := NewImage{Image: images[i], Group: g.Name}
	quoted, _ := json.Marshal(name) // a JSON string is also a YAML string
	made.Line = "image: " + string(quoted)
	var took []time.Duration
	for node, d := range ready {
		if g.Nodes().Contains(node) {
			took = append(took, d)
		}
	}
	if slices.Sort(took); len(took) > 0 {
		made.BeforeSeconds = took[len(took)/2].Seconds()
	}
	return made, true
}

// String returns the image for people.
func (n NewImage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "image %s is %s", n.Name, n.ID)
	if s := size(n.Size); s != "" {
		fmt.Fprintf(&b, ", %s", s)
	}
	fmt.Fprintf(&b, "\nin all.yml, node group %s:\n    %s\n", n.Group, n.Line)
	if n.BeforeSeconds > 0 {
		fmt.Fprintf(&b, "its nodes took %s to become ready so far", text.Span(seconds(n.BeforeSeconds)))
	} else {
		b.WriteString("it is unknown how long its nodes took to become ready so far")
	}
	b.WriteString("; for the new image see `reconfigure image list`, after its first node\n")
	return b.String()
}
