package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/config"
)

// attached is a declaration with a control node that exists.
const attached = `cluster_name: site
cloud: openstack
control_host: {address: 192.0.2.1, user: root}
login_user: debian
control_node: {existing: slurm.example.org}
node_groups:
  - {name: cloud, image: debian-12, network: cluster, flavor: m1.large, max_nodes: 4}
`

func TestAControlNodeThatExists(t *testing.T) {
	c, err := config.Load(directory(t, attached))
	if err != nil {
		t.Fatal(err)
	}
	want := reconfigure.Control{Name: "slurm.example.org", Existing: &reconfigure.ExistingControl{
		Host: "slurm.example.org", User: "debian", SlurmConf: "/etc/slurm/slurm.conf",
	}}
	if diff := cmp.Diff(want, c.Control); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(c.Partitions) > 0 {
		t.Errorf("partitions %+v, but those of the site are in its slurm.conf", c.Partitions)
	}

	keys := "existing: 192.0.2.7, user: admin, slurm_conf: /opt/slurm/etc/slurm.conf, cidrs: [192.0.2.0/24]"
	c, err = config.Load(directory(t, strings.Replace(attached, "existing: slurm.example.org", keys, 1)))
	if err != nil {
		t.Fatal(err)
	}
	want.Name = "192.0.2.7"
	want.Existing = &reconfigure.ExistingControl{Host: "192.0.2.7", User: "admin", SlurmConf: "/opt/slurm/etc/slurm.conf",
		CIDRs: []string{"192.0.2.0/24"}}
	if diff := cmp.Diff(want, c.Control); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWhatContradictsAnExistingControlNode changes the declaration, each time with one problem.
func TestWhatContradictsAnExistingControlNode(t *testing.T) {
	const node = "control_node: {existing: slurm.example.org}"
	for _, e := range []struct{ name, from, to, want string }{
		{"an image", node, "control_node: {existing: slurm.example.org, image: debian-12}",
			"control_node.image: contradicts control_node.existing, which is no instance of this cluster; remove one of them"},
		{"a floating IP", node, "control_node: {existing: slurm.example.org, floating_ip_network: public}",
			"control_node.floating_ip_network: contradicts control_node.existing, which is no instance of this cluster; " +
				"remove one of them"},
		{"a relative path", node, "control_node: {existing: slurm.example.org, slurm_conf: slurm.conf}",
			`control_node.slurm_conf: "slurm.conf" is not an absolute path of letters, digits and . _ + @ - /`},
		{"a group without an image", "image: debian-12, ", "",
			"node_groups[0].image: is missing: with control_node.existing each group has its own"},
		{"the name of a node", "slurm.example.org", "cloud001",
			"control_node.existing: cloud001 is a node name of group cloud, cloud### (line 7); use another prefix"},
		{"settings", "cloud: openstack", "cloud: openstack\nslurm: {extra: {KillWait: 60}}",
			"slurm.extra.KillWait: contradicts control_node.existing: the settings of slurm.conf are in the site's own " +
				"file; remove this key"},
		{"slurmdbd", "cloud: openstack", "cloud: openstack\nslurm: {accounting_storage: slurmdbd}",
			"slurm.accounting_storage: contradicts control_node.existing: slurmdbd is the site's; remove this key"},
		{"a topology", "cloud: openstack", "cloud: openstack\nslurm: {topology: zones}",
			"slurm.topology: contradicts control_node.existing: topology.conf is the site's; remove this key"},
		{"shares", "cloud: openstack", "cloud: openstack\nnfs_shares: [/home/users]",
			"nfs_shares: contradicts control_node.existing: shared folders are the site's; remove this key"},
		{"fresh instances", "cloud: openstack",
			"cloud: openstack\npartitions: [{name: one, groups: [cloud], fresh: job}]",
			"partitions[0].fresh: contradicts control_node.existing: fresh instances need a Prolog and an Epilog, which are " +
				"the site's; remove this key"},
	} {
		t.Run(e.name, func(t *testing.T) {
			if strings.Count(attached, e.from) != 1 {
				t.Fatalf("%q is not in the declaration once", e.from)
			}
			_, err := config.Load(directory(t, strings.Replace(attached, e.from, e.to, 1)))
			got := ""
			if problems, ok := errors.AsType[*config.Problems](err); ok {
				for _, p := range *problems {
					got += p.Path + ": " + p.Message
				}
			}
			if diff := cmp.Diff(e.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhoConfiguresTheNodes reads each form of control_node.configure.
func TestWhoConfiguresTheNodes(t *testing.T) {
	for _, tc := range []struct {
		configure string
		image     bool
		playbook  string
		command   []string
		problem   string
	}{
		{configure: "playbooks"},
		{configure: "image", image: true},
		{configure: "site/join.yml", playbook: "site/join.yml"},
		{configure: "site/absent.yaml", problem: "there is no playbook "},
		{configure: "[/opt/site/join, --twice, --twice]", command: []string{"/opt/site/join", "--twice", "--twice"}},
		{configure: "[image]", problem: `"image" must be the path of a program, with a slash`},
		{configure: "[site/join.yml]", problem: `"site/join.yml" is a playbook: write it without brackets`},
		{configure: "[]", problem: "is empty; write one of playbooks, image, a playbook, or the words of a command"},
		{configure: "eiffel", problem: "a playbook ends with .yml, and a command is a list"},
		{configure: "[/opt/site/join, 3]", problem: "put it into quotes"},
	} {
		dir := directory(t, strings.Replace(attached, "existing: slurm.example.org",
			"existing: slurm.example.org, configure: "+tc.configure, 1))
		join := filepath.Join(dir, "site", "join.yml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(join), 0o755), os.WriteFile(join, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(dir)
		if tc.problem != "" {
			if err == nil || !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("%s: error %v, not %q", tc.configure, err, tc.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.configure, err)
			continue
		}
		want := tc.playbook
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got := c.Control.Existing; got.ByImage != tc.image || got.Playbook != want ||
			!slices.Equal(got.Command, tc.command) {
			t.Errorf("%s: %+v", tc.configure, got)
		}
	}
	_, err := config.Load(directory(t, strings.Replace(attached, "{existing: slurm.example.org}",
		"{image: i, flavor: f, network: n, configure: image, cidrs: [192.0.2.0/24]}", 1)))
	for _, key := range []string{"configure", "cidrs"} {
		if err == nil || !strings.Contains(err.Error(), "control_node."+key+": is only for a control node that exists") {
			t.Errorf("%s without existing: %v", key, err)
		}
	}
}
