package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// FromCheckout is how a checkout in use becomes a site folder. A moved folder is exchanged with a link to its new place
// at once, so the checkout has the same journal and states at each moment, also after a kill, and Slurm's calls to it
// lose no request.
type FromCheckout struct {
	Checkout string `json:"checkout"`
	Dir      string `json:"directory"`
	// Moves are the folders that are moved, by their paths in both folders; the checkout gets links to them.
	Moves []string `json:"moves"`
	// Stays is the state directory, if it is outside of the checkout.
	Stays string `json:"stays,omitempty"`
	// Copies are the files that are copied, by their paths in the checkout, with their paths in the site folder.
	Copies []Copied `json:"copies"`

	site      site.Site
	terraform []string // the names of the site's own files of Terraform
}

// Copied is a file that is copied, by its paths in the checkout and in the site folder.
type Copied struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// PlanFromCheckout returns how a checkout becomes the site folder dir, or why it cannot. It changes nothing.
func PlanFromCheckout(ctx context.Context, s site.Site, dir string) (f FromCheckout, err error) {
	f = FromCheckout{Checkout: s.Dir, Dir: dir, site: s}
	if !s.Checkout() || config.Name(s.Dir) != config.File {
		return f, fmt.Errorf("%s is no checkout: that has ansible/site.yml or slurmscripts, and %s", s.Dir, config.File)
	}
	if err := CheckNewSite(dir); err != nil && !f.begun() {
		return f, err
	}
	schema, _, err := s.Schema(ctx)
	if err != nil {
		return f, err
	}
	if schema.Version != schema.Newest {
		return f, fmt.Errorf("the journal of %s is of another version: upgrade the checkout first "+
			"(docs/guides/upgrade.md)", s.Dir)
	}
	differ, _, err := s.ProgramChanges()
	if err != nil {
		return f, err
	}
	for _, path := range differ {
		if exists(s.File(path)) {
			return f, fmt.Errorf("%s differs from the file of this program: upgrade the checkout first "+
				"(docs/guides/upgrade.md), and move changes of your own to files of your own", s.File(path))
		}
	}
	if f.Stays, f.Moves, err = f.places(); err != nil {
		return f, err
	}
	if err := f.oneFileSystem(); err != nil {
		return f, err
	}
	return f, f.findOwn()
}

// marker is a link in a site folder that is not finished. With it, Terraform's module finds the declaration of the
// checkout from its new place.
func (f FromCheckout) marker() string { return filepath.Join(f.Dir, filepath.Dir(config.File)) }

// begun reports whether a killed call has left an unfinished site folder of this checkout.
func (f FromCheckout) begun() bool {
	target, err := os.Readlink(f.marker())
	return err == nil && target == filepath.Join(f.Checkout, filepath.Dir(config.File))
}

