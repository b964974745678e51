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
	"strings"
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
	return fmt.Sprintf("%s: min_nodes of %s %d → %d", SiteFile, m.Group, m.From, m.To)
}

// Image is another image of a group's nodes.
type Image struct {
	Group string `json:"group"`
	From  string `json:"from"` // the image in the file before
	To    string `json:"to"`
}

func (m Image) String() string {
	return fmt.Sprintf("%s: image of %s %s → %s", SiteFile, m.Group, m.From, m.To)
}

// Change is a MinNodes or an Image.
type Change interface {
	fmt.Stringer
	// edit returns the text of the file with the change.
	edit(dir string, data []byte) ([]byte, error)
}

// Edit is a prepared change of the declaration: the new text is checked.
type Edit struct {
	file          string // the file to write; the target if the declaration is a symbolic link
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
	file, err := filepath.EvalSymlinks(filepath.Join(dir, Name(dir)))
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

var errMeanwhile = errors.New("all.yml was changed at the same time, so nothing was written; check it, and try again")

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
	group, number, line := find(data, m.Group, "min_nodes")
	byHand := fmt.Errorf("%s:%d: min_nodes of %s is not a plain number, so nothing was written; write %d there by "+
		"hand, then run `reconfigure resize %s`",
		Name(dir), line, m.Group, m.To, m.Group)
	want := before.WithMin(m.Group, m.To)
	switch {
	case group == nil:
		return nil, byHand
	case number == nil:
		return insert(dir, data, group, "min_nodes: "+strconv.Itoa(m.To), want, byHand)
	}
	return substitute(dir, data, number, strconv.Itoa(m.From), strconv.Itoa(m.To), want, byHand)
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
	group, image, line := find(data, m.Group, "image")
	byHand := fmt.Errorf("%s:%d: image of %s is not plain text, so nothing was written; write %q there by hand, then "+
		"call `reconfigure update --outdated`", Name(dir), line, m.Group, m.To)
	want := before.WithImage(m.Group, m.To)
	switch {
	case group == nil:
		return nil, byHand
	case image == nil:
		return insert(dir, data, group, "image: "+strconv.Quote(m.To), want, byHand)
	}
	if plain(image) == "" {
		return nil, byHand
	}
	return substitute(dir, data, image, plain(image), strconv.Quote(m.To), want, byHand)
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
	return wanted(dir, slices.Concat(data[:start], []byte(is), data[start+len(was):]), is, value.Line, want, byHand)
}

// insert adds a key to a group that lacks it, behind the group's name: on a line of its own, or in the same line in
// YAML's flow style.
func insert(
	dir string, data []byte, group *yaml.Node, entry string, want reconfigure.Cluster, byHand error,
) ([]byte, error) {
	at := slices.IndexFunc(group.Content, func(n *yaml.Node) bool { return n.Value == "name" })
	before, name := group.Content[at], group.Content[at+1]
	end, text := offset(data, name.Line, name.Column)+len(plain(name)), ", "+entry
	if group.Style&yaml.FlowStyle == 0 {
		line := lineBreak.FindIndex(data[end:])
		if line == nil {
			return nil, byHand
		}
		text = string(data[end+line[0]:end+line[1]]) + strings.Repeat(" ", before.Column-1) + entry
		end += line[0]
	}
	return wanted(dir, slices.Concat(data[:end], []byte(text), data[end:]), entry, name.Line, want, byHand)
}

// plain returns the text of a value in the file, if that is the value itself, with or without quotes; else "".
func plain(n *yaml.Node) string {
	return map[yaml.Style]string{
		0: n.Value, yaml.DoubleQuotedStyle: `"` + n.Value + `"`, yaml.SingleQuotedStyle: "'" + n.Value + "'",
	}[n.Style]
}

// wanted returns a changed text if it is the declaration of the wanted cluster.
func wanted(dir string, text []byte, is string, line int, want reconfigure.Cluster, byHand error) ([]byte, error) {
	after, problems := parse(dir, text)
	if len(problems) > 0 {
		return nil, fmt.Errorf("with %s in line %d the declaration would have problems, so nothing was written: %w",
			is, line, &problems)
	}
	if !reflect.DeepEqual(after, want) {
		return nil, byHand
	}
	return text, nil
}

// find returns a group in the file with one of its values, and the line for messages. The group is nil if it is an
// alias, so that it cannot be changed; the value is nil if the group lacks the key.
func find(data []byte, ofGroup, ofKey string) (group, value *yaml.Node, line int) {
	root, err := decode(data)
	if err != nil || root == nil {
		return nil, nil, 1
	}
	groups := key(root, "node_groups")
	if groups == nil {
		return nil, nil, root.Line
	}
	for _, group := range groups.Content {
		name, value := key(target(group), "name"), key(group, ofKey)
		switch {
		case name == nil || target(name).Value != ofGroup:
		case group.Kind == yaml.AliasNode:
			return nil, nil, group.Line
		case value == nil:
			return group, nil, group.Line
		default:
			return group, value, value.Line
		}
	}
	return nil, nil, groups.Line
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
