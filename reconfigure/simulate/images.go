package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
)

// Image is an image made from an instance.
type Image struct {
	reconfigure.Image
	// Clean reports whether the disk was clean when the image was begun.
	Clean bool

	active time.Time
	lost   bool // it disappears in the cloud instead of becoming active
}

// Images returns the images that were begun, in order.
func (w *World) Images() []Image {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	all := make([]Image, len(w.cloud.images))
	for i, image := range w.cloud.images {
		all[i] = *image
	}
	return all
}

// save makes an image active, or drops it.
func (w *World) save(i *Image) {
	i.Status, i.Size = reconfigure.ImageActive, 1<<30
	if i.lost {
		w.cloud.images = slices.DeleteFunc(w.cloud.images, func(other *Image) bool { return other == i })
	}
}

// CleanedInUse returns the nodes on which Slurm may start a job although their disks were cleaned.
func (w *World) CleanedInUse() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.advance()
	var nodes []string
	for _, s := range w.cloud.servers {
		if n := w.slurm.nodes[s.node]; n != nil && n.server == s && s.clean && !s.configured && n.state(s.node).Usable() {
			nodes = append(nodes, s.node)
		}
	}
	return nodes
}

// SaveImages makes all images active.
func (w *World) SaveImages() {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, i := range slices.Clone(w.cloud.images) {
		w.save(i)
	}
}

// LoseImage removes an image.
func (w *World) LoseImage(id string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.cloud.images = slices.DeleteFunc(w.cloud.images, func(i *Image) bool { return i.ID == id })
}

// Clean stops slurmd on an instance, and removes its configuration. Slurm does not notice that.
func (w *World) Clean(ctx context.Context, _ reconfigure.Cluster, i reconfigure.Instance) error {
	defer w.Begin(Ansible+" on "+Tool(i.Node), everybody)()
	wait(ctx, w.spanOf(Cleaning))
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	w.advance()
	s := w.server(i.ID)
	if s == nil || !s.up || w.struck(NoSSH, i.Node) {
		return failure{NoSSH}
	}
	w.log("clean", nodeset.Of(i.Node))
	w.lose(i.Node)
	s.configured, s.slurmd = false, false
	if n := w.slurm.nodes[i.Node]; n != nil {
		n.registers = time.Time{}
	}
	if w.struck(PlaybookFails, i.Node) {
		return failure{PlaybookFails}
	}
	s.clean = true
	return nil
}

// Image returns the image of a request.
func (w *World) Image(
	ctx context.Context, name string, request reconfigure.RequestID,
) (reconfigure.Image, bool, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.cloudAnswers(ctx); err != nil {
		return reconfigure.Image{}, false, err
	}
	return w.imageOf(name, request)
}

func (w *World) imageOf(name string, request reconfigure.RequestID) (reconfigure.Image, bool, error) {
	for _, i := range w.cloud.images {
		switch {
		case i.Name == name && i.Request == request:
			return i.Image, true, nil
		case i.Name == name:
			return reconfigure.Image{}, false, fmt.Errorf("there is an image named %q already", name)
		}
	}
	return reconfigure.Image{}, false, nil
}

// CreateImage takes as long as Saving until the image is active.
func (w *World) CreateImage(
	ctx context.Context, i reconfigure.Instance, name string, request reconfigure.RequestID,
) (reconfigure.Image, error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	if err := w.cloudAnswers(ctx); err != nil {
		return reconfigure.Image{}, err
	}
	if image, found, err := w.imageOf(name, request); found || err != nil {
		return image, err
	}
	s := w.server(i.ID)
	switch {
	case s == nil || !s.up:
		return reconfigure.Image{}, fmt.Errorf("there is no instance %q that runs", i.ID)
	case w.struck(NoImage, i.Node):
		return reconfigure.Image{}, failure{NoImage}
	}
	w.log("image", nodeset.Of(i.Node))
	image := &Image{
		Image: reconfigure.Image{
			ID: fmt.Sprint("image-", w.number()), Name: name, Status: "saving", Created: time.Now(), Node: i.Node,
			Request: request,
		},
		Clean: s.clean, active: after(w.span(Saving, i.Node)), lost: w.struck(ImageLost, i.Node),
	}
	w.cloud.images = append(w.cloud.images, image)
	return image.Image, nil
}

// AwaitImage polls once a second.
func (w *World) AwaitImage(
	ctx context.Context, image reconfigure.Image, _ reconfigure.Instance,
) (reconfigure.Image, error) {
	for {
		is, found, err := w.Image(ctx, image.Name, image.Request)
		switch {
		case ctx.Err() != nil:
			return image, context.Cause(ctx)
		case err != nil:
			return image, err
		case !found:
			return image, fmt.Errorf("the cloud has removed image %s", image.ID)
		case is.Active():
			return is, nil
		}
		wait(ctx, time.Second)
	}
}
