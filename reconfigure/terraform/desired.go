package terraform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Keeper stores the map of nodes and the cluster's id for all control hosts.
type Keeper interface {
	// Name returns the place of the map, for messages.
	Name() string
	// Nodes returns the stored map; false if none was stored yet.
	Nodes(ctx context.Context) (map[string]reconfigure.Spec, bool, error)
	// KeepNodes replaces all entries of a shard in the map, and returns when that is durable. It MUST NOT change
	// other shards, even if they are changed at the same time. It MUST fail for a worker that has lost the lease.
	KeepNodes(ctx context.Context, shard string, nodes map[string]reconfigure.Spec) error
	// AdoptNodes stores a map if none was stored yet; else it does nothing.
	AdoptNodes(ctx context.Context, nodes map[string]reconfigure.Spec) error
	// Identity returns the cluster's id; the zero value if it has none yet.
	Identity(ctx context.Context) (reconfigure.Identity, error)
}

// NodeMap is the map of nodes of the root module in Dir, of all shards. The Keeper has the authoritative map. The
// files in the module's folder are a copy of it, for calls of Terraform by hand, in any workspace: Adopt updates
// them, and so does each change of the map. Terraform parses its variables at each start, which takes a second for
// thousands of nodes; so each shard has its own file. The default shard's file, nodes.auto.tfvars.json, also has the
// variables that are the same in all shards; in older versions it had all shards.
type NodeMap struct {
	Dir string // folder of the root module
	// Keeper may be nil if only the files are read.
	Keeper Keeper
}

// file is the content of a file: the module's variables. Nodes with an instance and kept ports are two variables, so
// that a site's for_each over the nodes has only nodes with an instance.
type file struct {
	// Comment is ignored by Terraform. It identifies the Keeper.
	Comment string `json:"//,omitempty"`
	// Shard is set only in the variables of a run.
	Shard     string                      `json:"shard,omitempty"`
	ClusterID string                      `json:"cluster_id,omitempty"`
	Nodes     map[string]reconfigure.Spec `json:"nodes"`
	KeptPorts map[string]reconfigure.Spec `json:"kept_ports"`
	Shared    shared                      `json:"shared,omitzero"`
}

// shared has the values that the other workspaces take from the default one.
type shared struct {
	SecurityGroupID string `json:"security_group_id,omitempty"`
}

// newFile divides a map of nodes into the module's variables.
func newFile(nodes map[string]reconfigure.Spec) file {
	// Terraform does not accept null as a map.
	none := func() map[string]reconfigure.Spec { return map[string]reconfigure.Spec{} }
	f := file{Nodes: none(), KeptPorts: none()}
	for node, spec := range nodes {
		if spec.HasInstance() {
			f.Nodes[node] = spec
		} else {
			f.KeptPorts[node] = spec
		}
	}
	return f
}

// all returns the map of nodes of the file.
func (f file) all() map[string]reconfigure.Spec {
	all := maps.Clone(f.Nodes)
	maps.Copy(all, f.KeptPorts)
	return all
}

// equal reports whether two files have the same content.
func (f file) equal(other file) bool {
	return f.Comment == other.Comment && f.ClusterID == other.ClusterID && f.Shared == other.Shared &&
		maps.Equal(f.Nodes, other.Nodes) && maps.Equal(f.KeptPorts, other.KeptPorts)
}

// NodeMapFile is the name of the default shard's file.
const NodeMapFile = "nodes.auto.tfvars.json"

// path returns the default shard's file.
func (m NodeMap) path() string { return m.pathOf(reconfigure.DefaultShard) }

// pathOf returns a shard's file.
func (m NodeMap) pathOf(shard string) string {
	if shard == reconfigure.DefaultShard {
		return filepath.Join(m.Dir, NodeMapFile)
	}
	return filepath.Join(m.Dir, shardFolder, shard+shardSuffix)
}

// The files of all shards except the default one.
const (
	shardFolder = "nodes"
	shardSuffix = ".json"
)

// comment returns the mark of the files that were made from the Keeper's map.
func (m NodeMap) comment() string {
	return "Made by reconfigure from " + m.Keeper.Name() + ". Changes to this file are lost."
}

