package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/backup"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// BackupOptions say where a backup is written, and how.
type BackupOptions struct {
	// To is the file, or a folder, in which the file is named after the cluster and the time.
	To         string
	Recipients []string // public keys of age; none: it is not encrypted
	Keep       int      // how many backups of the cluster stay in a folder; 0: all
}

// BackedUp is the result of a backup.
type BackedUp struct {
	File     string    `json:"file"`
	Time     time.Time `json:"time"`
	Files    int       `json:"files"`
	Database string    `json:"database,omitempty"` // the journal, if it is not in the backup
	States   bool      `json:"states"`             // Terraform's states are in the backup
	Removed  []string  `json:"removed,omitempty"`  // older backups
	Slurm    bool      `json:"slurm"`              // slurmctld's jobs are in the backup
	// NoSlurm is why they are not, if there is a control node.
	NoSlurm string `json:"no_slurm,omitempty"`
}

// slurmMember is an archive of the folder in which slurmctld keeps its jobs. The playbooks do not look there: only an
// administrator knows whether it is the newest one.
const slurmMember = site.BackupState + "/slurm/slurmctld.tar.gz"

const journalMember = site.BackupState + "/" + journal.FileName

// Backup writes a backup of a site. Others may work meanwhile. The file is complete, or it is not there.
func Backup(ctx context.Context, s site.Site, o BackupOptions) (BackedUp, error) {
	var done BackedUp
	recipients, err := backup.Recipients(o.Recipients)
	if err != nil {
		return done, err
	}
	host, err := os.Hostname()
	if err != nil {
		return done, err
	}
	now := time.Now().UTC()
	done.Time = now
	if done.File, err = filepath.Abs(o.To); err != nil {
		return done, err
	}
	folder, isFolder := filepath.Dir(done.File), false
	if info, err := os.Stat(done.File); err == nil && info.IsDir() {
		folder, isFolder = done.File, true
		done.File = filepath.Join(folder, backupName(s.Cluster.Name, now, len(recipients) > 0))
	}
	if within, err := filepath.EvalSymlinks(folder); err != nil {
		return done, err
	} else if rel, err := filepath.Rel(s.Dir, within); err == nil && filepath.IsLocal(rel) {
		return done, fmt.Errorf("%s is in the cluster directory, and would be lost with it: choose a place on another "+
			"host or disk", done.File)
	}
	m := backup.Manifest{
		Program: Version().String(), Cluster: s.Cluster.Name, Time: now, Host: host, Directory: s.Dir,
		StateDirectory: backup.Portable(s.Cluster.Settings.StateDir, s.Dir, ""),
		PrivateKey:     backup.Portable(s.Cluster.PrivateKeyFile, s.Dir, homeOfUser()),
	}
	// The states come first: a journal that is newer than a state is what a kill of Terraform leaves.
	members, err := s.Members(ctx)
	if err != nil {
		return done, err
	}
	done.States = slices.ContainsFunc(members, func(m backup.Member) bool { return strings.HasSuffix(m.Path, ".tfstate") })
	if err := site.RemoveAbandoned(folder, scratchPrefix, 24*time.Hour); err != nil {
		return done, err
	}
	scratch, err := os.MkdirTemp(folder, scratchPrefix)
	if err != nil {
		return done, err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // a private folder with a copy
	err = s.IfJournal(ctx, func(log *journal.Journal) error {
		if log == nil {
			return nil
		}
		adapters := s.Readers(log, slog.New(slog.DiscardHandler))
		defer adapters.Close()
		saved := filepath.Join(scratch, "slurmctld.tar.gz")
		var failed error
		if done.Slurm, failed = adapters.SaveSlurm(ctx, saved); done.Slurm {
			members = append(members, backup.Member{Path: slurmMember, Mode: 0o600, From: saved})
		} else if failed != nil {
			done.NoSlurm = failed.Error() // the rest is worth a backup
		}
		identity, err := log.Identity(ctx)
		if err != nil {
			return err
		}
		m.ClusterID = identity.ID
		copied := filepath.Join(scratch, journal.FileName)
		err = log.Copy(ctx, copied)
		if errors.Is(err, journal.ErrDatabase) {
			done.Database = log.Name()
			return nil
		}
		if err != nil {
			return err
		}
		members = append(members, backup.Member{Path: journalMember, Mode: 0o600, From: copied})
		m.Schema, err = journal.NewestSchema()
		return err
	})
	if err != nil {
		return done, err
	}
	if m, err = backup.Write(done.File, m, members, recipients); err != nil {
		return done, err
	}
	done.Files = len(m.Files)
	if isFolder && o.Keep > 0 {
		done.Removed, err = pruneBackups(folder, s.Cluster.Name, o.Keep)
	}
	return done, err
}

// The folders of backups and restores that were killed have these prefixes.
const (
	scratchPrefix = ".backup-"
	stagedPrefix  = ".restore-"
)

const backupTime = "20060102T150405Z"

func backupName(cluster string, at time.Time, encrypted bool) string {
	name := cluster + "-" + at.Format(backupTime) + ".tar.gz"
	if encrypted {
		name += ".age"
	}
	return name
}

// pruneBackups removes all backups of a cluster in a folder but the newest ones, by the times in their names.
func pruneBackups(folder, cluster string, keep int) (removed []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	ours := regexp.MustCompile(`^` + regexp.QuoteMeta(cluster) + `-\d{8}T\d{6}Z\.tar\.gz(\.age)?$`)
	var names []string
	for _, e := range entries {
		if ours.MatchString(e.Name()) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	for _, name := range names[:max(0, len(names)-keep)] {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}

// homeOfUser returns the home of the user; empty if it is unknown.
func homeOfUser() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}

// RestoredSite is the result of a restore.
type RestoredSite struct {
	Directory string          `json:"directory"`
	Manifest  backup.Manifest `json:"manifest"`
	Cancelled int64           `json:"cancelled"` // requests that had no outcome in the backup
}

// NotNowError is the error of a command that must not be carried out as the cluster is now. Nothing was changed.
type NotNowError struct{ why string }

func (e *NotNowError) Error() string { return e.why }

func refuse(format string, args ...any) error { return &NotNowError{fmt.Sprintf(format, args...)} }

// Restore writes the files of a backup into a cluster directory without a journal and without states, and makes the
// directory if it is missing. Files that are there with the same content stay; with another content they are a refusal.
// Nothing is written before all checksums were compared. The journal comes last: after a kill, Restore may be repeated.
// In the journal a pause has begun, and no request is left without an outcome, see journal.Restored.
func Restore(ctx context.Context, dir, file, identity string) (done RestoredSite, err error) {
	if done.Directory, err = filepath.Abs(dir); err != nil {
		return done, err
	}
	dir = done.Directory
	if _, err := os.Stat(file); err != nil {
		return done, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return done, err
	}
	defer os.Remove(dir) //nolint:errcheck // only if it is empty, since nothing was restored
	if err := site.RemoveAbandoned(dir, stagedPrefix, 0); err != nil {
		return done, err
	}
	staged, err := os.MkdirTemp(dir, stagedPrefix)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staged)) }()
	m, err := backup.Extract(file, identity, staged)
	if err != nil {
		return done, err
	}
	done.Manifest = m
	places, err := placesOf(m, dir, staged)
	if err != nil {
		return done, err
	}
	if err := mayRestore(m, dir, places); err != nil {
		return done, err
	}
	if m.Schema > 0 {
		if done.Cancelled, err = restoreJournal(ctx, filepath.Join(staged, site.BackupState), m.Time); err != nil {
			return done, err
		}
	}
	state := backup.Absolute(m.StateDirectory, dir, "")
	release, ok, err := journal.Exclude(ctx, state) // a service may be enabled already
	if err != nil {
		return done, err
	} else if !ok {
		return done, workerRuns(dir)
	}
	defer func() { err = errors.Join(err, release()) }()
	for _, p := range places {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		if err := p.put(); err != nil {
			return done, err
		}
	}
	return done, nil
}

