package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure/assets"
	"github.com/eiffel-hpc/eiffel/reconfigure/backup"
	"github.com/eiffel-hpc/eiffel/reconfigure/journal"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/process"
	"github.com/eiffel-hpc/eiffel/reconfigure/terraform"
)

// The folders of a backup.
const (
	BackupSite  = "site"        // files of the cluster directory
	BackupState = "state"       // files of the state directory
	BackupKey   = "private_key" // the file of the key that the login user accepts
)

// notOwn are the folders of a cluster directory that have no files of the site.
var notOwn = []string{"bin", "dist", "state"}

// ofRepository are the files and folders in the top folder of a checkout, besides those with files of the site.
var ofRepository = []string{
	".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "go.mod", "go.sum",
	"bench", "cmd", "docs", "lab", "reconfigure", "slurmscripts", "systemd",
}

// stateMembers are the files of the state directory that nothing else has, besides the journal.
var stateMembers = []string{
	"slurm_key", "slurm_key.pub", "ansible/given.json", "ansible/hardware.json", "ansible/measured.json",
}

// Members returns the files of a backup, without the journal: the declaration, what is the site's own, secrets and
// states. What the program writes from these and from the journal is not among them. A state is never newer than a copy
// of the journal that is made afterwards, as after a kill of Terraform. Others may work meanwhile.
func (s Site) Members(ctx context.Context) ([]backup.Member, error) {
	var all []backup.Member
	if !s.Provider.Existing {
		states, err := terraform.LocalStates(ctx, s.RootModule())
		if err != nil {
			return nil, err
		}
		for name, text := range states {
			path := filepath.ToSlash(filepath.Join(BackupSite, "terraform", s.Provider.Name, name))
			all = append(all, backup.Member{Path: path, Mode: 0o600, Content: text})
		}
	}
	own, err := s.ownFiles()
	if err != nil {
		return nil, err
	}
	for _, path := range own {
		if all, err = appendFile(all, s.File(path), BackupSite+"/"+filepath.ToSlash(path)); err != nil {
			return nil, err
		}
	}
	for _, path := range stateMembers {
		if all, err = appendFile(all, s.StateFile(filepath.FromSlash(path)), BackupState+"/"+path); err != nil {
			return nil, err
		}
	}
	if all, err = appendFile(all, s.Cluster.PrivateKeyFile, BackupKey); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b backup.Member) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// appendFile adds a file, if it exists.
func appendFile(all []backup.Member, from, path string) ([]backup.Member, error) {
	text, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(from)
	if err != nil {
		return nil, err
	}
	return append(all, backup.Member{Path: path, Mode: info.Mode().Perm(), Content: text}), nil
}

// ownFiles returns the paths, in the cluster directory, of the site's own files.
func (s Site) ownFiles() ([]string, error) {
	var own []string
	err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == s.Dir {
			return err
		}
		rel, err := filepath.Rel(s.Dir, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && !s.hasOwnFiles(rel):
			return fs.SkipDir
		case d.IsDir() || !s.isOwn(rel):
			return nil
		}
		info, err := os.Stat(path) // a link may point to a secret elsewhere
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		if text, ours := assets.Files()[filepath.ToSlash(rel)]; ours && s.Checkout() {
			is, err := os.ReadFile(path)
			if err != nil || string(is) == text {
				return err
			}
		}
		own = append(own, rel)
		return nil
	})
	return own, err
}

// hasOwnFiles reports whether a folder of the cluster directory may have files of the site.
func (s Site) hasOwnFiles(rel string) bool {
	top, rest, _ := strings.Cut(rel, string(filepath.Separator))
	name := filepath.Base(rel)
	switch {
	case strings.HasPrefix(name, ".") || name == "testdata" || name == "__pycache__":
		return false
	case top == "terraform":
		kind, deeper, _ := strings.Cut(rest, string(filepath.Separator))
		return !slices.Contains(Kinds(), kind) || deeper == "" ||
			s.Checkout() && !strings.HasPrefix(deeper, "terraform.tfstate.d") && !strings.HasPrefix(deeper, "nodes")
	}
	return s.File(rel) != s.Cluster.Settings.StateDir && !slices.Contains(notOwn, top) &&
		!(s.Checkout() && slices.Contains(ofRepository, top))
}

