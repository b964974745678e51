package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
)

// site is a cluster's directory and what it declares.
type site struct {
	dir     string // absolute
	cluster reconfigure.Cluster
	starter reconfigure.WorkerStart // who starts a worker for this call
}

func openSite(dir string) (site, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return site{}, err
	}
	cluster, err := config.Load(dir)
	var problems *config.Problems
	if errors.As(err, &problems) {
		return site{}, fmt.Errorf("%s has %d problem(s):\n%w", filepath.Join(dir, config.File), len(*problems), err)
	}
	if err != nil {
		return site{}, err
	}
	return site{dir: dir, cluster: cluster}, nil
}

func siteOf(c *cli.Context) (site, error) {
	if err := ownedByCaller(directory(c)); err != nil {
		return site{}, usagef(c, "%v", err)
	}
	s, err := openSite(directory(c))
	var file *fs.PathError
	if errors.As(err, &file) && errors.Is(file, fs.ErrNotExist) {
		return s, usagef(
			c,
			"there is no %s, so this is no cluster directory: change into one, or name it by --dir or RECONFIGURE_DIR",
			file.Path,
		)
	}
	if err != nil {
		return s, err
	}
	s.starter, err = starterOf(c, s.cluster.Settings.Worker)
	return s, err
}

// ownedByCaller keeps root from leaving files in somebody else's cluster directory that its owner, and so Slurm's
// calls, could not use any more.
func ownedByCaller(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return nil // what is wrong with the directory is said by whoever opens it
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && os.Getuid() == 0 && owner.Uid != 0 {
		return fmt.Errorf(
			"%s belongs to uid %d: call it as that user, not as root (sudo -u '#%d' …)",
			dir,
			owner.Uid,
			owner.Uid,
		)
	}
	return nil
}

func (s site) file(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

func (s site) state(elem ...string) string {
	return filepath.Join(append([]string{s.cluster.Settings.StateDir}, elem...)...)
}

// journal opens the journal, and makes it where it is not there yet.
func (s site) journal(ctx context.Context) (*journal.Journal, error) {
	if url := s.cluster.Settings.Journal; url != "" {
		return journal.OpenURL(ctx, url)
	}
	return journal.Open(ctx, s.state())
}

// withJournal does something with a site, as one of siteOf and siteAnyway opens it, and its journal.
func withJournal(c *cli.Context, open func(*cli.Context) (site, error), do func(site, *journal.Journal) error) error {
	s, err := open(c)
	if err != nil {
		return err
	}
	log, err := s.journal(c.Context)
	if err != nil {
		return err
	}
	defer log.Close()
	return do(s, log)
}

// ifJournal gives the journal to who only reads: nil where there is none yet. To open a journal makes its file, which
// reading must not do; a database that is declared must be there, so that what is wrong with it shows now.
func (s site) ifJournal(ctx context.Context, do func(log *journal.Journal) error) error {
	if s.cluster.Settings.Journal == "" && !exists(s.state("journal.db")) {
		return do(nil)
	}
	log, err := s.journal(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	return do(log)
}

// cloudsFile is the clouds.yaml of this directory, where it has one; else the usual places are searched.
func (s site) cloudsFile() string {
	if file := s.file("clouds.yaml"); os.Getenv("OS_CLIENT_CONFIG_FILE") == "" && exists(file) {
		return file
	}
	return ""
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// upToDate is an error where another control host has a newer declaration. To plan from this one would undo there
// what was meant. The declaration of this host is made known, so that the others can compare.
func (s site) upToDate(ctx context.Context, log *journal.Journal) error {
	if s.cluster.Settings.Journal == "" {
		return nil // a file of this host's: there is no other one
	}
	own, err := s.declaration()
	if err != nil {
		return err
	}
	newest, err := log.Declare(ctx, own)
	// What is to have changed in the future was changed where a clock is wrong: no declaration could be newer.
	if err != nil || !own.Outdated(newest) || newest.Changed.After(time.Now()) {
		return err
	}
	return fmt.Errorf(
		"%s is not as it is on control host %s, where it was changed at %s, later than here: make them alike; if this one is right, `touch` it and try again",
		s.file(config.File),
		newest.Host,
		newest.Changed.UTC().Format(time.RFC3339),
	)
}

// declaration is what this host works with.
func (s site) declaration() (reconfigure.Declaration, error) {
	text, err := os.ReadFile(s.file(config.File))
	if err != nil {
		return reconfigure.Declaration{}, err
	}
	info, err := os.Stat(s.file(config.File))
	if err != nil {
		return reconfigure.Declaration{}, err
	}
	dir, err := filepath.EvalSymlinks(s.dir)
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

// logger writes for machines: JSON where --json asks for it, else key=value.
func logger(c *cli.Context) *slog.Logger {
	if wantsJSON(c) {
		return slog.New(slog.NewJSONHandler(c.App.ErrWriter, nil))
	}
	return slog.New(slog.NewTextHandler(c.App.ErrWriter, nil))
}