// place is where a file of a backup goes.
type place struct {
	from, to string
	mode     fs.FileMode
	secret   bool // its folder is for its owner only
}

// placesOf returns the places of all files of a backup, that of the journal last.
func placesOf(m backup.Manifest, dir, staged string) ([]place, error) {
	state := backup.Absolute(m.StateDirectory, dir, "")
	var all []place
	for _, f := range m.Files {
		top, rest, _ := strings.Cut(f.Path, "/")
		p := place{from: filepath.Join(staged, filepath.FromSlash(f.Path)), mode: fs.FileMode(f.Mode).Perm()}
		switch top {
		case site.BackupSite:
			p.to = filepath.Join(dir, filepath.FromSlash(rest))
		case site.BackupState:
			p.to, p.secret = filepath.Join(state, filepath.FromSlash(rest)), true
		case site.BackupKey:
			p.to, p.secret = backup.Absolute(m.PrivateKey, dir, homeOfUser()), true
		default:
			return nil, refuse("the backup has %s, which this reconfigure does not know: use reconfigure %s, which wrote it",
				f.Path, m.Program)
		}
		all = append(all, p)
	}
	last := func(p place) int {
		if filepath.Base(p.from) == journal.FileName {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(last(a), last(b)) })
	return all, nil
}

func workerRuns(dir string) error {
	return refuse("a worker of %s runs: end it first, for example by `systemctl stop` of its service", dir)
}

