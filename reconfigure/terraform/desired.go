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
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// Keeper keeps the map of nodes where all control hosts find it.
type Keeper interface {
	// Name tells people where that is.
	Name() string
	// Nodes is the map that was last kept; false where there was none yet.
	Nodes(ctx context.Context) (map[string]reconfigure.Spec, bool, error)
	// KeepNodes has nodes take the place of all that the map has in a shard, and returns when that is durable. Other
	// shards MUST stay as they are, also where they are changed at the same time. Who leads no more MUST be refused.
	KeepNodes(ctx context.Context, shard string, nodes map[string]reconfigure.Spec) error
	// AdoptNodes keeps a map where there was none yet; else it does nothing.
	AdoptNodes(ctx context.Context, nodes map[string]reconfigure.Spec) error
}

// NodeMap is the map of nodes of the root module in Dir, of all shards. The Keeper's is the one that counts. The file
// beside the module is made from it, for those who call Terraform by hand, in whatever workspace: it is brought up to
// date by Adopt, and whenever the map is kept.
type NodeMap struct {
	Dir string
	// Keeper may be nil for those who only look, where nobody keeps anything yet: then the file is all there is.
	Keeper Keeper
}

// file is the content of the file: the module's variables. What belongs to the node with its instance and what
// belongs to its address only are two of them, so that a site's own for_each over the nodes meets none without an
// instance.
type file struct {
	// Comment is passed over by Terraform. It tells whose map this is.
	Comment   string                      `json:"//,omitempty"`
	Nodes     map[string]reconfigure.Spec `json:"nodes"`
	KeptPorts map[string]reconfigure.Spec `json:"kept_ports"`
	Shared    shared                      `json:"shared,omitzero"`
}

// shared is what the other workspaces are told of the default one.
type shared struct {
	SecurityGroupID string `json:"security_group_id,omitempty"`
}

// newFile sorts a map of nodes into the module's variables.
func newFile(comment string, nodes map[string]reconfigure.Spec, known shared) file {
	none := func() map[string]reconfigure.Spec { return map[string]reconfigure.Spec{} } // null is no map to Terraform
	f := file{Comment: comment, Nodes: none(), KeptPorts: none(), Shared: known}
	for node, spec := range nodes {
		if spec.HasInstance() {
			f.Nodes[node] = spec
		} else {
			f.KeptPorts[node] = spec
		}
	}
	return f
}

// all is the map of nodes that the file was made from.
func (f file) all() map[string]reconfigure.Spec {
	all := maps.Clone(f.Nodes)
	maps.Copy(all, f.KeptPorts)
	return all
}

func (m NodeMap) path() string { return filepath.Join(m.Dir, "nodes.auto.tfvars.json") }

// comment marks the files that were made from the Keeper's map.
func (m NodeMap) comment() string {
	return "Made by reconfigure from " + m.Keeper.Name() + ". What is changed here is lost."
}

// Read is the map as it was last kept; false where nobody ever kept one. Then it is what the file has, which was kept
// before there was a Keeper. A file that was not made from the Keeper's map, and has another one, is an error: it is
// not known which of them is out of date. Read changes nothing.
func (m NodeMap) Read(ctx context.Context) (nodes map[string]reconfigure.Spec, known bool, err error) {
	found, there, err := m.read()
	if err != nil || m.Keeper == nil {
		return found.all(), there, err
	}
	if nodes, known, err = m.Keeper.Nodes(ctx); err != nil {
		return nil, false, err
	}
	if !known {
		return found.all(), there, nil
	}
	if there && found.Comment != m.comment() && !maps.Equal(found.all(), nodes) {
		return nil, false, &strangerError{m.path(), m.Keeper.Name()}
	}
	return nodes, true, nil
}

// Adopt has the Keeper keep the file's map where it has none yet. Else it brings the file up to date, which another
// control host may have left behind: it is for who is about to change the cluster.
func (m NodeMap) Adopt(ctx context.Context) error {
	return m.locked(ctx, func() error {
		nodes, known, err := m.Read(ctx)
		if stranger := (*strangerError)(nil); errors.As(err, &stranger) {
			return nil // whoever needs the map is told
		}
		if err != nil || !known {
			return err
		}
		found, there, err := m.read()
		if err != nil {
			return err
		}
		if _, kept, err := m.Keeper.Nodes(ctx); err != nil {
			return err
		} else if !kept {
			return m.Keeper.AdoptNodes(ctx, nodes)
		}
		if there && found.Comment == m.comment() && maps.Equal(found.all(), nodes) {
			return nil
		}
		return m.write(nodes, found.Shared)
	})
}

// keep makes a shard's part of the map durable, then the file. Where it is known what the shards share it is put into
// the file too, else what is there stays.
func (m NodeMap) keep(ctx context.Context, shard string, nodes map[string]reconfigure.Spec, known shared) error {
	if err := m.Keeper.KeepNodes(ctx, shard, nodes); err != nil {
		return err
	}
	return m.locked(ctx, func() error {
		all, _, err := m.Keeper.Nodes(ctx) // another shard's part may be newer than what this one has seen
		if err != nil {
			return err
		}
		if known == (shared{}) {
			found, _, err := m.read()
			if err != nil {
				return err
			}
			known = found.Shared
		}
		return m.write(all, known)
	})
}

// locked does something while no other process of this host does: what is written must not be older than what is there.
func (m NodeMap) locked(ctx context.Context, do func() error) error {
	// The folder itself: a lock file would lie among the administrator's.
	lock := flock.New(m.Dir, flock.SetFlag(os.O_RDONLY))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("the map of nodes: lock %s: %w", m.Dir, err)
	}
	defer lock.Unlock() //nolint:errcheck // the kernel drops it with the descriptor
	return do()
}

// read is the file's content; without nodes where it is not there.
func (m NodeMap) read() (found file, there bool, err error) {
	text, err := os.ReadFile(m.path())
	if errors.Is(err, fs.ErrNotExist) {
		return file{Nodes: map[string]reconfigure.Spec{}}, false, nil
	}
	if err != nil {
		return found, false, fmt.Errorf("read the map of nodes: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields() // what we would drop when we write it again is somebody else's
	if err := strict.Decode(&found); err != nil {
		return found, false, fmt.Errorf("read the map of nodes in %s: %w", m.path(), err)
	}
	if found.Nodes == nil {
		return found, false, fmt.Errorf("read the map of nodes in %s: it has no nodes", m.path())
	}
	return found, true, nil
}

// write makes the file: it is whole at any time.
func (m NodeMap) write(nodes map[string]reconfigure.Spec, known shared) error {
	if err := writeFile(m.path(), newFile(m.comment(), nodes, known)); err != nil {
		return fmt.Errorf("write the map of nodes: %w", err)
	}
	return nil
}

func writeFile(path string, content file) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, append(text, '\n'), 0o644)
}

// strangerError is that a file is not the Keeper's.
type strangerError struct{ path, keeper string }

func (e *strangerError) Error() string {
	return fmt.Sprintf("%s has another map of nodes than %s, and was not made from it: where that journal is in use "+
		"already, move the file away; where it was used once and is out of date, begin with an empty one", e.path, e.keeper)
}

// unknownError is that nobody knows the map of the nodes that there are.
type unknownError struct {
	nodes int
	path  string
}

func (e *unknownError) Error() string {
	return fmt.Sprintf("Terraform's state has %d nodes, but neither the journal nor %s says what they were made of: "+
		"make a request on the control host that has this file, or bring it back from a backup", e.nodes, e.path)
}
