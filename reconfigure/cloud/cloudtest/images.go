package cloudtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/operation"
)

// ImagesSetup is a cloud that is asked for images, and ways for a test to change it from outside.
type ImagesSetup struct {
	Images operation.Images
	// Make makes an instance of ours that runs.
	Make func(node string) reconfigure.Instance
	// Saved lets the images that were begun become active.
	Saved func()
	// Lose removes an image that is being saved, as the cloud does if it has no room for it.
	Lose func(id string)
	// Foreign begins an image with that name for something else.
	Foreign func(name string)
}

// TestImages checks the contract of operation.Images. New makes a new setup for each call.
func TestImages(t *testing.T, new func(*testing.T) ImagesSetup) {
	for name, rule := range map[string]func(imagesRule){
		"an image is found by its request":     imagesRule.found,
		"it is begun once":                     imagesRule.once,
		"it is awaited until it is active":     imagesRule.awaited,
		"the wait ends when the cloud lost it": imagesRule.lost,
		"the wait ends with ctx":               imagesRule.late,
		"a name of another owner is refused":   imagesRule.foreign,
		"an instance that is gone has none":    imagesRule.gone,
	} {
		t.Run(name, func(t *testing.T) { rule(imagesRule{t, new(t)}) })
	}
}

type imagesRule struct {
	*testing.T
	ImagesSetup
}

func (r imagesRule) begin(i reconfigure.Instance, request reconfigure.RequestID) reconfigure.Image {
	r.Helper()
	image, err := r.Images.CreateImage(r.Context(), i, "fresh", request)
	if err != nil {
		r.Fatal(err)
	}
	return image
}

func (r imagesRule) found() {
	if image, found, err := r.Images.Image(r.Context(), "fresh", 7); found || err != nil {
		r.Fatalf("before it is begun there is %+v, %v", image, err)
	}
	begun := r.begin(r.Make("node1"), 7)
	image, found, err := r.Images.Image(r.Context(), "fresh", 7)
	if err != nil || !found {
		r.Fatalf("found %t, error %v", found, err)
	}
	if image.ID != begun.ID || image.Name != "fresh" || image.Node != "node1" || image.Request != 7 || image.Active() {
		r.Errorf("it is %+v, begun as %+v", image, begun)
	}
	if _, _, err := r.Images.Image(r.Context(), "fresh", 8); err == nil {
		r.Error("another request may have the same name")
	}
}

func (r imagesRule) once() {
	i := r.Make("node1")
	if first, second := r.begin(i, 7), r.begin(i, 7); first.ID != second.ID {
		r.Errorf("there are %+v and %+v", first, second)
	}
}

func (r imagesRule) awaited() {
	i := r.Make("node1")
	begun := r.begin(i, 7)
	r.Saved()
	image, err := r.Images.AwaitImage(r.Context(), begun, i)
	if err != nil || image.ID != begun.ID || !image.Active() || image.Size == 0 {
		r.Errorf("it is %+v, %v", image, err)
	}
}

func (r imagesRule) lost() {
	i := r.Make("node1")
	begun := r.begin(i, 7)
	r.Lose(begun.ID)
	if image, err := r.Images.AwaitImage(r.Context(), begun, i); err == nil || !strings.Contains(err.Error(), begun.ID) {
		r.Errorf("it is %+v, %v", image, err)
	}
}

func (r imagesRule) late() {
	i := r.Make("node1")
	begun := r.begin(i, 7)
	ctx, cancel := context.WithTimeout(r.Context(), 50*time.Millisecond)
	defer cancel()
	if image, err := r.Images.AwaitImage(ctx, begun, i); err == nil {
		r.Errorf("it is %+v", image)
	}
}

func (r imagesRule) foreign() {
	i := r.Make("node1")
	r.Foreign("fresh")
	if image, found, err := r.Images.Image(r.Context(), "fresh", 7); err == nil {
		r.Errorf("found %t: %+v", found, image)
	}
	if image, err := r.Images.CreateImage(r.Context(), i, "fresh", 7); err == nil {
		r.Errorf("begun: %+v", image)
	}
}

func (r imagesRule) gone() {
	image, err := r.Images.CreateImage(r.Context(), reconfigure.Instance{
		Node: "node1", ID: "00000000-0000-4000-8000-000000000000",
	}, "fresh", 7)
	if err == nil {
		r.Errorf("begun: %+v", image)
	}
}
