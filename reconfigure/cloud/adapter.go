// Package cloud is what the adapters of several kinds of clouds share: how the entry of a cloud is read from its file,
// how words of an error become a class, and the calls for what a cloud does not have.
package cloud

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Entry reads the entry of a cloud in a file of the cluster directory. complete checks it, and may fill in the rest.
// Errors name the file and the cloud.
func Entry[T any](dir, file, cloud string, complete func(*T) error) (T, error) {
	var none T
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		return none, fmt.Errorf("find cloud %q: %w", cloud, err)
	}
	var all struct {
		Clouds map[string]T `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		return none, fmt.Errorf("read %s: %w", path, err)
	}
	entry, there := all.Clouds[cloud]
	if !there {
		return none, fmt.Errorf("%s has no cloud %q", path, cloud)
	}
	if err := complete(&entry); err != nil {
		return none, fmt.Errorf("%s: cloud %q: %w", path, cloud, err)
	}
	return entry, nil
}

// Words are in errors of a class.
type Words struct {
	Words *regexp.Regexp
	Class reconfigure.Class
}

// ClassOf returns the class of the first words that an error has, else that of any cloud's error.
func ClassOf(message string, known []Words) reconfigure.Class {
	for _, k := range known {
		if k.Words.MatchString(message) {
			return k.Class
		}
	}
	return reconfigure.CloudClass(0, message)
}

// NoPorts has the calls for ports where the root module makes none.
type NoPorts struct {
	Reason error // what Port and RemovePort return
}

// Ports returns none.
func (NoPorts) Ports(context.Context) (map[string][]reconfigure.Port, error) {
	return map[string][]reconfigure.Port{}, nil
}

// Port returns an error, as RemovePort does.
func (n NoPorts) Port(context.Context, string) (string, error) { return "", n.Reason }

// RemovePort returns an error: nothing finds a port.
func (n NoPorts) RemovePort(context.Context, string, string, time.Time) error { return n.Reason }

// NoMarks has the call for instances of before the cluster had an id, where every instance has had it from the
// beginning.
type NoMarks struct{}

// Mark has nothing to do.
func (NoMarks) Mark(context.Context, []string, []string) ([]reconfigure.Server, error) {
	return nil, nil
}

// NoImages has the calls for images of nodes where reconfigure makes none.
type NoImages struct {
	Reason error // what all calls return
}

// Image returns an error, so that no node is cleaned for an image that is not made.
func (n NoImages) Image(context.Context, string, reconfigure.RequestID) (reconfigure.Image, bool, error) {
	return reconfigure.Image{}, false, n.Reason
}

// CreateImage returns an error.
func (n NoImages) CreateImage(
	context.Context, reconfigure.Instance, string, reconfigure.RequestID,
) (reconfigure.Image, error) {
	return reconfigure.Image{}, n.Reason
}

// AwaitImage returns an error.
func (n NoImages) AwaitImage(
	_ context.Context, i reconfigure.Image, _ reconfigure.Instance,
) (reconfigure.Image, error) {
	return i, n.Reason
}