// isOwn reports whether a file, in a folder that may have files of the site, may be one.
func (s Site) isOwn(rel string) bool {
	name := filepath.Base(rel)
	dir, _, nested := strings.Cut(rel, string(filepath.Separator))
	made := strings.Contains(name, ".tfstate") || strings.HasSuffix(name, ".auto.tfvars.json") ||
		strings.HasPrefix(name, ".all.yml") || strings.HasSuffix(name, ".go")
	switch {
	case made:
		return false
	case nested && dir == "terraform" && s.inRootModule(rel) && !s.Checkout():
		return name == ".terraform.lock.hcl"
	case nested:
		return !s.Checkout() || name != "README.md"
	case s.Checkout() && slices.Contains(ofRepository, name):
		return false
	}
	return name != "inventory.json" && name != locationFile
}

func (s Site) inRootModule(rel string) bool {
	return slices.ContainsFunc(Kinds(), func(kind string) bool {
		return strings.HasPrefix(rel, filepath.Join("terraform", kind)+string(filepath.Separator))
	})
}

// HasState returns a file of a cluster in a cluster directory into which a backup is to be restored: its journal, a
// state of Terraform or a map of nodes; empty if there is none but those in except.
func HasState(dir, stateDir string, except map[string]bool) (string, error) {
	var patterns []string
	for _, name := range []string{
		journal.FileName, journal.FileName + "-wal", journal.FileName + "-shm", terraform.NodeMapFile,
	} {
		patterns = append(patterns, filepath.Join(stateDir, name))
	}
	for _, kind := range Kinds() {
		module := filepath.Join(dir, "terraform", kind)
		patterns = append(patterns, filepath.Join(module, "terraform.tfstate"), filepath.Join(module, terraform.NodeMapFile),
			filepath.Join(module, "terraform.tfstate.d", "*", "terraform.tfstate"))
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, path := range found {
			if !except[path] {
				return path, nil
			}
		}
	}
	return "", nil
}

// slurmctldFolder is what a shell on the control node prints: the folder in which slurmctld keeps its jobs.
const slurmctldFolder = `scontrol show config | sed -n 's/^StateSaveLocation *= *//p'`

// SaveSlurm writes an archive of the folder in which slurmctld keeps its jobs (StateSaveLocation) to a file, over SSH
// with the login user's key. slurmctld replaces each file in it as a whole, and reads files of different ages. Without
// a control node in Terraform's state it returns false, and writes nothing. It may be retried.
func (a *Adapters) SaveSlurm(ctx context.Context, to string) (bool, error) {
	name := a.Site.Cluster.Control.Name
	state, err := a.State(ctx, nodeset.Of(name))
	if errors.Is(err, terraform.ErrNotInitialized) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	control, there := state.Instances[name]
	if !there || control.Address == "" {
		return false, nil
	}
	known := a.Site.knownHostsFile()
	if err := a.Site.KnownHosts(a.Journal).Refresh(ctx); err != nil {
		return false, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, err
	}
	defer out.Close()
	// tar's exit code is 1 if a file was replaced while it was read; the new one is as good.
	const save = `folder=$(` + slurmctldFolder + `); [ -n "$folder" ] || exit 2; sudo -n tar --create --gzip ` +
		`--directory "$folder" --warning=no-file-changed --warning=no-file-removed --ignore-failed-read . || [ $? = 1 ]`
	argv := append(known.Command(a.Site.Cluster.LoginUser, control.Address, a.Site.Cluster.PrivateKeyFile), save)
	var said bytes.Buffer
	if err := Run(ctx, process.Cmd{Path: argv[0], Args: argv[1:], Stdout: out, Stderr: &said}); err != nil {
		return false, fmt.Errorf("read slurmctld's jobs on %s: %w: %s", name, err, bytes.TrimSpace(said.Bytes()))
	}
	return true, out.Close()
}
