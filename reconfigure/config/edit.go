package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// MinNodes is a change of the number of persistent nodes of a group.
type MinNodes struct {
	Group string `json:"group"`
	From  int    `json:"from"` // the number in the file before
	To    int    `json:"to"`
}

func (m MinNodes) String() string {
	return fmt.Sprintf("%s: min_nodes of %s %d → %d", File, m.Group, m.From, m.To)
}

// Image is another image of a group's nodes.
type Image struct {
	Group string `json:"group"`
	From  string `json:"from"` // the image in the file before
	To    string `json:"to"`
}

func (m Image) String() string {
	return fmt.Sprintf("%s: image of %s %s → %s", File, m.Group, m.From, m.To)
}

// Change is a MinNodes or an Image.
type Change interface {
	fmt.Stringer
	// edit returns the text of the file with the change.
	edit(dir string, data []byte) ([]byte, error)
}

// Edit is a prepared change of the declaration: the new text is checked.
type Edit struct {
	file          string // the file to write; the target if File is a symbolic link
	before, after []byte
}

// Prepare reads the declaration in the cluster directory dir and prepares changes. It writes nothing. A change
// replaces only one value; comments and all other text stay. If the value is not a plain one in the file, the error
// says what to write by hand. If the declaration has problems, or would have some after the change, the error wraps a
// *Problems.
func Prepare(dir string, changes ...Change) (Edit, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Edit{}, fmt.Errorf("find the cluster directory: %w", err)
	}
	file, err := filepath.EvalSymlinks(filepath.Join(dir, File))
	if err != nil {
		return Edit{}, fmt.Errorf("find the declaration of the cluster: %w", err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		return Edit{}, fmt.Errorf("read the declaration of the cluster: %w", err)
	}
	e := Edit{file: file, before: before, after: before}
	for _, c := range changes {
		if e.after, err = c.edit(dir, e.after); err != nil {
			return e, err
		}
	}
	return e, nil
}

// Write makes the edit. If the file has changed since Prepare, it returns an error and writes nothing; then Prepare
// and Write may be retried. The file is replaced atomically, and keeps its mode and owner.
func (e Edit) Write(ctx context.Context) error {
	// The lock excludes other processes of this program. An editor takes none, so the file is compared under the lock.
	lock := flock.New(e.file, flock.SetFlag(os.O_RDWR))
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return fmt.Errorf("change the declaration of the cluster: %w", err)
	}
	defer lock.Unlock() //nolint:errcheck // the kernel releases it with the descriptor

	now, err := os.ReadFile(e.file)
	switch {
	case err != nil:
		return fmt.Errorf("change the declaration of the cluster: %w", err)
	case !bytes.Equal(now, e.before):
		return errMeanwhile
	}
	if err := replace(e.file, e.after); err != nil {
		return fmt.Errorf("change the declaration of the cluster: %w", err)
	}
	return nil
}

var errMeanwhile = errors.New(File + " was changed at the same time, so nothing was written; check it, and try again")

// edit returns the text of the file with the new number.
func (m MinNodes) edit(dir string, data []byte) ([]byte, error) {
	before, problems := parse(dir, data)
	if len(problems) > 0 {
		return nil, &problems
	}
	i := slices.IndexFunc(before.Groups, func(g reconfigure.NodeGroup) bool { return g.Name == m.Group })
	if i < 0 || before.Groups[i].Min != m.From {
		return nil, errMeanwhile
	}
	number, line := find(data, m.Group, "min_nodes")
	byHand := fmt.Errorf("%s:%d: min_nodes of %s is not a plain number, so nothing was written; write %d there by "+
		"hand, then run `reconfigure resize %s`",
		File, line, m.Group, m.To, m.Group)
	digits := strconv.Itoa(m.From)
	if number == nil {
		return nil, byHand
	}
	return substitute(dir, data, number, digits, strconv.Itoa(m.To), before.WithMin(m.Group, m.To), byHand)
}

// edit returns the text of the file with the new image.
func (m Image) edit(dir string, data []byte) ([]byte, error) {
	before, problems := parse(dir, data)
	if len(problems) > 0 {
		return nil, &problems
	}
	i := slices.IndexFunc(before.Groups, func(g reconfigure.NodeGroup) bool { return g.Name == m.Group })
	if i < 0 || before.Groups[i].Image != m.From {
		return nil, errMeanwhile
	}
	image, line := find(data, m.Group, "image")
	byHand := fmt.Errorf("%s:%d: image of %s is not plain text, so nothing was written; write %q there by hand, then "+
		"call `reconfigure update --outdated`", File, line, m.Group, m.To)
	if image == nil {
		return nil, byHand
	}
	was := map[yaml.Style]string{
		0: m.From, yaml.DoubleQuotedStyle: `"` + m.From + `"`, yaml.SingleQuotedStyle: "'" + m.From + "'",
	}[image.Style]
	if was == "" {
		return nil, byHand
	}
	return substitute(dir, data, image, was, strconv.Quote(m.To), before.WithImage(m.Group, m.To), byHand)
}

// substitute replaces the text of a value. If the parsed declaration is then not as wanted, the wrong text was
// replaced, and the error is byHand.
func substitute(
	dir string, data []byte, value *yaml.Node, was, is string, want reconfigure.Cluster, byHand error,
) ([]byte, error) {
	start := offset(data, value.Line, value.Column)
	if !bytes.HasPrefix(data[start:], []byte(was)) {
		return nil, byHand
	}
	text := slices.Concat(data[:start], []byte(is), data[start+len(was):])
	after, problems := parse(dir, text)
	if len(problems) > 0 {
		return nil, fmt.Errorf("with %s in line %d the declaration would have problems, so nothing was written: %w",
			is, value.Line, &problems)
	}
	if !reflect.DeepEqual(after, want) {
		return nil, byHand
	}
	return text, nil
}

// find returns a value of a group in the file, and the line for messages. The value is nil if it comes from an alias.
func find(data []byte, ofGroup, ofKey string) (value *yaml.Node, line int) {
	root, err := decode(data)
	if err != nil || root == nil {
		return nil, 1
	}
	groups := key(root, "node_groups")
	if groups == nil {
		return nil, root.Line
	}
	for _, group := range groups.Content {
		name, value := key(target(group), "name"), key(group, ofKey)
		switch {
		case name == nil || target(name).Value != ofGroup:
		case value == nil:
			return nil, group.Line
		default:
			return value, value.Line
		}
	}
	return nil, groups.Line
}

// key returns the value of a key of a mapping; nil if it has no such key, or is not a mapping.
func key(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// lineBreak is a line break for the parser (YAML 1.1, section 4.2).
var lineBreak = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

// offset converts a position of the parser to an offset in bytes. Lines and columns count from 1, columns in
// characters.
func offset(data []byte, line, column int) int {
	at := 0
	for range line - 1 {
		if end := lineBreak.FindIndex(data[at:]); end != nil {
			at += end[1]
		}
	}
	for range column - 1 {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	return at
}

// replace replaces the content of a file atomically.
func replace(file string, text []byte) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	pending, err := renameio.NewPendingFile(file, renameio.WithTempDir(filepath.Dir(file)),
		renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer pending.Cleanup() //nolint:errcheck // the errors that matter are returned below
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := pending.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return fmt.Errorf("its owner would change: %w; run this as its owner, or edit it by hand", err)
		}
	}
	if _, err := pending.Write(text); err != nil {
		return err
	}
	if err := pending.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(file))
}

// syncFolder makes the rename of a file durable, before a request depends on the edit.
func syncFolder(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
