// Package assets unpacks the files in the binary: Terraform's root modules, Ansible's playbooks, Slurm's scripts and
// the systemd units. The folder of a version is complete or missing, also after a kill. Terraform does not run in it,
// but in a folder of the site, with copies of a root module's files beside its states.
package assets

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	playbooks "github.com/eiffel-hpc/eiffel/ansible"
	"github.com/eiffel-hpc/eiffel/slurmscripts"
	"github.com/eiffel-hpc/eiffel/systemd"
	"github.com/eiffel-hpc/eiffel/terraform"
)

// Files returns the files in the binary by their paths in the repository, with slashes. The caller must not change it.
var Files = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for folder, files := range map[string]fs.FS{
		"terraform": terraform.FS, "ansible": playbooks.FS, "slurmscripts": slurmscripts.FS, "systemd": systemd.FS,
	} {
		err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(files, path)
			all[folder+"/"+path] = string(text)
			return err
		})
		if err != nil {
			panic(err) // reading an embed.FS cannot fail
		}
	}
	return all
})

// Unpacked is the folder of an unpacked version.
type Unpacked struct {
	Dir string
	// Aside is where a folder was moved whose files had been changed, and Change is one of the changes. Both are
	// empty if there was none.
	Aside, Change string
}

// Unpack returns the folder below dir that has the files of this binary, and unpacks them if they are not there. The
// folder is named by their checksum. If somebody has changed it, it is moved aside, and unpacked anew. Of the other
// versions only the newest stays. Unpack may be called by several processes at once, and may be retried.
func Unpack(ctx context.Context, dir string) (Unpacked, error) {
	found, err := unpack(ctx, dir, Files())
	if err != nil {
		return Unpacked{}, fmt.Errorf("unpack the program's files in %s: %w", dir, err)
	}
	return found, nil
}

// Find returns the folder below dir that Unpack would return. It changes nothing. found is false if the folder is not
// there, or has other files.
func Find(dir string) (path string, found bool, err error) {
	path = filepath.Join(dir, name(Files()))
	change, err := difference(path, Files())
	return path, err == nil && change == "", err
}

// step is called before each change of the file system, for tests.
var step = func() {}

// Temporary folders have these prefixes. Only the holder of the lock makes them.
const (
	unfinished = ".new-"
	removed    = ".old-"
)

func unpack(ctx context.Context, dir string, files map[string]string) (u Unpacked, err error) {
	u.Dir = filepath.Join(dir, name(files))
	if change, err := difference(u.Dir, files); err != nil || change == "" {
		return u, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return u, err
	}
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY)) // of the folder itself: no lock file is added
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return u, fmt.Errorf("lock: %w", err)
	}
	defer lock.Unlock() //nolint:errcheck // the kernel releases it with the descriptor
	change, err := difference(u.Dir, files)
	if err != nil || change == "" {
		return u, err // another process has unpacked them meanwhile
	}
	if err := removeLeftovers(dir); err != nil {
		return u, err
	}
	fresh, err := write(dir, files)
	if err != nil {
		return u, err
	}
	step()
	err = os.Rename(fresh, u.Dir)
	if errors.Is(err, fs.ErrExist) { // a changed folder is there
		u.Aside, u.Change = u.Dir+".changed", change
		err = errors.Join(discard(dir, u.Aside), os.Rename(u.Dir, u.Aside))
		step()
		if err == nil {
			err = os.Rename(fresh, u.Dir)
		}
	}
	if err != nil {
		return u, err
	}
	return u, removeOthers(dir, filepath.Base(u.Dir))
}

// name returns the name of the folder of these files.
func name(files map[string]string) string {
	sum := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%s %d\n%s", path, len(files[path]), files[path])
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6])
}

var version = regexp.MustCompile(`^[0-9a-f]{12}$`)

// difference returns a difference between a folder and the files; empty if there is none. Python's caches are ignored,
// since runs of Ansible write them.
func difference(dir string, files map[string]string) (string, error) {
	seen := 0
	change := ""
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "__pycache__" {
			return fs.SkipDir
		}
		if d.IsDir() {
			return nil
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, ours := files[filepath.ToSlash(relative)]
		if !ours || !d.Type().IsRegular() {
			change = relative + " is not one of the program's files"
			return fs.SkipAll
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if string(text) != want {
			change = relative + " was changed"
			return fs.SkipAll
		}
		seen++
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) { // the folder, or a file that another process moves away
		return "it is missing", nil
	}
	if err == nil && change == "" && seen < len(files) {
		change = "files are missing"
	}
	return change, err
}

// write writes the files to a new folder in dir, and returns it.
func write(dir string, files map[string]string) (string, error) {
	step()
	fresh, err := os.MkdirTemp(dir, unfinished)
	if err != nil {
		return "", err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(fresh, filepath.FromSlash(path))
		step()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		// A file that a power failure leaves empty is a difference at the next call: there is no fsync.
		step()
		if err := os.WriteFile(file, []byte(files[path]), 0o444); err != nil {
			return "", err
		}
	}
	return fresh, nil
}

// removeLeftovers removes what killed calls have left.
func removeLeftovers(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) || strings.HasPrefix(e.Name(), removed) {
			step()
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// removeOthers removes all versions but the given one and the newest other one, for which a worker may still run.
func removeOthers(dir, current string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	newest := map[string]time.Time{}
	var others []string
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.Name() != current && version.MatchString(e.Name()) {
			newest[e.Name()] = info.ModTime()
			others = append(others, e.Name())
		}
	}
	slices.SortFunc(others, func(a, b string) int { return newest[b].Compare(newest[a]) })
	for _, name := range others[min(1, len(others)):] {
		err = errors.Join(err, discard(dir, filepath.Join(dir, name)))
	}
	return err
}

// discard removes a folder, if it is there. It gets another name first, so that no part of it stays under its own.
func discard(dir, path string) error {
	step()
	away := filepath.Join(dir, removed+filepath.Base(path))
	if err := os.Rename(path, away); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	step()
	return os.RemoveAll(away)
}