// Read returns the stored map; false if there is none. If the Keeper has no map, Read returns that of the files. If
// the maps differ and the files were not made from the Keeper's map, Read returns an error, since it is unknown which
// of the two is out of date. Read changes nothing.
func (m NodeMap) Read(ctx context.Context) (nodes map[string]reconfigure.Spec, known bool, err error) {
	if m.Keeper != nil {
		if nodes, known, err = m.Keeper.Nodes(ctx); err != nil || known && m.isCopy() {
			return nodes, known, err
		}
	}
	found, there, err := m.read()
	if err != nil {
		return nil, false, err
	}
	if !known {
		nodes = found.all()
		return nodes, there, m.lost(nodes)
	}
	if there && found.Comment != m.comment() && !maps.Equal(found.all(), nodes) {
		return nil, false, &strangerError{m.path(), m.Keeper.Name()}
	}
	return nodes, true, nil
}

// isCopy reports whether the files were made from the Keeper's map. It reads only the first field of one file, since
// files with thousands of nodes take long to read.
func (m NodeMap) isCopy() bool {
	f, err := os.Open(m.path())
	if err != nil {
		return false
	}
	defer f.Close()
	tokens := json.NewDecoder(f)
	for _, want := range []json.Token{json.Delim('{'), "//", m.comment()} {
		if got, err := tokens.Token(); err != nil || got != want {
			return false
		}
	}
	return true
}

// ClusterID returns the cluster's id: the Keeper's or, if the Keeper has neither an id nor a map, the id in the file,
// so that the cluster keeps its id when its journal is moved or lost. It is empty if there is none.
func (m NodeMap) ClusterID(ctx context.Context) (string, error) {
	if m.Keeper != nil {
		if identity, err := m.Keeper.Identity(ctx); err != nil || identity.ID != "" {
			return identity.ID, err
		}
		if _, known, err := m.Keeper.Nodes(ctx); err != nil || known {
			return "", err // the file may be another cluster's
		}
	}
	found, _, err := m.readFile(reconfigure.DefaultShard)
	return found.ClusterID, err
}

// Adopt stores the files' map if the Keeper has none yet, and updates the files: they are out of date after changes by
// another control host, and a file with all shards is divided. It is called before the cluster is changed.
func (m NodeMap) Adopt(ctx context.Context) error {
	return m.locked(ctx, func() error {
		nodes, known, err := m.Read(ctx)
		if stranger := (*strangerError)(nil); errors.As(err, &stranger) {
			return nil // Read returns this error when the map is needed
		}
		if err != nil || !known {
			return err
		}
		if _, kept, err := m.Keeper.Nodes(ctx); err != nil {
			return err
		} else if !kept {
			if err := m.Keeper.AdoptNodes(ctx, nodes); err != nil {
				return err
			}
		}
		found, err := m.shardsWithFile()
		if err != nil {
			return err
		}
		return m.update(ctx, nodes, append(found, reconfigure.Shards(nodes)...), shared{})
	})
}

// keep stores a shard's part of the map, then writes its file. The shared values are replaced by known, unless that is
// empty.
func (m NodeMap) keep(ctx context.Context, shard string, nodes map[string]reconfigure.Spec, known shared) error {
	if err := m.Keeper.KeepNodes(ctx, shard, nodes); err != nil {
		return err
	}
	return m.locked(ctx, func() error {
		all, _, err := m.Keeper.Nodes(ctx) // another process may have changed the shard meanwhile
		if err != nil {
			return err
		}
		return m.update(ctx, all, []string{shard}, known)
	})
}

// update writes the files of some shards, and the default one's, unless they are up to date. It writes the default
// shard's file last: an older version may have stored the nodes of other shards in it, and they must stay there until
// they have their own files.
func (m NodeMap) update(ctx context.Context, all map[string]reconfigure.Spec, shards []string, known shared) error {
	was, _, err := m.readFile(reconfigure.DefaultShard)
	if err != nil {
		return err
	}
	if known == (shared{}) {
		known = was.Shared
	}
	id, err := m.ClusterID(ctx)
	if err != nil {
		return err
	}
	parts := map[string]map[string]reconfigure.Spec{reconfigure.DefaultShard: {}}
	for _, shard := range append(shards, reconfigure.Shards(was.all())...) {
		parts[shard] = map[string]reconfigure.Spec{}
	}
	for node, spec := range all {
		if part, ok := parts[spec.Shard]; ok {
			part[node] = spec
		}
	}
	for _, shard := range slices.Backward(slices.Sorted(maps.Keys(parts))) {
		content := newFile(parts[shard])
		content.Comment = m.comment()
		if shard == reconfigure.DefaultShard {
			content.ClusterID, content.Shared = id, known
		}
		was, there, err := m.readFile(shard)
		if err != nil {
			return err
		}
		if there && was.equal(content) {
			continue
		}
		if err := writeFile(m.pathOf(shard), content); err != nil {
			return fmt.Errorf("write the map of nodes: %w", err)
		}
	}
	return nil
}

