// Package site opens a cluster directory: its declaration, its journal, and the adapters that act on the cluster. It
// opens each adapter when it is needed first, and ties it to the interfaces of those who use it. Each reading of the
// declaration is a Site; the journal and the state directory outlive it.
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

// Site is a cluster's directory and what it declares.
type Site struct {
	Dir     string // absolute
	Cluster reconfigure.Cluster
	Starter reconfigure.WorkerStart // who starts a worker for this call
	provider
}

// Open reads the declaration of a cluster directory. Its problems are a *config.Problems; that the file is not there is
// an fs.PathError.
func Open(dir string) (Site, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Site{}, err
	}
	s, err := open(dir)
	var problems *config.Problems
	if errors.As(err, &problems) {
		err = fmt.Errorf("%s has %d problem(s):\n%w", filepath.Join(dir, config.File), len(*problems), err)
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

// Declared reports whether the declaration could be read. Without it only the journal is known.
func (s Site) Declared() bool { return s.provider.open != nil }

// File names a file of the cluster directory.
func (s Site) File(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}

// StateFile names a file of the state directory.
func (s Site) StateFile(elem ...string) string {
	return filepath.Join(append([]string{s.Cluster.Settings.StateDir}, elem...)...)
}

// LogDir is the folder of the worker's logs.
func (s Site) LogDir() string { return s.StateFile("log") }

// Logs is where the workers' logs are.
func (s Site) Logs() logfile.Folder { return logfile.Folder{Dir: s.LogDir()} }

// Journal opens the journal, and makes it where it is not there yet.
func (s Site) Journal(ctx context.Context) (*journal.Journal, error) {
	if url := s.Cluster.Settings.Journal; url != "" {
		return journal.OpenURL(ctx, url)
	}
	return journal.Open(ctx, s.StateFile())
}

// IfJournal gives the journal to who only reads: nil where there is none yet. To open a journal makes its file, which
// reading must not do; a database that is declared must be there, so that what is wrong with it shows now.
func (s Site) IfJournal(ctx context.Context, do func(log *journal.Journal) error) error {
	if s.Cluster.Settings.Journal == "" && !exists(s.StateFile("journal.db")) {
		return do(nil)
	}
	log, err := s.Journal(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	return do(log)
}

// WithJournal gives the journal to who writes.
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

// UpToDate is an error where another control host has a newer declaration. To plan from this one would undo there
// what was meant. The declaration of this host is made known, so that the others can compare.
func (s Site) UpToDate(ctx context.Context, log *journal.Journal) error {
	if s.Cluster.Settings.Journal == "" {
		return nil // a file of this host's: there is no other one
	}
	own, err := s.Declaration()
	if err != nil {
		return err
	}
	newest, err := log.Declare(ctx, own)
	// What is to have changed in the future was changed where a clock is wrong: no declaration could be newer.
	if err != nil || !own.Outdated(newest) || newest.Changed.After(time.Now()) {
		return err
	}
	return fmt.Errorf(
		"%s is not as it is on control host %s, where it was changed at %s, later than here: make them alike; if "+
			"this one is right, `touch` it and try again",
		s.File(config.File),
		newest.Host,
		newest.Changed.UTC().Format(time.RFC3339),
	)
}

// Declaration is what this host works with.
func (s Site) Declaration() (reconfigure.Declaration, error) {
	text, err := os.ReadFile(s.File(config.File))
	if err != nil {
		return reconfigure.Declaration{}, err
	}
	info, err := os.Stat(s.File(config.File))
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

// Told is the nodes that Terraform was last told of.
func (s Site) Told(ctx context.Context) (told snapshot.Snapshot, err error) {
	err = s.IfJournal(ctx, func(log *journal.Journal) error {
		nodes := s.NodeMap(log)
		told.Desired, _, err = nodes.Read(ctx)
		return err
	})
	return told, err
}

// SiteFiles returns which of the site's own files some compute nodes get. The error names the nodes that no group
// declares, or every problem of the files' names.
func (s Site) SiteFiles(nodes nodeset.NodeSet) (sitefiles.Table, error) {
	if unknown := nodes.Difference(s.Cluster.Nodes()); !unknown.Empty() {
		return nil, fmt.Errorf("no node group in %s declares %s", config.File, unknown)
	}
	files, err := sitefiles.Read(s.Dir)
	return files.Of(nodes), err
}
