package site

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/assets"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/terraform"
)

// Schema returns the versions of the journal's schema, and whether a worker has its lease, which is unknown with
// PostgreSQL. It changes nothing.
func (s Site) Schema(ctx context.Context) (schema journal.Schema, held bool, err error) {
	if url := s.Cluster.Settings.Journal; url != "" {
		schema, err = journal.SchemaOfURL(ctx, url)
		return schema, false, err
	}
	return journal.SchemaOf(ctx, s.StateFile())
}

// withMigrated calls do with the journal in this version's schema, for reading: with a migrated copy if there is one in
// an earlier version. The journal is nil if there is none, or if it is in PostgreSQL in an earlier version.
func (s Site) withMigrated(ctx context.Context, schema journal.Schema, do func(*journal.Journal) error) (err error) {
	switch {
	case schema.Version == 0 || schema.Version != schema.Newest && s.Cluster.Settings.Journal != "":
		return do(nil)
	case schema.Version == schema.Newest:
		return s.IfJournal(ctx, do)
	}
	dir, err := temporary(s.StateFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := journal.Copy(ctx, s.StateFile(), dir); err != nil {
		return err
	}
	log, err := journal.Open(ctx, dir)
	if err != nil {
		return err
	}
	return errors.Join(do(log), log.Close())
}

// temporary makes a folder for a plan of an upgrade, and removes those of killed calls.
func temporary(in string) (string, error) {
	const prefix = ".upgrade-"
	if err := RemoveAbandoned(in, prefix, 24*time.Hour); err != nil {
		return "", err
	}
	return os.MkdirTemp(in, prefix)
}

// RemoveAbandoned removes the folders in a folder that have a prefix and are at least this old: killed calls have left
// them.
func RemoveAbandoned(dir, prefix string, age time.Duration) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) || time.Since(info.ModTime()) < age {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// ProgramChanges returns the program's files in the cluster directory that differ from those in the binary, by their
// paths. In a checkout they are the administrator's. In a site folder, the next request replaces those of Terraform,
// and unpacks the others if unpacks is true. It changes nothing.
func (s Site) ProgramChanges() (paths []string, unpacks bool, err error) {
	if s.Checkout() {
		paths, err = s.checkoutChanges()
		return paths, false, err
	}
	if !s.Provider.Existing {
		m := s.rootModule()
		names, err := m.Changes()
		if err != nil {
			return nil, false, err
		}
		for _, name := range names {
			paths = append(paths, filepath.Join("terraform", m.Name, name))
		}
	}
	_, found, err := assets.Find(s.programs())
	return paths, !found, err
}

// checkoutChanges returns the files in the binary that the checkout does not have, or has with another text. Systemd's
// units are installed elsewhere, and only the root module of the declared cloud is used.
func (s Site) checkoutChanges() (paths []string, err error) {
	for path, text := range assets.Files() {
		folder, rest, _ := strings.Cut(path, "/")
		if folder == "systemd" || folder == "terraform" && !strings.HasPrefix(rest, s.Provider.Name+"/") {
			continue
		}
		was, err := os.ReadFile(s.File(filepath.FromSlash(path)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err != nil || string(was) != text {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// UpgradePreview is what Terraform does with the root module of this program.
type UpgradePreview struct {
	Before, After map[string]string            // versions of its providers; After is nil if Terraform did not run
	Changes       []reconfigure.ResourceChange // of shared resources
}

// PreviewUpgrade has Terraform plan with this program's root module, and with its own choice of the provider's version,
// in a temporary folder beside the root module, which has copies of the local states. The provider may be downloaded to
// that folder. A change of a node is a *reconfigure.Refusal. If Terraform has never run here, the error is a
// terraform.ErrNotInitialized. It changes nothing else, and may be retried.
func (s Site) PreviewUpgrade(
	ctx context.Context, schema journal.Schema, logger *slog.Logger,
) (preview UpgradePreview, err error) {
	if s.Provider.Existing {
		return preview, nil
	}
	if preview.Before, err = terraform.Providers(s.RootModule()); err != nil {
		return preview, err
	}
	if len(preview.Before) == 0 {
		return preview, terraform.ErrNotInitialized
	}
	dir, err := temporary(s.File("terraform")) // relative paths in the module stay valid
	if err != nil {
		return preview, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := s.copyModule(ctx, dir); err != nil {
		return preview, err
	}
	err = s.withMigrated(ctx, schema, func(log *journal.Journal) error {
		preview.Changes, err = s.Adapters(log, logger).previewUpgrade(ctx, dir)
		return err
	})
	after, unread := terraform.Providers(dir)
	if len(after) > 0 {
		preview.After = after
	}
	return preview, errors.Join(err, unread)
}

func (a *Adapters) previewUpgrade(ctx context.Context, dir string) (all []reconfigure.ResourceChange, err error) {
	defer a.Close()
	cfg := a.terraformConfig(reconfigure.DefaultShard)
	cfg.Dir, cfg.PlanDir = dir, filepath.Join(dir, ".plans")
	if cfg.Keeper != nil && a.Site.Cluster.Settings.Journal == "" {
		cfg.Keeper = renamed{cfg.Keeper, filepath.Join(a.Site.StateFile(), journal.FileName)}
	}
	nodes, _, err := terraform.NodeMap{Dir: dir, Keeper: cfg.Keeper}.Read(ctx)
	if err != nil {
		return nil, err
	}
	refused := &reconfigure.Refusal{}
	for _, shard := range reconfigure.Shards(nodes) {
		cfg.Workspace = shard
		d, err := terraform.Open(ctx, cfg)
		if err != nil {
			return nil, err
		}
		cfg.Found = d.Binary()
		changes, err := d.PreviewAll(ctx)
		if refusal, ok := errors.AsType[*reconfigure.Refusal](err); ok {
			refused.Changes = append(refused.Changes, refusal.Changes...)
		} else if err != nil {
			return nil, err
		}
		all = append(all, changes...)
	}
	if len(refused.Changes) > 0 {
		return all, refused
	}
	return all, nil
}

// renamed is the map of nodes in the copy of a journal, with the journal's name: the files in the root module name it.
type renamed struct {
	terraform.Keeper
	name string
}

func (r renamed) Name() string { return r.name }

// copyModule writes this program's root module to a folder, with what Terraform needs besides: the states, the maps of
// nodes, and the site's own files. Terraform selects its providers anew.
func (s Site) copyModule(ctx context.Context, dir string) error {
	from := s.RootModule()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		top := filepath.Dir(name) == "."
		switch {
		case name == ".":
			return nil
		case d.IsDir() && name == ".terraform":
			return fs.SkipDir
		case top && name == ".terraform.lock.hcl", top && !d.IsDir() && !s.Checkout() && assets.Writes(d):
			return nil
		case d.IsDir():
			return os.Mkdir(to, 0o700)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
	if err != nil || s.Checkout() {
		return err
	}
	m := s.rootModule()
	m.Dir = dir
	return m.Put(ctx)
}