// locked calls do under a lock of this host, so that a process does not overwrite a newer file.
func (m NodeMap) locked(ctx context.Context, do func() error) error {
	// The lock is on the folder itself, so that no lock file is added to it.
	lock := flock.New(m.Dir, flock.SetFlag(os.O_RDONLY))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("the map of nodes: lock %s: %w", m.Dir, err)
	}
	defer lock.Unlock() //nolint:errcheck // the kernel releases it with the descriptor
	return do()
}

// read reads all files; without nodes if the default shard's does not exist.
func (m NodeMap) read() (found file, there bool, err error) {
	found, there, err = m.readFile(reconfigure.DefaultShard)
	if err != nil || !there {
		return found, there, err
	}
	shards, err := m.shardsWithFile()
	if err != nil {
		return found, false, err
	}
	for _, shard := range shards {
		part, _, err := m.readFile(shard)
		if err != nil {
			return found, false, err
		}
		for _, older := range []map[string]reconfigure.Spec{found.Nodes, found.KeptPorts} {
			maps.DeleteFunc(older, func(_ string, s reconfigure.Spec) bool { return s.Shard == shard })
		}
		maps.Copy(found.Nodes, part.Nodes)
		maps.Copy(found.KeptPorts, part.KeptPorts)
	}
	return found, true, nil
}

// lost returns an error if a shard without a file has nodes in a local state and none in the map: Terraform must not
// remove them.
func (m NodeMap) lost(nodes map[string]reconfigure.Spec) error {
	known, err := m.shardsWithFile()
	if err != nil {
		return err
	}
	known = append(known, reconfigure.Shards(nodes)...)
	states, err := filepath.Glob(filepath.Join(m.Dir, stateFolder, "*", "terraform.tfstate"))
	if err != nil {
		return err
	}
	for _, path := range states {
		shard := filepath.Base(filepath.Dir(path))
		if !shardName.MatchString(shard) || slices.Contains(known, shard) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read the map of nodes: %w", err)
		}
		most := 0
		if state, err := parseState(text); err == nil { // Terraform reports a state that cannot be parsed
			for _, r := range state.resources {
				most = max(most, len(r.instances))
			}
		}
		if most > 0 {
			return &unknownError{most, m.pathOf(shard)}
		}
	}
	return nil
}

// shardsWithFile returns the shards that have a file, except the default one.
func (m NodeMap) shardsWithFile() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(m.Dir, shardFolder, "*"+shardSuffix))
	for i, path := range paths {
		paths[i] = strings.TrimSuffix(filepath.Base(path), shardSuffix)
	}
	return paths, err
}

// readFile reads a shard's file; without nodes if it does not exist.
func (m NodeMap) readFile(shard string) (found file, there bool, err error) {
	path := m.pathOf(shard)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newFile(nil), false, nil
	}
	if err != nil {
		return found, false, fmt.Errorf("read the map of nodes: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields() // update would remove unknown fields
	if err := strict.Decode(&found); err != nil {
		return found, false, fmt.Errorf("read the map of nodes in %s: %w", path, err)
	}
	if found.Nodes == nil {
		return found, false, fmt.Errorf("read the map of nodes in %s: it has no nodes", path)
	}
	if found.KeptPorts == nil {
		found.KeptPorts = map[string]reconfigure.Spec{}
	}
	return found, true, nil
}

// writeFile replaces a file atomically.
func writeFile(path string, content file) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(path, append(text, '\n'), 0o644)
}

// strangerError is the error of a file that was not made from the Keeper's map.
type strangerError struct{ path, keeper string }

func (e *strangerError) Error() string {
	return fmt.Sprintf("the map of nodes in %s differs from that in %s, and was not made from it: if that journal is in "+
		"use already, move the file away; if that journal is out of date, begin with an empty one", e.path,
		e.keeper)
}

// unknownError is the error of a state with nodes without a map of nodes.
type unknownError struct {
	nodes int
	path  string
}

func (e *unknownError) Error() string {
	return fmt.Sprintf("Terraform's state has %d nodes, but neither the journal nor %s has their images and flavors: "+
		"make a request on the control host that has this file, or restore it from a backup", e.nodes, e.path)
}