// mayRestore returns a refusal if the directory has a cluster, or the backup needs a newer program.
func mayRestore(m backup.Manifest, dir string, places []place) error {
	newest, err := journal.NewestSchema()
	if err != nil {
		return err
	}
	if m.Schema > newest {
		return refuse("the backup's journal has the schema %d, and this reconfigure knows versions up to %d: use "+
			"reconfigure %s, which wrote it, or a newer one", m.Schema, newest, m.Program)
	}
	state := backup.Absolute(m.StateDirectory, dir, "")
	if held, err := journal.Held(state); err != nil {
		return err
	} else if held {
		return workerRuns(dir)
	}
	mine := map[string]bool{}
	for _, p := range places {
		mine[p.to] = filepath.Base(p.to) != journal.FileName
	}
	found, err := site.HasState(dir, state, mine)
	if err != nil {
		return err
	}
	if found != "" {
		return refuse("%s exists, so the directory has a cluster: restore into another directory, or move %s away if you "+
			"are certain that the backup is better", found, found)
	}
	var differ []string
	for _, p := range places {
		same, err := p.compare()
		if err != nil {
			return err
		}
		if !same {
			differ = append(differ, p.to)
		}
	}
	if len(differ) > 0 {
		return refuse("these files exist with another content than in the backup: move them away first: %s",
			strings.Join(differ, ", "))
	}
	return nil
}

// compare reports whether the file is missing at its place, or has the same content.
func (p place) compare() (bool, error) {
	is, err := os.ReadFile(p.to)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(p.from)
	return bytes.Equal(is, text), err
}

func (p place) put() error {
	if _, err := os.Lstat(p.to); err == nil {
		if same, err := p.compare(); same || err != nil {
			return err
		}
		return fmt.Errorf("%s was written meanwhile, and stays: end the commands and services that use the directory, move "+
			"the file away, and restore again", p.to)
	}
	mode := fs.FileMode(0o755)
	if p.secret {
		mode = 0o700
	}
	if err := os.MkdirAll(filepath.Dir(p.to), mode); err != nil {
		return err
	}
	in, err := os.Open(p.from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := renameio.NewPendingFile(p.to, renameio.WithPermissions(p.mode), renameio.IgnoreUmask())
	if err != nil {
		return err
	}
	defer out.Cleanup() //nolint:errcheck // the file is in its place, or the error is returned
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.CloseAtomicallyReplace()
}

// restoreJournal prepares the journal in a folder.
func restoreJournal(ctx context.Context, dir string, at time.Time) (cancelled int64, err error) {
	log, err := journal.Open(ctx, dir)
	if err != nil {
		return 0, err
	}
	cancelled, err = log.Restored(ctx, at)
	return cancelled, errors.Join(err, log.Close()) // the last one that closes it empties its log
}
