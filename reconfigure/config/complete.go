package config

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// complete sets the missing keys whose defaults depend on other keys or on this host. The other defaults are in the
// schema.
func (d *declaration) complete(r *report, dir string) {
	insteadPath(r, dir, &d.settings.stateDir, "reconfigure.state_directory", "state")
	insteadPath(r, dir, &d.privateKeyFile, "private_key_file", "~/.ssh/id_ed25519")
	d.controlHost.complete(r, dir)
	if d.control.existing.is == "" {
		instead(&d.control.name, d.name, strings.ReplaceAll(d.name.is, "_", "-")+"-control")
	} else {
		instead(&d.control.user, d.loginUser, d.loginUser.is)
		instead(&d.control.slurmConf, d.control.existing, usualSlurmConf)
		d.control.findPlaybook(r, dir)
	}
	for i := range d.groups {
		g := &d.groups[i]
		instead(&g.prefix, g.name, strings.ReplaceAll(g.name.is, "_", "-"))
		instead(&g.image, d.control.image, d.control.image.is)
		instead(&g.network, d.control.network, d.control.network.is)
		g.findHealthChecks(r, dir)
	}
	// The partitions of a control node that exists are in its slurm.conf.
	if len(d.partitions) == 0 && len(d.groups) > 0 && d.control.existing.is == "" {
		d.partitions = []partition{d.main()}
	}
}

// findPlaybook stores an absolute path of a playbook of the site, and reports one that does not exist.
func (c *control) findPlaybook(r *report, dir string) {
	if len(c.configure.is) != 1 || !isPlaybook(c.configure.is[0].is) {
		return
	}
	full, err := expand(dir, c.configure.is[0].is)
	switch {
	case err != nil:
		r.add(c.configure.place, "%v", err)
	case !exists(full):
		r.add(c.configure.place, "there is no playbook %s; write it, or correct the path", full)
	default:
		c.configure.is[0].is = full
	}
}

// findHealthChecks reports checks that are neither scripts of the site nor shipped.
func (g *group) findHealthChecks(r *report, dir string) {
	shipped := reconfigure.ShippedHealthChecks()
	for _, name := range g.healthCheck.is {
		own := filepath.Join(reconfigure.SiteHealthFolder, name.is)
		if name.ok && !slices.Contains(shipped, name.is) && !exists(filepath.Join(dir, own)) {
			r.add(name.place, "there is no script %s; write it, or choose one of the shipped ones: %s", own,
				strings.Join(shipped, ", "))
		}
	}
	if len(g.healthCheck.is) == 0 && g.healthInterval.is > 0 {
		r.add(g.healthInterval.place, "the group declares no health_check; declare one, or leave health_interval out")
	}
}

// main returns the partition of a declaration without partitions.
func (d *declaration) main() partition {
	p := partition{groups: value[[]value[string]]{place: d.groups[0].name.place}}
	p.name.preset("main")
	p.isDefault.preset(true)
	p.groups.preset(each(d.groups, func(g group) value[string] { return g.name }))
	return p
}

// complete sets the user and the directory. Their defaults are the owner and the path of the cluster directory.
func (h *controlHost) complete(r *report, dir string) {
	instead(&h.directory, h.address, dir)
	if !h.user.missing() || !h.address.ok {
		return
	}
	name, err := owner(dir)
	if err != nil {
		r.add(place{"control_host.user", h.address.line}, "is missing, and %v; write it", err)
		return
	}
	instead(&h.user, h.address, name)
}

// owner returns the name of the owner of a folder.
func owner(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	id := strconv.FormatUint(uint64(info.Sys().(*syscall.Stat_t).Uid), 10)
	u, err := user.LookupId(id)
	if err != nil {
		return "", fmt.Errorf("the owner of %s, uid %s, has no name on this host", dir, id)
	}
	return u.Username, nil
}

// instead sets a missing text to one that comes from another key. Problems of the text are reported at that key.
func instead(missing *value[string], of value[string], is string) {
	if missing.missing() && !of.missing() {
		*missing = value[string]{of.place, is, of.ok}
	}
}

// insteadPath sets a missing path.
func insteadPath(r *report, dir string, missing *value[string], key, is string) {
	if missing.missing() {
		path(dir, missing).read(r, key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: is})
	}
}
