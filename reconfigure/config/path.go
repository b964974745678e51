package config

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// path is a text that names a file of the control host; it is kept as the absolute path.
func path(dir string, into *value[string], rules ...rule) reader {
	return readerFunc(func(r *report, at string, n *yaml.Node) {
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
	})
}

// expand is the absolute path of a file of the control host that is named by a path from ~, the caller's home, or from dir.
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

// home is the caller's home. HOME is not there for all callers: programs that Slurm starts have none.
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
