package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// LoginUser is the user of all images that may log in by key and use sudo without a password; LoginUID is its user and
// group id.
const (
	LoginUser = "debian"
	LoginUID  = 1000
)

// ErrUnknown is returned for an image that the store does not have.
var ErrUnknown = errors.New("no such image")

// Store has the images of one lab. It is safe for concurrent use.
type Store struct {
	dir  string
	base string

	mu     sync.Mutex
	layers map[string][]string
}

// NewStore returns an empty store. Its layers are in dir, which must not have other users: files of an earlier lab are
// removed. base is the lowest layer of all images; the store only reads it.
func NewStore(dir, base string) (*Store, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("clear image store: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make image store: %w", err)
	}
	return &Store{dir: dir, base: base, layers: make(map[string][]string)}, nil
}

// Add makes the image id: the base and one layer above it with the given files,
// absolute path to content, owned by root and readable by all.
func (s *Store) Add(id string, files map[string]string) error { return s.AddTo(s.base, id, files) }

// AddTo is [Store.Add] with a base other than the store's.
func (s *Store) AddTo(base, id string, files map[string]string) error {
	return s.add(id, []string{base}, func(layer string) error {
		for path, content := range files {
			if err := writeFile(filepath.Join(layer, path), []byte(content)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Layers returns the folders that the image id consists of, lowest first, or an
// error that wraps [ErrUnknown].
func (s *Store) Layers(id string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	layers, ok := s.layers[id]
	if !ok {
		return nil, fmt.Errorf("image %q: %w", id, ErrUnknown)
	}
	return slices.Clone(layers), nil
}

// Snapshot makes the image id from the given layers, lowest first, and a copy of upper, the upper folder of an overlay
// that may be in use.
func (s *Store) Snapshot(ctx context.Context, id string, layers []string, upper string) error {
	return s.add(id, layers, func(layer string) error {
		return copyTree(ctx, upper, layer)
	})
}

// add fills a new layer and makes id known only if that succeeded.
func (s *Store) add(id string, below []string, fill func(layer string) error) (err error) {
	if id == "" || id != filepath.Base(id) || strings.HasPrefix(id, ".") {
		return fmt.Errorf("image %q: not usable as an image id", id)
	}
	layer := filepath.Join(s.dir, id)
	if err := os.Mkdir(layer, 0o755); err != nil {
		return fmt.Errorf("image %q: %w", id, err)
	}
	if err := fill(layer); err != nil {
		return errors.Join(fmt.Errorf("image %q: %w", id, err), os.RemoveAll(layer))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.layers[id] = append(slices.Clone(below), layer)
	return nil
}

// copyTree copies an overlay's upper folder with its whiteouts (device nodes) and opaque marks (extended attributes).
// tar(1) exits with 1 for files that change or disappear during the copy, and with more for other errors.
func copyTree(ctx context.Context, from, to string) error {
	const script = `tar -C "$1" --xattrs --xattrs-include='*' --one-file-system -cf - . || [ $? = 1 ]`
	read := exec.CommandContext(ctx, "sh", "-c", script, "sh", from)
	write := exec.CommandContext(ctx, "tar", "-C", to, "--xattrs", "--xattrs-include=*",
		"--same-owner", "--same-permissions", "--numeric-owner", "-xf", "-")
	pipe, err := read.StdoutPipe()
	if err != nil {
		return fmt.Errorf("copy disk: %w", err)
	}
	write.Stdin = pipe
	var messages strings.Builder
	write.Stderr = &messages
	if err := read.Start(); err != nil {
		return fmt.Errorf("copy disk: %w", err)
	}
	werr := write.Run()
	// tar writes whole records after the archive's end; unread, they would
	// make the reader fail.
	rerr := read.Wait()
	if err := errors.Join(werr, rerr); err != nil {
		return fmt.Errorf("copy disk: %w: %s", err, strings.TrimSpace(messages.String()))
	}
	return nil
}

// writeFile writes one file of an image and the folders above it. It recognizes a script by the first two bytes, since
// embedded files have no mode.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(string(content), "#!") {
		mode = 0o755
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}
