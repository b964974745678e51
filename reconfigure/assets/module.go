package assets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// A Module is the folder of a site in which Terraform runs. It has copies of the files of a root module in the binary,
// links to the site's own files, and what Terraform writes there: its states and its data. So a state has the same
// place in all versions.
type Module struct {
	Dir  string // the folder
	Name string // of the root module in the binary
	// Own is the folder of the site's own files of Terraform. The module has a link to each of them, with the prefix
	// site_, since a later version may have a file of the same name.
	Own string
	// Files are further files, by their names.
	Files map[string]string
	// Links are further links, by their names: their targets are relative to Dir.
	Links map[string]string
}

// Put writes the files. If it is killed, a file is left with which Terraform refuses to run in the folder, also for
// an administrator; the next call completes the folder. Put changes no file that it did not write: it returns an error
// for a file in its way, and for files of Terraform that belong into Own. It may be retried. Only one process at a
// time may call it. Terraform may run in the folder meanwhile if only files in Own have changed.
func (m Module) Put(ctx context.Context) error {
	if err := m.put(ctx); err != nil {
		return fmt.Errorf("write the root module to %s: %w", m.Dir, err)
	}
	return nil
}

// Differs reports whether Put would change the folder. It changes nothing.
func (m Module) Differs() (bool, error) {
	changes, err := m.changes()
	return len(changes) > 0, err
}

// Changes returns the names of the files that Put would write or remove. It changes nothing.
func (m Module) Changes() ([]string, error) {
	changes, err := m.changes()
	return slices.Sorted(maps.Keys(changes)), err
}

// Unready is the file with which Terraform refuses to run. Terraform's message names it.
const Unready = "reconfigure_has_not_finished_this_folder.tf"

const unreadyText = `# reconfigure was ended while it changed the files of this folder. Its next request completes them.
terraform {
  required_version = "< 0.1.0"
}
`

// ownPrefix is the prefix of links to the site's own files.
const ownPrefix = "site_"

// entry is a file with a text, or a link.
type entry struct{ text, link string }

