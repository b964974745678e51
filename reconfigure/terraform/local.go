package terraform

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/hashicorp/terraform-exec/tfexec"
	"golang.org/x/sys/unix"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// If the module has no `backend` block, its states are files in its own folder. They are read without Terraform.

// stateFolder has the local states of all workspaces except the default one.
const stateFolder = "terraform.tfstate.d"

// localState returns the file in which the local back end keeps the state of a shard if no other path is set.
func (d *Driver) localState(shard string) string {
	if shard == reconfigure.DefaultShard {
		return filepath.Join(d.cfg.Dir, "terraform.tfstate")
	}
	return filepath.Join(d.cfg.Dir, stateFolder, shard, "terraform.tfstate")
}

// isLocal reports whether the states are in the files of localState: `terraform init` records any other back end in
// .terraform.
func (d *Driver) isLocal() bool { return localIn(d.cfg.Dir) }

func localIn(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ".terraform", "terraform.tfstate"))
	return errors.Is(err, fs.ErrNotExist)
}

// readLocal returns the text of a shard's state, as `terraform state pull` prints it. It returns false if Terraform
// must be asked: the state may be elsewhere, may not exist, or another process may be writing it.
func (d *Driver) readLocal(shard string) (text []byte, ok bool) {
	if !d.isLocal() {
		return nil, false
	}
	text, err := os.ReadFile(d.localState(shard))
	return text, err == nil && len(bytes.TrimSpace(text)) > 0
}

// isState reports whether a file has a whole state.
func isState(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && whole(text)
}

// leastRoom is the free space, in bytes, that Terraform needs to change a state, in addition to the size of the
// state.
const leastRoom = 8 << 20

// room returns an error if the disk of a local state is so full that Terraform may not be able to write it. The state
// would lack what Terraform then makes.
func (d *Driver) room() error {
	file := d.localState(d.cfg.Workspace)
	var system unix.Statfs_t
	if !d.isLocal() || unix.Statfs(d.cfg.Dir, &system) != nil {
		return nil
	}
	need := uint64(leastRoom)
	if info, err := os.Stat(file); err == nil {
		need += 2 * uint64(info.Size()) // the state, and the copy of the previous one
	}
	if free := system.Bavail * uint64(system.Bsize); free < need {
		return fmt.Errorf("the disk of %s has %d KiB left, too little for Terraform's state: free at least %d KiB; "+
			"nothing was changed", d.cfg.Dir, free>>10, need>>10)
	}
	return nil
}

// foundAddresses has the addresses in a state, by node.
type foundAddresses struct {
	// State is the SHA-256 sum of the state file that the addresses are from. They are used for that file only.
	State     string            `json:"state"`
	Addresses map[string]string `json:"addresses"`
}

// Addresses returns the fixed IPv4 address of each port in the state of this shard, by node, also of the kept ports of
// nodes without an instance. The state is read without a lock and without the cloud. If the states are local files, the
// answer is always that of the current file; a file that has not changed since the last call, of any process, is not
// parsed again. With another back end the answer may be that of the last call, unless current is set or this driver has
// changed the state since. Addresses may be retried, and called while another method runs.
func (d *Driver) Addresses(ctx context.Context, current bool) (map[string]string, error) {
	text, local := d.readLocal(d.cfg.Workspace)
	if !local {
		return d.pulledAddresses(ctx, current)
	}
	sum := sha256.Sum256(text)
	found := foundAddresses{State: hex.EncodeToString(sum[:])}
	path := filepath.Join(d.cfg.PlanDir, "addresses-"+workspace(d.cfg.Workspace)+".json")
	var last foundAddresses
	if was, err := os.ReadFile(path); err == nil && json.Unmarshal(was, &last) == nil && last.State == found.State {
		return last.Addresses, nil
	}
	state, err := parseState(text)
	if err != nil { // another process may be writing it
		return d.pulledAddresses(ctx, true)
	}
	if found.Addresses, err = portAddresses(state, d.cfg.Module); err != nil {
		return nil, err
	}
	content, err := json.Marshal(found)
	if err == nil {
		err = renameio.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("save the addresses of the nodes: %w", err)
	}
	return found.Addresses, nil
}

// pulled has addresses from `terraform state pull`.
type pulled struct {
	writes    int64 // Driver.writes before the addresses were read
	addresses map[string]string
}

// pulledAddresses is Addresses for a state that Terraform must read.
func (d *Driver) pulledAddresses(ctx context.Context, current bool) (map[string]string, error) {
	writes := d.writes.Load()
	if last := d.pulled.Load(); last != nil && !current && last.writes == writes && writes%2 == 0 {
		return last.addresses, nil
	}
	state, err := d.pull(ctx)
	if err != nil {
		return nil, err
	}
	found, err := portAddresses(state, d.cfg.Module)
	if err == nil {
		d.pulled.Store(&pulled{writes, found})
	}
	return found, err
}

// writing calls f, which changes the state of this shard.
func (d *Driver) writing(f func(*tfexec.Terraform) error) error {
	d.writes.Add(1)
	defer d.writes.Add(1)
	return d.run(f)
}

// portAddresses returns the addresses of the nodes' ports in a state.
func portAddresses(state *stateFile, kinds reconfigure.RootModule) (map[string]string, error) {
	found := map[string]string{}
	ports := state.of(kinds.PortBlock())
	if ports == nil {
		return found, nil
	}
	for _, i := range ports.instances {
		var port fields
		var all []string
		node := i.text("index_key")
		if node == "" || i.text("deposed") != "" {
			continue
		}
		if err := i.read(map[string]any{"attributes": &port}); err != nil {
			return nil, err
		}
		if err := port.read(map[string]any{kinds.PortAddresses: &all}); err != nil {
			return nil, err
		}
		for _, one := range all {
			if ip, err := netip.ParseAddr(one); err == nil && ip.Is4() && found[node] == "" {
				found[node] = ip.String()
			}
		}
	}
	return found, nil
}
