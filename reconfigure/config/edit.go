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

// MinNodes is another number of persistent nodes for a group.
type MinNodes struct {
	Group string `json:"group"`
	From  int    `json:"from"` // what the file says before
	To    int    `json:"to"`
}

func (m MinNodes) String() string {
	return fmt.Sprintf("%s: min_nodes of %s %d → %d", File, m.Group, m.From, m.To)
}

// Edit is a change of the declaration that may be made: it is known what the file will say then, and that this is a good declaration.
type Edit struct {
	file          string // what is written; where File is a symbolic link, its target
	before, after []byte
}

// Prepare reads the declaration of the cluster directory dir and sees to it that it can be changed so. It writes nothing. Only the number will be another one;
// comments and whatever else stand as before. Where the number is not a plain one of its own, the error says what to write by hand. Where the declaration has
// problems, or would have some, the error wraps a *Problems.
func Prepare(dir string, m MinNodes) (Edit, error) {
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
	after, err := m.edit(dir, before)
	return Edit{file: file, before: before, after: after}, err
}

// Write makes the edit, unless the file has changed since it was prepared: then nothing is written, and all may be tried again from the start. The file is whole
// at any time, and keeps its mode and owner.
func (e Edit) Write(ctx context.Context) error {
	// The lock is for others of our kind. An editor takes none, so the comparison comes last.
	lock := flock.New(e.file, flock.SetFlag(os.O_RDWR))
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return fmt.Errorf("change the declaration of the cluster: %w", err)
	}
	defer lock.Unlock() //nolint:errcheck // the kernel drops it with the descriptor

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

var errMeanwhile = errors.New(File + " was changed by somebody else in this moment, so nothing was written; look at it, and try again")

// edit is the file's text with the other number.
func (m MinNodes) edit(dir string, data []byte) ([]byte, error) {
	before, problems := parse(dir, data)
	if len(problems) > 0 {
		return nil, &problems
	}
	i := slices.IndexFunc(before.Groups, func(g reconfigure.NodeGroup) bool { return g.Name == m.Group })
	if i < 0 || before.Groups[i].Min != m.From {
		return nil, errMeanwhile
	}
	number, line := m.find(data)
	byHand := fmt.Errorf("%s:%d: min_nodes of %s is not a plain number of its own, so nothing was written; write %d there by hand, then call `reconfigure resize %s`",
		File, line, m.Group, m.To, m.Group)
	digits := strconv.Itoa(m.From)
	if number == nil {
		return nil, byHand
	}
	start := offset(data, number.Line, number.Column)
	if !bytes.HasPrefix(data[start:], []byte(digits)) {
		return nil, byHand
	}
	text := slices.Concat(data[:start], []byte(strconv.Itoa(m.To)), data[start+len(digits):])
	after, problems := parse(dir, text)
	if len(problems) > 0 {
		return nil, fmt.Errorf("with min_nodes %d of %s the declaration would be wrong, so nothing was written: %w", m.To, m.Group, &problems)
	}
	// One run of digits was replaced. If it makes just this difference, it was the right one.
	if !reflect.DeepEqual(after, before.WithMin(m.Group, m.To)) {
		return nil, byHand
	}
	return text, nil
}

// find is the number in the file, as it stands there, and the line to look at; nil where it is written by means of an alias.
func (m MinNodes) find(data []byte) (number *yaml.Node, line int) {
	root, err := decode(data)
	if err != nil || root == nil {
		return nil, 1
	}
	groups := key(root, "node_groups")
	if groups == nil {
		return nil, root.Line
	}
	for _, group := range groups.Content {
		name, number := key(target(group), "name"), key(group, "min_nodes")
		switch {
		case name == nil || target(name).Value != m.Group:
		case number == nil:
			return nil, group.Line
		default:
			return number, number.Line
		}
	}
	return nil, groups.Line
}

// key is what a mapping says under a key; nil where it has none, or is no mapping.
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

// lineBreak is what ends a line to the parser (YAML 1.1, section 4.2).
var lineBreak = regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]")

// offset is where in the text a place of the parser's is, in bytes; its lines and columns are counted from 1, the columns in characters.
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

// replace puts a new text into a file's place.
func replace(file string, text []byte) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	pending, err := renameio.NewPendingFile(file, renameio.WithTempDir(filepath.Dir(file)), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer pending.Cleanup() //nolint:errcheck // what counts has its own error
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := pending.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return fmt.Errorf("it would not keep its owner: %w; call this as its owner, or edit it by hand", err)
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

// syncFolder makes it durable that a name stands for a new file: a request that relies on the edit must not outlive it.
func syncFolder(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