// places returns what is moved. It reads the declaration in another folder, to see which paths in it are relative.
func (f FromCheckout) places() (stays string, moves []string, err error) {
	text, err := os.ReadFile(f.site.DeclarationFile())
	if err != nil {
		return "", nil, err
	}
	elsewhere, err := os.MkdirTemp("", "reconfigure-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(elsewhere) //nolint:errcheck // it has only a copy
	if err := os.WriteFile(filepath.Join(elsewhere, config.SiteFile), text, 0o600); err != nil {
		return "", nil, err
	}
	c, err := config.Load(elsewhere)
	if err != nil {
		return "", nil, err
	}
	if c.Settings.Directory == f.Checkout {
		return "", nil, fmt.Errorf("%s has control_host.directory: %s: remove the key, whose default is the cluster "+
			"directory", f.site.DeclarationFile(), f.Checkout)
	}
	if within(c.PrivateKeyFile, elsewhere) || within(c.PrivateKeyFile, f.Checkout) {
		return "", nil, fmt.Errorf("private_key_file is in the checkout: move the key to another folder, such as ~/.ssh")
	}
	if !f.site.Provider.Existing {
		moves = append(moves, filepath.Join("terraform", f.site.Provider.Name))
	}
	switch state := c.Settings.StateDir; {
	case within(state, elsewhere):
		relative, err := filepath.Rel(elsewhere, state)
		return "", append(moves, relative), err
	case within(state, f.Checkout):
		return "", nil, fmt.Errorf("state_directory is an absolute path in the checkout: write a relative one")
	default:
		return state, moves, nil
	}
}

func within(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

// oneFileSystem returns an error if a folder would be moved to another file system: that is not possible at once.
func (f FromCheckout) oneFileSystem() error {
	there := f.Dir
	for !exists(there) {
		there = filepath.Dir(there)
	}
	var to unix.Stat_t
	if err := unix.Stat(there, &to); err != nil {
		return fmt.Errorf("%s: %w", there, err)
	}
	for _, path := range f.Moves {
		var from unix.Stat_t
		err := unix.Stat(filepath.Join(f.Checkout, path), &from)
		if err != nil {
			return fmt.Errorf("%s: %w; deploy the checkout first", filepath.Join(f.Checkout, path), err)
		}
		if from.Dev != to.Dev {
			return fmt.Errorf("%s and %s are on different file systems: choose a folder on the same one",
				filepath.Join(f.Checkout, path), f.Dir)
		}
	}
	return nil
}

// findOwn finds the administrator's files in the checkout.
func (f *FromCheckout) findOwn() error {
	secret := []string{"*.yaml"}
	for _, kind := range site.Kinds() {
		secret = append(secret, kind+".*")
	}
	for _, pattern := range secret {
		found, err := filepath.Glob(filepath.Join(f.Checkout, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			f.Copies = append(f.Copies, Copied{filepath.Base(path), filepath.Base(path)})
		}
	}
	slices.SortFunc(f.Copies, func(a, b Copied) int { return strings.Compare(a.From, b.From) })
	f.Copies = slices.Compact(f.Copies)
	for from, to := range map[string]string{
		"group_vars": "ansible/group_vars", "host_vars": "ansible/host_vars",
		"ansible/group_vars": "ansible/group_vars", "ansible/host_vars": "ansible/host_vars",
		"ansible/files/site": "ansible/files/site", "ansible/files/health": "ansible/files/health",
	} {
		if err := f.copyFolder(from, to); err != nil {
			return err
		}
	}
	roles, err := f.site.OwnRoles()
	if err != nil {
		return err
	}
	for _, role := range roles {
		if err := f.copyFolder("ansible/roles/"+role, "ansible/roles/"+role); err != nil {
			return err
		}
	}
	slices.SortFunc(f.Copies, func(a, b Copied) int { return strings.Compare(a.From, b.From) })
	if f.terraform, err = f.site.OwnTerraform(); err != nil {
		return err
	}
	for _, name := range f.terraform {
		f.Copies = append(f.Copies, Copied{filepath.Join("terraform", f.site.Provider.Name, name),
			filepath.Join("terraform", name)})
	}
	return nil
}

// copyFolder adds the files of a folder, except the declaration and placeholders for Git.
func (f *FromCheckout) copyFolder(from, to string) error {
	root := filepath.Join(f.Checkout, from)
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if path == root && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		own := filepath.Join(from, name)
		if d.IsDir() || own == config.File || d.Name() == ".gitkeep" || d.Name() == ".gitignore" {
			return nil
		}
		f.Copies = append(f.Copies, Copied{own, filepath.Join(to, name)})
		return nil
	})
}

// ErrWorkerRuns is the error for a checkout with a worker.
var ErrWorkerRuns = errors.New("a worker runs: wait until it has ended, or stop its service")

// Do makes the site folder. It has the lease meanwhile, so no worker can run. A killed call leaves a checkout that can
// be used, and may be repeated.
func (f FromCheckout) Do(ctx context.Context) error {
	return f.site.WithJournal(ctx, func(log *journal.Journal) error {
		release, ok, err := log.Acquire(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return ErrWorkerRuns
		}
		return errors.Join(f.do(ctx), release())
	})
}

func (f FromCheckout) do(ctx context.Context) error {
	if _, err := writeShared(f.Dir, f.site.Cluster.Name); err != nil {
		return err
	}
	for _, c := range f.Copies {
		if err := copyFile(filepath.Join(f.Checkout, c.From), filepath.Join(f.Dir, c.To)); err != nil {
			return err
		}
	}
	if !f.begun() {
		step()
		if err := os.Symlink(filepath.Join(f.Checkout, filepath.Dir(config.File)), f.marker()); err != nil {
			return err
		}
	}
	for _, path := range f.Moves {
		if err := move(filepath.Join(f.Checkout, path), filepath.Join(f.Dir, path)); err != nil {
			return err
		}
	}
	declared, made := f.site.DeclarationFile(), filepath.Join(f.Dir, config.SiteFile)
	if err := copyFile(declared, made); err != nil {
		return err
	}
	if err := f.site.MovedTo(f.Dir).TakeRootModule(ctx, f.terraform); err != nil {
		return err
	}
	step()
	if err := renameio.Symlink(made, declared); err != nil {
		return err
	}
	step()
	return os.Remove(f.marker())
}

// move exchanges a folder and a link to its new place. It may be repeated.
func move(from, to string) error {
	if target, err := os.Readlink(from); err == nil && target == to {
		return nil
	}
	step()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	step()
	if err := os.Symlink(to, to); err != nil { // it leads to the folder as soon as it is in the other place
		if target, unread := os.Readlink(to); unread != nil || target != to {
			return err
		}
	}
	step()
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	if err != nil {
		return fmt.Errorf("exchange %s and %s: %w", from, to, err)
	}
	return nil
}

// copyFile copies a file with its mode. The copy is complete or missing.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	step()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	step()
	return renameio.WriteFile(to, text, info.Mode().Perm())
}
