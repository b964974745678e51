package terraform

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eiffel-hpc/eiffel/reconfigure"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/libvirt"
	"github.com/eiffel-hpc/eiffel/reconfigure/cloud/vsphere"
)

func TestBlocksOfTheModuleAreClassified(t *testing.T) {
	m, err := readModule(filepath.Join(root(t), "terraform", "openstack"))
	if err != nil {
		t.Fatal(err)
	}
	want := module{
		perNode: []string{"openstack_compute_instance_v2.node", "openstack_networking_port_v2.node"},
		shared: []string{
			"openstack_compute_keypair_v2.cluster", "openstack_networking_floatingip_v2.control",
			"openstack_networking_secgroup_rule_v2.inside", "openstack_networking_secgroup_rule_v2.inside_ipv6",
			"openstack_networking_secgroup_rule_v2.ping", "openstack_networking_secgroup_rule_v2.site",
			"openstack_networking_secgroup_rule_v2.ssh", "openstack_networking_secgroup_v2.cluster",
		},
		kept:    []string{"openstack_networking_port_v2.node"},
		divided: true,
	}
	if diff := cmp.Diff(want, m, cmp.AllowUnexported(module{})); diff != "" {
		t.Error(diff)
	}
}

func TestBlockIsANodesIfItsForEachIsMadeFromTheNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		text    string
		perNode bool
	}{
		"directly": {`resource "x" "y" { for_each = var.nodes }`, true},
		"filtered": {`resource "x" "y" { for_each = { for n, s in var.nodes : n => s if s.group == ` +
			`"gpu" } }`, true},
		"set of names": {`resource "x" "y" { for_each = toset(keys(var.nodes)) }`, true},
		"local":        {"locals { gpu = var.nodes }\nresource \"x\" \"y\" { for_each = local.gpu }", true},
		"local of a local": {"locals {\n a = local.b\n b = var.nodes\n}\nresource \"x\" \"y\" { for_each = " +
			"local.a }", true},
		"chained": {`resource "x" "y" { for_each = base.node }`, true},
		"module":  {`module "y" { for_each = var.nodes }`, true},
		"chained to a module": {"module \"m\" { for_each = var.nodes }\nresource \"x\" \"y\" { for_each = " +
			"module.m }", true},
		"circle": {"locals {\n a = local.b\n b = local.a\n}\nresource \"x\" \"y\" { for_each = " +
			"local.a }", false},
		"no for_each":            {`resource "x" "y" { input = var.nodes }`, false},
		"count":                  {`resource "x" "y" { count = length(var.nodes) }`, false},
		"another variable":       {`resource "x" "y" { for_each = var.volumes }`, false},
		"a variable of an inner": {`resource "x" "y" { for_each = { for nodes in [1] : nodes => nodes } }`, false},
		"name of a shared one": {"resource \"x\" \"z\" {}\nresource \"x\" \"y\" { for_each = toset([x.z.id]) }",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			m := moduleOf(t, map[string]string{"base.tf": `resource "base" "node" { for_each = var.nodes }`,
				"own.tf": tc.text})
			_, known := m.owner(`x.y["n1"]`, func(string) bool { return false })
			if strings.Contains(tc.text, `module "y"`) {
				_, known = m.owner(`module.y["n1"].a.b`, func(string) bool { return false })
			}
			perNode := known && len(m.of("n1")) > 1
			if perNode != tc.perNode {
				t.Errorf("blocks: %+v", m)
			}
		})
	}
}

func TestModuleMayBeInJSONAndOverridden(t *testing.T) {
	m := moduleOf(t, map[string]string{
		"a.tf.json":     `{"resource": {"x": {"y": {"for_each": "${var.nodes}"}, "z": {}}}, "locals": {"a": 1}}`,
		"b_override.tf": `resource "x" "y" { input = 1 }`,
		"c.tofu":        `resource "x" "w" { for_each = var.nodes }`,
		"notes.txt":     "no configuration",
	})
	if diff := cmp.Diff(module{perNode: []string{"x.w", "x.y"}, shared: []string{"x.z"},
		unsharded: []string{"x.w", "x.y", "x.z"}}, m, cmp.AllowUnexported(module{})); diff != "" {
		t.Error(diff)
	}
}

func TestModuleWithoutNodesIsRefused(t *testing.T) {
	for name, text := range map[string]string{"no block": "", "shared ones only": `resource "x" "y" {}`,
		"not HCL": `resource "x" {`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := readModule(dir); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func moduleOf(t *testing.T, files map[string]string) module {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := readModule(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAddressesAreQuotedAndReadBack(t *testing.T) {
	m := module{perNode: []string{"x.node", "module.extra"}}
	for node, want := range map[string]string{
		"n1":       `x.node["n1"]`,
		`a"b\c`:    `x.node["a\"b\\c"]`,
		"a${b}%{c": `x.node["a$${b}%%{c"]`,
	} {
		got := m.of(node)
		if got[0] != want {
			t.Errorf("%q: %s, want %s", node, got[0], want)
		}
		for _, address := range got {
			if strings.HasPrefix(address, "module") {
				address += ".y.z[0]"
			}
			if owner, ok := m.owner(address, func(string) bool { return false }); owner != node || !ok {
				t.Errorf("%s is %q's: %t", address, owner, ok)
			}
		}
	}
}

// TestBlocksOfTheOtherModulesAreTheirNodesOwn reads the root modules without shared resources: every block belongs to a
// node, and to one workspace.
func TestBlocksOfTheOtherModulesAreTheirNodesOwn(t *testing.T) {
	for _, provider := range []reconfigure.Provider{libvirt.Provider(), vsphere.Provider()} {
		m, err := readModule(filepath.Join(root(t), "terraform", provider.Name))
		if err != nil {
			t.Fatal(err)
		}
		if len(m.shared)+len(m.kept)+len(m.unsharded) > 0 {
			t.Errorf("%s: %+v", provider.Name, m)
		}
		for _, block := range []string{provider.Module.InstanceBlock(), provider.Module.ReplaceBlock()} {
			if !slices.Contains(m.perNode, block) {
				t.Errorf("%s: %s is not in %v", provider.Name, block, m.perNode)
			}
		}
	}
}