func (m Module) put(ctx context.Context) error {
	if changes, err := m.changes(); err != nil || len(changes) == 0 {
		return err
	}
	step()
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return err
	}
	lock := flock.New(m.Dir, flock.SetFlag(os.O_RDONLY)) // of the folder itself: no lock file is added
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	defer lock.Unlock() //nolint:errcheck // the kernel releases it with the descriptor
	if err := removeUnfinished(m.Dir); err != nil {
		return err
	}
	changes, err := m.changes()
	if err != nil {
		return err
	}
	if len(changes) > 1 && m.concernProgram(changes) {
		changes[Unready] = nil // it is removed last
		if err := m.write(Unready, entry{text: unreadyText}); err != nil {
			return err
		}
	}
	// Removals come last: with a file twice under two names, Terraform refuses to run.
	for _, name := range slices.SortedFunc(maps.Keys(changes), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a, changes), rank(b, changes)), cmp.Compare(a, b))
	}) {
		if is := changes[name]; is != nil {
			err = m.write(name, *is)
		} else {
			step()
			err = os.Remove(filepath.Join(m.Dir, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rank returns the order of a change: files that are written, those that are removed, Unready.
func rank(name string, changes map[string]*entry) int {
	switch {
	case name == Unready:
		return 2
	case changes[name] == nil:
		return 1
	}
	return 0
}

// concernProgram reports whether some changes concern more than links to the site's own files.
func (m Module) concernProgram(changes map[string]*entry) bool {
	for name := range changes {
		if _, link := m.Links[name]; !link && !strings.HasPrefix(name, ownPrefix) {
			return true
		}
	}
	return false
}

// write replaces a file of the folder atomically.
func (m Module) write(name string, is entry) error {
	temporary := filepath.Join(m.Dir, unfinished+name) // the caller has the lock
	step()
	var err error
	if is.link != "" {
		err = os.Symlink(is.link, temporary)
	} else {
		err = writeReadOnly(temporary, is.text)
	}
	if err != nil {
		return err
	}
	step()
	return os.Rename(temporary, filepath.Join(m.Dir, name))
}

// writeReadOnly writes a file durably, since a power failure must not leave an empty file under its name.
func writeReadOnly(path, text string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Sync()
}

// removeUnfinished removes what killed calls have left.
func removeUnfinished(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, unfinished+"*"))
	for _, path := range left {
		step()
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// changes returns what the folder needs, by name; nil: the file is removed.
func (m Module) changes() (map[string]*entry, error) {
	want, err := m.want()
	if err != nil {
		return nil, err
	}
	changes := map[string]*entry{}
	for name, is := range want {
		changes[name] = &is
	}
	found, err := os.ReadDir(m.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return changes, nil
	} else if err != nil {
		return nil, err
	}
	var problems []error
	for _, f := range found {
		name := f.Name()
		is, wanted := want[name]
		was, written, err := m.read(f, wanted)
		switch {
		case err != nil:
			problems = append(problems, err)
		case written && !wanted:
			changes[name] = nil
		case written && was == is:
			delete(changes, name)
		case written, wanted && was == is:
		case wanted:
			problems = append(problems, fmt.Errorf("%s was not written by this program, and differs from its file: move it "+
				"to %s if it is yours, else remove it", name, m.Own))
		case IsTerraforms(name) && !f.IsDir():
			problems = append(problems, fmt.Errorf("%s is not one of the program's files: move it to %s if it is yours, else "+
				"remove it", name, m.Own))
		}
	}
	return changes, errors.Join(problems...)
}

// Take makes the files of a checkout's root module those of Put, if they have the same text. It removes others, by
// their names: those of the administrator, which are in Own. If there are others, Terraform refuses to run until Put is
// called. It may be repeated.
func (m Module) Take(others []string) error {
	want, err := m.want()
	if err != nil {
		return err
	}
	for name, is := range want {
		path := filepath.Join(m.Dir, name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		text, unread := os.ReadFile(path)
		if err := errors.Join(err, unread); err != nil {
			return err
		}
		if string(text) != is.text {
			continue // Put returns the error
		}
		step()
		if err := os.Chmod(path, 0o444); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(filepath.Join(m.Dir, Unready)); len(others) > 0 && errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(removeUnfinished(m.Dir), m.write(Unready, entry{text: unreadyText})); err != nil {
			return err
		}
	}
	for _, name := range others {
		step()
		if err := os.Remove(filepath.Join(m.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Writes reports whether a file or link of the folder of a Module is one that Put may write or remove.
func Writes(f fs.DirEntry) bool {
	info, err := f.Info()
	return err == nil && (f.Type() == fs.ModeSymlink || IsTerraforms(f.Name()) ||
		f.Type().IsRegular() && !strings.HasPrefix(f.Name(), ".") && info.Mode().Perm()&0o222 == 0)
}

// read returns a file or link of the folder, and whether this package has written it: its files are read-only, and its
// links lead to the folders above. The text is left out without withText.
func (m Module) read(f fs.DirEntry, withText bool) (is entry, written bool, err error) {
	path := filepath.Join(m.Dir, f.Name())
	switch {
	case f.Type() == fs.ModeSymlink:
		is.link, err = os.Readlink(path)
		return is, strings.HasPrefix(is.link, "../"), err
	case !f.Type().IsRegular() || strings.HasPrefix(f.Name(), "."):
		return is, false, nil
	}
	info, err := f.Info()
	if err != nil {
		return is, false, err
	}
	if withText {
		var text []byte
		text, err = os.ReadFile(path)
		is.text = string(text)
	}
	return is, info.Mode().Perm()&0o222 == 0, err
}

// want returns the files and links of the folder, by name.
func (m Module) want() (map[string]entry, error) {
	want := map[string]entry{}
	for path, text := range Files() {
		if name, ok := strings.CutPrefix(path, "terraform/"+m.Name+"/"); ok {
			want[name] = entry{text: text}
		}
	}
	if len(want) == 0 {
		return nil, fmt.Errorf("the program has no root module %q", m.Name)
	}
	for name, text := range m.Files {
		want[name] = entry{text: text}
	}
	for name, target := range m.Links {
		want[name] = entry{link: target}
	}
	own, err := os.ReadDir(m.Own)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range own {
		if !IsTerraforms(f.Name()) || f.IsDir() {
			continue
		}
		target, err := filepath.Rel(m.Dir, filepath.Join(m.Own, f.Name()))
		if err != nil {
			return nil, err
		}
		want[ownPrefix+f.Name()] = entry{link: target}
	}
	return want, nil
}

// IsTerraforms reports whether Terraform or OpenTofu reads a file of this name as configuration.
func IsTerraforms(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	return slices.ContainsFunc([]string{".tf", ".tf.json", ".tofu", ".tofu.json"}, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}
