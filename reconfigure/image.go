package reconfigure

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Image is an image in the cloud.
type Image struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Status  string    `json:"status"`         // Glance's image status: queued, saving, active, …
	Size    int64     `json:"size,omitempty"` // in bytes; zero while the cloud does not know it
	Created time.Time `json:"created"`
	// Node and Request are those of the image create that made it, if this cluster did; else empty and zero.
	Node    string    `json:"node,omitempty"`
	Request RequestID `json:"request,omitempty"`
}

// ImageActive is the status of an image that instances can be made of.
const ImageActive = "active"

// Active reports whether instances can be made of the image.
func (i Image) Active() bool { return i.Status == ImageActive }

// ImageName returns a name for the image of a node of a group.
func ImageName(c Cluster, g NodeGroup, now time.Time) string {
	return fmt.Sprintf("%s-%s-%s", c.Name, g.Name, now.UTC().Format("20060102-150405"))
}

// imageName matches names that need no quotes in YAML and in commands. Glance allows 255 characters.
var imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$`)

// CheckImageName returns why an image must not have the name, or nil.
func CheckImageName(name string) error {
	if !imageName.MatchString(name) {
		return fmt.Errorf("%q is no name for an image: it has letters, digits, '.', '_' and '-'", name)
	}
	return nil
}

// ImageReason begins the reason of the drain of a node from just before its disk is cleaned for an image until the node
// is made anew. After a colon follows a failure, or the reason of an earlier drain that is not this tool's. Slurm keeps
// the reason if a worker dies.
const ImageReason = "its disk is cleaned for an image, and it must be made anew"

// ReasonForImage returns the reason with which to drain a node in this state just before its disk is cleaned.
// Another's drain stays marked as such, so that it does not end when the node is made anew.
func (s NodeState) ReasonForImage() string {
	if s.ForeignDrain() {
		return ImageReason + "; " + s.KeptReason()
	}
	return ImageReason
}

// Unfit reports whether the node is drained because its disk was cleaned for an image, or may have been. It must not
// get a job before it is made anew. When Slurm powers a node down, the reason stays without the drain; it does not
// apply to the next instance.
func (s NodeState) Unfit() bool {
	said := strings.TrimSpace(strings.TrimPrefix(s.Reason, ReasonPrefix))
	return s.Drained() && strings.HasPrefix(s.Reason, ReasonPrefix) && strings.HasPrefix(said, ImageReason)
}
