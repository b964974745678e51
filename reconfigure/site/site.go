// Package site opens a cluster directory: its declaration, its journal, and the adapters that act on the cluster. It
// opens each adapter when it is first needed, and connects it to the interfaces of its users. Each read of the
// declaration gives a Site; the journal and the state directory outlive it.
package site

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process/logfile"
	"github.com/eiffel-hpc/eiffel/reconfigure/sitefiles"
	"github.com/eiffel-hpc/eiffel/reconfigure/snapshot"
)

// Site is a cluster directory with its declaration.
type Site struct {
	Dir     string // absolute
	Cluster reconfigure.Cluster
	Starter reconfigure.WorkerStart // says who starts a worker for this call
	provider
}

// Open reads the declaration of a cluster directory. Its problems are a *config.Problems; a missing file is an
// fs.PathError.
func Open(dir string) (Site, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Site{}, err
	}
	s, err := open(dir)
	var problems *config.Problems
	if errors.As(err, &problems) {
		err = fmt.Errorf("%s has problems:\n%w", filepath.Join(dir, config.Name(dir)), err)
	}
	return s, err
}

func open(dir string) (Site, error) {
	cluster, err := config.Load(dir)
	if err != nil {
		return Site{}, err
	}
	p, err := providerNamed(dir, cluster.Provider)
	if err != nil {
		return Site{}, err
	}
	if cluster, err = p.adapt(dir, cluster); err != nil {
		return Site{}, err
	}
	return Site{Dir: dir, Cluster: cluster, provider: p}, nil
}

// Declared reports whether the declaration could be read. Without it, only the journal is known.
func (s Site) Declared() bool { return s.provider.open != nil }

// File returns the path of a file in the cluster directory.
func (s Site) File(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}

// DeclarationFile returns the path of the declaration.
func (s Site) DeclarationFile() string { return s.File(config.Name(s.Dir)) }

// StateFile returns the path of a file in the state directory.
func (s Site) StateFile(elem ...string) string {
	return filepath.Join(append([]string{s.Cluster.Settings.StateDir}, elem...)...)
}

// LogDir returns the folder of the workers' logs.
func (s Site) LogDir() string { return s.StateFile("log") }

// Logs returns the folder of the workers' logs, for rotation.
func (s Site) Logs() logfile.Folder { return logfile.Folder{Dir: s.LogDir()} }

// Journal opens the journal, and creates it if it does not exist.
func (s Site) Journal(ctx context.Context) (*journal.Journal, error) {
	if url := s.Cluster.Settings.Journal; url != "" {
		return journal.OpenURL(ctx, url)
	}
	return journal.Open(ctx, s.StateFile())
}

// IfJournal calls do with the journal, for readers; it is nil if there is none yet. Opening a journal would create
// its file, which a reader must not do. A declared database must exist, so that its errors show now.
func (s Site) IfJournal(ctx context.Context, do func(log *journal.Journal) error) error {
	if s.Cluster.Settings.Journal == "" && !exists(s.StateFile(journal.FileName)) {
		return do(nil)
	}
	log, err := s.Journal(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	return do(log)
}

// WithJournal calls do with the journal, for writers.
func (s Site) WithJournal(ctx context.Context, do func(log *journal.Journal) error) error {
	log, err := s.Journal(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	return do(log)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// UpToDate returns an error if another control host has a newer declaration: a plan from this one would undo its
// changes. It also stores this host's declaration, so that the others can compare.
func (s Site) UpToDate(ctx context.Context, log *journal.Journal) error {
	if s.Cluster.Settings.Journal == "" {
		return nil // a file of this host: there is no other control host
	}
	own, err := s.Declaration()
	if err != nil {
		return err
	}
	newest, err := log.Declare(ctx, own)
	// A change in the future comes from a wrong clock: no declaration could be newer.
	if err != nil || !own.Outdated(newest) || newest.Changed.After(time.Now()) {
		return err
	}
	return fmt.Errorf(
		"%s differs from the one on control host %s, which was changed later, at %s: make them equal; if "+
			"this one is right, `touch` it and try again",
		s.DeclarationFile(),
		newest.Host,
		newest.Changed.UTC().Format(time.RFC3339),
	)
}

// Declaration returns the version of the declaration on this host.
func (s Site) Declaration() (reconfigure.Declaration, error) {
	text, err := os.ReadFile(s.DeclarationFile())
	if err != nil {
		return reconfigure.Declaration{}, err
	}
	info, err := os.Stat(s.DeclarationFile())
	if err != nil {
		return reconfigure.Declaration{}, err
	}
	dir, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		return reconfigure.Declaration{}, err
	}
	host, err := os.Hostname()
	return reconfigure.Declaration{
		Host:    host + ":" + dir,
		Sum:     fmt.Sprintf("%x", sha256.Sum256(text)),
		Changed: info.ModTime(),
	}, err
}

// Told returns a snapshot with only Terraform's last map of nodes.
func (s Site) Told(ctx context.Context) (told snapshot.Snapshot, err error) {
	err = s.IfJournal(ctx, func(log *journal.Journal) error {
		nodes := s.NodeMap(log)
		told.Desired, _, err = nodes.Read(ctx)
		return err
	})
	return told, err
}

// SiteFiles returns which of the site's files some compute nodes get. The error names the nodes that no group
// declares, or every problem of the files' names.
func (s Site) SiteFiles(nodes nodeset.NodeSet) (sitefiles.Table, error) {
	if unknown := nodes.Difference(s.Cluster.Nodes()); !unknown.Empty() {
		return nil, fmt.Errorf("no node group in %s declares %s", config.Name(s.Dir), unknown)
	}
	files, err := sitefiles.Read(s.Dir)
	return files.Of(nodes), err
}
