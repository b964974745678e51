package client

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure/config"
	"github.com/eiffel-hpc/eiffel/reconfigure/site"
)

// NewSite has the values of a new site folder's declaration. PublicKey may be empty.
type NewSite struct {
	Name, Cloud, Address, Image, Network, LoginUser, PublicKey string
	Flavors                                                    [2]string // of the two node groups
}

// Declaration returns all.yml: two node groups and two partitions.
func (n NewSite) Declaration() string {
	key := ""
	if n.PublicKey != "" {
		key = fmt.Sprintf("key_pair: {public_key: %s}\n", quoted(n.PublicKey))
	}
	return fmt.Sprintf("# The declaration of the cluster. `reconfigure status` checks it; docs/reference/declaration.md has "+
		"all keys.\n"+`cluster_name: %s
cloud: %s
control_host: {address: %s}
control_node: {image: %s, flavor: %s, network: %s}
login_user: %s
%s
# The nodes small001 to small010 and large001 to large010 have instances while jobs need them.
node_groups:
  - {name: small, flavor: %s, max_nodes: 10}
  - {name: large, flavor: %s, max_nodes: 10}

partitions:
  - {name: small, groups: [small], default: true}
  - {name: large, groups: [large]}
`, quoted(n.Name), quoted(n.Cloud), quoted(n.Address), quoted(n.Image), quoted(n.Flavors[0]), quoted(n.Network),
		quoted(n.LoginUser), key, quoted(n.Flavors[0]), quoted(n.Flavors[1]))
}

// plainText matches text that needs no quotes, unless otherType matches.
var plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)

// otherType matches plain text that some YAML reads as another type.
var otherType = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null)$`)

// quoted returns a text for YAML, in quotes unless it is plain for certain.
func quoted(text string) string {
	if plainText.MatchString(text) && !otherType.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

const readmeOfSite = `# The Slurm cluster %s

` + "`all.yml`" + ` declares the cluster. Keep this folder in git: .gitignore leaves out what is secret or local.

| file | whose |
|---|---|
| all.yml | yours; reconfigure changes only min_nodes in it, and says so |
| terraform/*.tf | yours: further resources |
| ansible/ | yours: the roles site_control and site_compute, files/site for the nodes, group_vars |
| clouds.yaml | yours, secret |
| state/, terraform/*/, inventory.json | reconfigure's: journal, logs, the program's files, Terraform's states |

Not all of it is in git: reconfigure backup FILE writes a backup.

    reconfigure check       # what is unsafe, or cannot work
    reconfigure deploy      # make the cluster
    reconfigure status      # what there is
`

// ignored returns .gitignore.
func ignored() string {
	lines := []string{"# secret or local; clouds.yaml and the like are secret", "/*.yaml", "/state/", "/bin/",
		"/inventory.json", "/.reconfigure.json", "/.all.yml*", ".terraform/", "*.tfstate", "*.tfstate.*"}
	for _, kind := range site.Kinds() {
		// Terraform's checksums of its providers may be kept in git.
		lines = append(lines, "/"+kind+".*", "/terraform/"+kind+"/*", "!/terraform/"+kind+"/.terraform.lock.hcl")
	}
	return strings.Join(lines, "\n") + "\n"
}

// ErrSiteExists is the error for a folder that has a declaration.
var ErrSiteExists = errors.New("it has a declaration already")

// CheckNewSite returns an ErrSiteExists if a folder has a declaration.
func CheckNewSite(dir string) error {
	for _, name := range []string{config.SiteFile, config.File} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("%s: %w: %s", dir, ErrSiteExists, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// step is called before each change of the file system, for tests.
var step = func() {}

// MakeSite writes the files of a new site folder; the folder may be there. The declaration is the last of them: a
// killed call leaves none, and may be repeated. Files that are there stay as they are: their names are returned. If the
// values do not give a valid declaration, the error is a *config.Problems, and nothing is written.
func MakeSite(dir string, n NewSite) (kept []string, err error) {
	if err := CheckNewSite(dir); err != nil {
		return nil, err
	}
	declaration := n.Declaration()
	there := dir
	for !exists(there) && there != "/" { // its owner is that of the new folder
		there = filepath.Dir(there)
	}
	if err := config.Check(there, []byte(declaration)); err != nil {
		return nil, err
	}
	if kept, err = writeShared(dir, n.Name); err != nil {
		return kept, err
	}
	return kept, writeNew(filepath.Join(dir, config.SiteFile), declaration)
}

// writeShared makes a site folder with .gitignore and README.md, and returns the names of those that were there with
// another text.
func writeShared(dir, cluster string) (kept []string, err error) {
	step()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, file := range []struct{ name, text string }{
		{".gitignore", ignored()}, {"README.md", fmt.Sprintf(readmeOfSite, cluster)},
	} {
		path := filepath.Join(dir, file.name)
		was, err := os.ReadFile(path)
		if err == nil && string(was) != file.text {
			kept = append(kept, file.name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			step()
			err = renameio.WriteFile(path, []byte(file.text), 0o644)
		}
		if err != nil {
			return kept, err
		}
	}
	return kept, nil
}

// writeNew writes a file that must not exist. The file is whole or does not exist.
func writeNew(path, text string) error {
	step()
	file, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if err != nil {
		return err
	}
	defer file.Cleanup() //nolint:errcheck // the link is made, or the error is returned
	if _, err := file.WriteString(text); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	step()
	err = os.Link(file.Name(), path) // unlike a rename, this fails if the file exists
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: %s", ErrSiteExists, path)
	}
	step()
	return err
}

// LoginUserOf returns the usual login user of an image, by the image's name; empty if it is unknown.
func LoginUserOf(image string) string {
	image = strings.ToLower(image)
	for _, name := range []string{"debian", "ubuntu", "rocky", "almalinux", "fedora"} {
		if strings.Contains(image, name) {
			return name
		}
	}
	return ""
}

// notInName matches what a cluster's name must not have.
var notInName = regexp.MustCompile(`[^a-z0-9_-]+`)

// ClusterNameOf returns a name for the cluster of a folder.
func ClusterNameOf(dir string) string {
	name := notInName.ReplaceAllString(strings.ToLower(filepath.Base(dir)), "-")
	return cmp.Or(strings.Trim(name, "-_"), "cluster")
}
