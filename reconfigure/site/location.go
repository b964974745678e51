package site

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// locationFile stands in the cluster directory.
const locationFile = ".reconfigure.json"

// Location is where requests are written down, as it was declared when somebody last made one. Slurm asks once,
// whatever state the declaration is in at that moment: saved with a slip in it, or replaced by a checkout. To look
// for state_directory in what is left of the file would do for some slips and not for others, and where it went wrong
// the request would be in a journal that no worker reads. The worker tries until the declaration can be read again.
type Location struct {
	StateDirectory string `json:"state_directory"`   // absolute
	Journal        string `json:"journal,omitempty"` // where it is not in the state directory
	// Worker is who starts a worker; one that cannot plan would start all the same, and beside a service of systemd's.
	Worker reconfigure.WorkerStart `json:"worker,omitempty"`
}

func (s Site) Location() Location {
	return Location{
		StateDirectory: s.Cluster.Settings.StateDir,
		Journal:        s.Cluster.Settings.Journal,
		Worker:         s.Cluster.Settings.Worker,
	}
}

// SameJournal reports whether two locations are of one journal.
func (l Location) SameJournal(other Location) bool {
	return l.StateDirectory == other.StateDirectory && l.Journal == other.Journal
}

// Remember writes down where requests are written down, unless it stands there already.
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
			s.File("group_vars", "all.yml"),
			err,
		)
	}
	return nil
}

// Recall is a Site of which nothing is known but where its requests are written down, and who starts a worker. Where
// none ever was, that is an fs.ErrNotExist.
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
