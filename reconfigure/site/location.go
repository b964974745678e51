package site

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// locationFile is in the cluster directory.
const locationFile = ".reconfigure.json"

// Location is the place of the journal, as it was declared when the last request was made. Slurm asks only once, and
// the declaration may be broken at that moment: saved with a mistake, or replaced by a checkout. Searching the broken
// file for state_directory would work for some mistakes only, and a wrong result would put the request into a journal
// that no worker reads. The worker retries until the declaration can be read again.
type Location struct {
	StateDirectory string `json:"state_directory"`   // absolute
	Journal        string `json:"journal,omitempty"` // if it is not in the state directory
	// Worker says who starts a worker. Without it, a call could start one in addition to systemd's service.
	Worker reconfigure.WorkerStart `json:"worker,omitempty"`
}

func (s Site) Location() Location {
	return Location{
		StateDirectory: s.Cluster.Settings.StateDir,
		Journal:        s.Cluster.Settings.Journal,
		Worker:         s.Cluster.Settings.Worker,
	}
}

// SameJournal reports whether two locations have the same journal.
func (l Location) SameJournal(other Location) bool {
	return l.StateDirectory == other.StateDirectory && l.Journal == other.Journal
}

// Remember stores the location of the journal, unless it is stored already.
func (s Site) Remember() error {
	text, err := json.Marshal(s.Location())
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if was, err := os.ReadFile(s.File(locationFile)); err == nil && string(was) == string(text) {
		return nil
	}
	if err := renameio.WriteFile(s.File(locationFile), text, 0o600); err != nil {
		return fmt.Errorf(
			"remember the state directory for when %s cannot be read: %w",
			s.DeclarationFile(),
			err,
		)
	}
	return nil
}

// Recall returns a Site that knows only its journal and who starts a worker. If no location was ever stored, the
// error is an fs.ErrNotExist.
func Recall(dir string) (Site, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Site{}, err
	}
	s := Site{Dir: dir}
	content, err := os.ReadFile(s.File(locationFile))
	if err != nil {
		return Site{}, err
	}
	var w Location
	if err := json.Unmarshal(content, &w); err != nil {
		return Site{}, fmt.Errorf("%s: %w", s.File(locationFile), err)
	}
	if !filepath.IsAbs(w.StateDirectory) {
		return Site{}, fmt.Errorf("%s: state_directory %q is no absolute path", s.File(locationFile), w.StateDirectory)
	}
	s.Cluster.Settings = reconfigure.Settings{StateDir: w.StateDirectory, Journal: w.Journal, Worker: w.Worker}
	return s, nil
}
