package terraform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure/sleep"
)

// LocalStates returns the whole states in the folder of a root module, by their paths in it. There are none if another
// back end has the states. Terraform may write them meanwhile: it empties a file before it writes it, so a file without
// a whole state is read again, and if it stays so, the copy is taken that Terraform made before its run. LocalStates
// takes no lock, changes nothing, and may be retried.
func LocalStates(ctx context.Context, dir string) (map[string][]byte, error) {
	all := map[string][]byte{}
	if !localIn(dir) {
		return all, nil
	}
	paths, err := filepath.Glob(filepath.Join(dir, stateFolder, "*", "terraform.tfstate"))
	if err != nil {
		return nil, err
	}
	for _, path := range append(paths, filepath.Join(dir, "terraform.tfstate")) {
		text, err := wholeState(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return nil, err
		}
		all[name] = text
	}
	return all, nil
}

// wholeState reads a file that Terraform may be writing.
func wholeState(ctx context.Context, path string) ([]byte, error) {
	const tries, pause = 6, 20 * time.Millisecond
	for try := range tries {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if whole(text) {
			return text, nil
		}
		if err := sleep.For(ctx, pause<<try); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(path + ".backup")
	if err == nil && whole(text) {
		return text, nil
	}
	return nil, fmt.Errorf("%s has no whole state, and neither has its copy %s.backup", path, filepath.Base(path))
}

// whole reports whether a text is a whole state.
func whole(text []byte) bool {
	state, err := parseState(bytes.TrimSpace(text))
	return err == nil && len(state.top) > 0
}
