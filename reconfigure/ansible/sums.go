package ansible

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/nodeset"
	"github.com/eiffel-hpc/eiffel/reconfigure/sitefiles"
)

// systemHostKey is the control host's public key, which the nodes get if the declaration has none.
const systemHostKey = "/etc/ssh/ssh_host_ed25519_key.pub"

// hostKey is systemHostKey, except in tests.
var hostKey = systemHostKey

// Sums returns a checksum for each node over all inputs of the playbooks for it: the playbooks, Slurm's scripts and
// the variables in the cluster directory, the control host's key, the files that the control node gives, the
// addresses of all nodes, and the instance with its image. If several control hosts share a journal, the files that
// the control node gives are left out: the caller MUST forget all sums before a run that changes the control node.
// Sums reads the files once for all nodes, and may be called while the playbooks run.
func (r *Runner) Sums(
	c reconfigure.Cluster, instances map[string]reconfigure.Instance, nodes nodeset.NodeSet,
) (map[string]string, error) {
	if c.Attached() {
		return map[string]string{}, nil // the site may change its files at any time, so the playbooks always run
	}
	site, err := sitefiles.Read(r.Dir)
	if err != nil {
		return nil, err
	}
	common := sha256.New()
	addresses := newInventory(c, instances, nil).groups[groupCluster].Vars
	if err := json.NewEncoder(common).Encode([]any{addresses, instances[c.Control.Name].ID, r.Command}); err != nil {
		return nil, fmt.Errorf("checksum of the inventory: %w", err)
	}
	inputs := []string{filepath.Join(r.program(), "ansible"), filepath.Join(r.program(), "slurmscripts")}
	for _, name := range []string{"group_vars", "host_vars", "all.yml"} {
		inputs = append(inputs, filepath.Join(r.Dir, name))
	}
	if r.Program != "" {
		inputs = append(inputs, filepath.Join(r.Dir, "ansible"))
	}
	inputs = append(inputs, givenFile(c.Settings.StateDir), hardwareFile(c.Settings.StateDir), hostKey)
	for _, path := range inputs {
		if err := addFiles(common, path); err != nil {
			return nil, fmt.Errorf("checksum of the playbooks: %w", err)
		}
	}
	shared := common.Sum(nil)
	sums := map[string]string{}
	for node := range nodes.All() {
		i := instances[node]
		files := fmt.Sprint(siteFiles(site, node)) // their modes; addFiles has added their contents with the playbooks
		own := sha256.Sum256(append(slices.Clone(shared), node+"\n"+i.ID+"\n"+i.Made.ImageID+"\n"+i.Address+files...))
		sums[node] = hex.EncodeToString(own[:])
	}
	return sums, nil
}

// addFiles adds the names and the contents of all files below a path to a checksum, in the order of their names, which
// do not depend on where the path is. The path need not exist. Python's caches are left out, since a run writes them. A
// link to a folder must not lead out of the path.
func addFiles(sum io.Writer, path string) error {
	root, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	fmt.Fprintln(sum, filepath.Base(path))
	return filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "__pycache__" {
			return filepath.SkipDir
		}
		if entry.IsDir() {
			return nil
		}
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			return err
		}
		if strings.HasPrefix(real, root+string(filepath.Separator)) && real != file {
			// The walk visits that itself.
			_, err = fmt.Fprintf(sum, "%s is %s\n", strings.TrimPrefix(file, root), strings.TrimPrefix(real, root))
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "%s %d\n%s", strings.TrimPrefix(file, root), len(content), content)
		return err
	})
}
