// Package cloud has what the adapters of the clouds share: it reads the entry of a cloud from its file, finds the
// class of an error by its words, and answers the calls for features that a cloud lacks.
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

// Entry reads the entry of a cloud in a file of the cluster directory. complete checks the entry, and may add
// defaults. Errors name the file and the cloud.
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

// Words matches the errors of a class.
type Words struct {
	Words *regexp.Regexp
	Class reconfigure.Class
}

// ClassOf returns the class of the first match, else that of an error of a connection.
func ClassOf(message string, known []Words) reconfigure.Class {
	for _, k := range known {
		if k.Words.MatchString(message) {
			return k.Class
		}
	}
	return ConnectionClass(message)
}

// ConnectionClass returns the class of an error of Go's HTTP client, also where Terraform's provider reports it;
// ClassOther for another error.
func ConnectionClass(words string) reconfigure.Class {
	switch {
	case unreached.MatchString(words):
		return reconfigure.ClassCloud
	case cut.MatchString(words):
		return LostAnswer(words)
	}
	return reconfigure.ClassOther
}

// LostAnswer returns the class of a call whose answer was lost: ClassUnknown if it changes something, ClassCloud if it
// only reads.
func LostAnswer(words string) reconfigure.Class {
	if changes.MatchString(words) {
		return reconfigure.ClassUnknown
	}
	return reconfigure.ClassCloud
}

// Messages of Go's HTTP client, of gophercloud and of Terraform's providers.
var (
	unreached = regexp.MustCompile(`(?i)dial tcp|connection refused|no such host|no route to host|tls handshake ` +
		`timeout`)
	cut = regexp.MustCompile(`(?i)\bEOF\b|connection reset|broken pipe|server closed idle connection|timeout ` +
		`awaiting response headers|client\.timeout exceeded|deadline exceeded`)
	changes = regexp.MustCompile(`^Error (creating|updating|deleting|rebuilding|resizing) ` +
		`|\[(POST|PUT|PATCH|DELETE) |(Post|Put|Patch|Delete) "http`)
)

// NoPorts implements the calls for ports for a cloud whose root module makes none.
type NoPorts struct {
	Reason error // the error of Port and RemovePort
}

// Ports returns none.
func (NoPorts) Ports(context.Context) (map[string][]reconfigure.Port, error) {
	return map[string][]reconfigure.Port{}, nil
}

// Port returns an error, as RemovePort does.
func (n NoPorts) Port(context.Context, string) (string, error) { return "", n.Reason }

// RemovePort returns an error: no call returns a port.
func (n NoPorts) RemovePort(context.Context, string, string, time.Time) error { return n.Reason }

// NoMarks implements the call for instances that are older than the cluster id, for a cloud where every instance has
// the id.
type NoMarks struct{}

// Mark does nothing.
func (NoMarks) Mark(context.Context, []string, []string) ([]reconfigure.Server, error) {
	return nil, nil
}

// NoImages implements the calls for images of nodes for a cloud where reconfigure makes none.
type NoImages struct {
	Reason error // the error of all calls
}

// Image returns an error, so that no node is cleaned for an image that cannot be made.
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
