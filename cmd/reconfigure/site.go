package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
	"github.com/eiffel-hpc/eiffel/reconfigure/text"
)

func siteOf(c *cli.Context) (site.Site, error) {
	if err := site.CheckOwner(directory(c)); err != nil {
		return site.Site{}, usagef(c, "%v", err)
	}
	s, err := site.Open(directory(c))
	var file *fs.PathError
	if errors.As(err, &file) && errors.Is(file, fs.ErrNotExist) && filepath.Base(file.Path) == filepath.Base(config.File) {
		dir := filepath.Dir(filepath.Dir(file.Path))
		return s, usagef(c, "there is neither all.yml nor group_vars/all.yml in %s, so this is no cluster directory: change "+
			"into one, name it by --dir or RECONFIGURE_DIR, or make one by `reconfigure init`", dir)
	}
	if err != nil {
		return s, err
	}
	s.Starter, err = starterOf(c, s.Cluster.Settings.Worker)
	return s, err
}

// withJournal calls do with the journal of a site, and creates the journal if there is none. siteOf or siteAnyway opens
// the site.
func withJournal(
	c *cli.Context, open func(*cli.Context) (site.Site, error), do func(site.Site, *journal.Journal) error,
) error {
	s, err := open(c)
	if err != nil {
		return err
	}
	return s.WithJournal(c.Context, func(log *journal.Journal) error { return do(s, log) })
}

// readJournal is withJournal for commands that only read: the journal is nil if there is none.
func readJournal(
	c *cli.Context, open func(*cli.Context) (site.Site, error), do func(site.Site, *journal.Journal) error,
) error {
	s, err := open(c)
	if err != nil {
		return err
	}
	return s.IfJournal(c.Context, func(log *journal.Journal) error { return do(s, log) })
}

// noRequestYet is the output of commands that read a journal when there is none.
const noRequestYet = "No request was made here yet.\n"

// withAdapters calls do with adapters for reading only.
func withAdapters(c *cli.Context, s site.Site, do func(*site.Adapters) error) error {
	return s.IfJournal(c.Context, func(log *journal.Journal) error {
		adapters := s.Readers(log, logger(c))
		defer adapters.Close()
		return do(adapters)
	})
}

// logger writes for machines: JSON where --json asks for it, else key=value.
func logger(c *cli.Context) *slog.Logger {
	if wantsJSON(c) {
		return slog.New(slog.NewJSONHandler(c.App.ErrWriter, nil))
	}
	return slog.New(slog.NewTextHandler(c.App.ErrWriter, nil))
}

// siteAnyway returns the site for commands that need only the journal: it only warns about a declaration that cannot be
// read.
func siteAnyway(c *cli.Context) (site.Site, error) {
	if err := site.CheckOwner(directory(c)); err != nil {
		return site.Site{}, usagef(c, "%v", err)
	}
	if _, err := starterOf(c, ""); err != nil {
		return site.Site{}, err
	}
	s, err := siteOf(c)
	if err == nil {
		return s, nil
	}
	known, unknown := site.Recall(directory(c))
	switch {
	case errors.Is(unknown, fs.ErrNotExist):
		return s, err // this cluster has never had a request
	case unknown != nil:
		return s, errors.Join(err, unknown)
	}
	notes(c).WarnContext(c.Context, "nothing can be planned until all.yml is fixed",
		"reason", text.OneLine(err.Error()))
	known.Starter, err = starterOf(c, known.Cluster.Settings.Worker)
	return known, err
}
