package check

import (
	"fmt"
	"io/fs"
	"strings"
)

// Role is the purpose of a file.
type Role string

// The roles.
const (
	Checkout       Role = "the cluster directory"
	Executable     Role = "the program that Slurm's calls start"
	Declaration    Role = "the declaration"
	Credentials    Role = "the cloud's credentials"
	PrivateKey     Role = "the private key for the nodes"
	StateDirectory Role = "the state directory"
	JournalFile    Role = "the journal"
	GivenFile      Role = "a copy of the munge key"
	KeyFile        Role = "the keys that may log in here"
	Home           Role = "the home of the user whom Slurm calls"
)

// File is a file or a folder of the control host.
type File struct {
	Path    string
	Role    Role
	Missing bool
	Mode    fs.FileMode
	UID     int
}

// The bits of a mode that give others any permission, and those that let them write.
const (
	others  fs.FileMode = 0o077
	writers fs.FileMode = 0o022
)

// rule is the requirements for a file of a role.
type rule struct {
	forbidden fs.FileMode
	why       string
	required  bool // the file must exist
	system    bool // root may own it too
}

func rules() map[Role]rule {
	const control = "anyone who can write it controls the cluster and the account of its owner"
	return map[Role]rule{
		Checkout:    {forbidden: writers, why: control, required: true},
		Executable:  {forbidden: writers, why: control, required: true, system: true},
		Declaration: {forbidden: writers, why: control, required: true},
		Credentials: {
			forbidden: others,
			why:       "anyone who can read it can do everything in the project",
			required:  true,
			system:    true,
		},
		PrivateKey: {
			forbidden: others,
			why:       "anyone who can read it is root on all nodes, and ssh refuses to use it",
			required:  true,
		},
		StateDirectory: {forbidden: others, why: "it has the journal, logs and a copy of the munge key"},
		JournalFile:    {forbidden: writers, why: "it decides about all changes to the cluster"},
		GivenFile:      {forbidden: others, why: "with the munge key, a program can act as any user in Slurm"},
		KeyFile: {
			forbidden: writers,
			why:       "anyone who can write it can log in here, and sshd ignores such a file (StrictModes)",
		},
		Home: {
			forbidden: writers,
			why:       "anyone who can write it can log in here, and sshd accepts no key of its user (StrictModes)",
		},
	}
}

// files checks owners and modes.
func files(facts Facts) (found []Finding) {
	for _, f := range facts.Files {
		r := rules()[f.Role]
		add := func(what, why, change string) {
			found = append(found, Finding{Check: "files", Severity: Error, What: what, Why: why, Change: change})
		}
		switch {
		case f.Missing && r.required:
			add(
				fmt.Sprintf("%s, %s, does not exist", f.Path, f.Role),
				"nothing works without it",
				"make it; see docs/start/install.md",
			)
		case f.Missing:
		case f.UID != facts.UID && (f.UID != 0 || !r.system):
			add(
				fmt.Sprintf("%s, %s, belongs to uid %d, not to uid %d, the owner of the cluster directory",
					f.Path, f.Role, f.UID, facts.UID),
				"Slurm's calls run as the owner of the cluster directory, and the other owner can replace the file",
				fmt.Sprintf("chown %d %s", facts.UID, f.Path),
			)
		}
		if f.Role == Checkout && !f.Missing && f.UID == 0 {
			found = append(found, Finding{
				Check: "files", Severity: Warning,
				What:   fmt.Sprintf("%s, %s, belongs to root", f.Path, f.Role),
				Why:    "Terraform, Ansible and their plugins then run as root, but do not need root's rights",
				Change: "give it to the user in control_host.user: step 1 of docs/start/install.md",
			})
		}
		if bad := f.Mode.Perm() & r.forbidden; !f.Missing && bad != 0 {
			add(fmt.Sprintf("%s, %s, has mode %04o", f.Path, f.Role, f.Mode.Perm()), r.why,
				fmt.Sprintf("chmod %s %s", taken(bad), f.Path))
		}
	}
	return found
}

// taken returns the mode for chmod(1) that removes these permissions.
func taken(bits fs.FileMode) string {
	var parts []string
	for _, who := range []struct {
		name  string
		shift int
	}{{"g", 3}, {"o", 0}} {
		letters := ""
		for i, letter := range []string{"x", "w", "r"} {
			if bits>>who.shift&(1<<i) != 0 {
				letters = letter + letters
			}
		}
		if letters != "" {
			parts = append(parts, who.name+"-"+letters)
		}
	}
	return strings.Join(parts, ",")
}

// FileSystem is a file system that has files of the tool.
type FileSystem struct {
	Path    string // one of its folders
	Free    uint64 // bytes that are free to the caller
	Files   uint64 // inodes that are free
	Network bool   // it is NFS or another network file system
	Journal bool   // the journal is on it, as a file
}

// disks checks the free space on the control host's file systems, and where the journal is.
func disks(facts Facts) (found []Finding) {
	const (
		mib      = 1 << 20
		least    = 200 * mib
		enough   = 2048 * mib
		fewFiles = 10000
	)
	for _, f := range facts.FileSystems {
		finding := Finding{
			Check: "disk", Severity: Warning,
			What:   fmt.Sprintf("%d MiB and %d inodes are free at %s", f.Free/mib, f.Files, f.Path),
			Why:    "on a full disk no request can be stored, and Terraform loses its state",
			Change: "free space, or declare another reconfigure.state_directory; reconfigure.keep_days limits what is kept",
		}
		switch {
		case f.Free < least:
			finding.Severity = Error
			found = append(found, finding)
		case f.Free < enough, f.Files < fewFiles && f.Files > 0:
			found = append(found, finding)
		}
		if f.Network && f.Journal {
			found = append(found, Finding{
				Check: "disk", Severity: Error,
				What:   fmt.Sprintf("the journal is a file on a network file system, at %s", f.Path),
				Why:    "SQLite's locks and shared memory do not work there: requests and the lease may be lost",
				Change: "declare a reconfigure.state_directory on a local disk, or reconfigure.journal in PostgreSQL",
			})
		}
	}
	return found
}

// siteFiles reports invalid and ambiguous names in ansible/files/site.
func siteFiles(f Facts) []Finding {
	if f.SiteFiles == "" {
		return nil
	}
	return []Finding{{
		Check: "files", Severity: Error, What: f.SiteFiles, Why: "no node can be configured",
		Change: "rename or remove these files; docs/guides/sitefiles.md has the form of the names",
	}}
}
