package config

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// path reads the path of a file on the control host, and stores it as an absolute path.
func path(dir string, into *value[string], rules ...rule) described {
	read := func(r *report, at string, n *yaml.Node) {
		text(into, rules...).read(r, at, n)
		if !into.ok || into.is == "" {
			return
		}
		full, err := expand(dir, into.is)
		if err != nil {
			r.add(into.place, "%v", err)
			into.ok = false
			return
		}
		into.is = full
	}
	return described{readerFunc: read, kind: "path"}
}

// expand returns the absolute path for a path that is absolute, begins with ~, the caller's home directory, or is
// relative to dir.
func expand(dir, s string) (string, error) {
	rest, ok := strings.CutPrefix(s, "~")
	switch {
	case ok && (rest == "" || rest[0] == '/'):
		home, err := home()
		if err != nil {
			return "", fmt.Errorf("%q cannot be found: %w; write an absolute path", s, err)
		}
		return filepath.Join(home, rest), nil
	case ok:
		return "", fmt.Errorf("%q is in another user's home; write an absolute path", s)
	case filepath.IsAbs(s):
		return filepath.Clean(s), nil
	}
	return filepath.Join(dir, s), nil
}

// home returns the caller's home directory. Programs that Slurm starts have no HOME.
func home() (string, error) {
	if dir, err := os.UserHomeDir(); err == nil {
		return dir, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("find the home folder: %w", err)
	}
	return u.HomeDir, nil
}
