package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Wrong returns a *Problems with one problem, which a caller found at a key of the declaration in dir. The path of
// the key has the form of Problem.Path. If the file does not have the key, the line is that of the nearest key that
// encloses it.
func Wrong(dir, path, format string, args ...any) error {
	line := 1
	if data, err := os.ReadFile(filepath.Join(dir, Name(dir))); err == nil {
		if root, err := decode(data); err == nil && root != nil {
			line = lineOf(root, path)
		}
	}
	return &Problems{{File: Name(dir), Line: line, Path: path, Message: fmt.Sprintf(format, args...)}}
}

// lineOf returns the line of the key at a path below a node.
func lineOf(n *yaml.Node, path string) int {
	line := n.Line
	for part := range strings.SplitSeq(strings.ReplaceAll(path, "[", ".["), ".") {
		key, next := child(n, part)
		if next == nil {
			break
		}
		n, line = target(next), key.Line
	}
	return line
}

// child returns the key and the value with a name in a mapping or, for [index], the item of a list as both; nil if
// there is none.
func child(n *yaml.Node, part string) (key, value *yaml.Node) {
	if index, list := strings.CutPrefix(part, "["); list {
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
			return nil, nil
		}
		return n.Content[i], n.Content[i]
	}
	if n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == part {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}
