package terraform

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/reconfigure"
)

// hazards has the construct that caused the old tool's dangers: a list of all nodes. For that reason the product's
// module lacks it.
const hazards = `
resource "terraform_data" "disk" {
  for_each = var.nodes
  input    = each.key
}

resource "terraform_data" "hosts" {
  input = { for name, instance in openstack_compute_instance_v2.node : name => instance.access_ip_v4 }
}
`

// record makes a plan for each hazard with real Terraform and the real provider, and stores the plans' JSON: `go test
// -run TestFenceOverRecordedPlans -update`. The cloud has control, n1, n2 and n3, all alike.
func record(t *testing.T) {
	t.Helper()
	c := newCluster(t, nil)
	c.write("terraform/openstack/hazards.tf", hazards)
	d := c.open()
	c.deploy(d, c.deployed("n1", "n2", "n3"))
	r := recorder{c, d}
	r.images()
	r.others()
	r.modules()
	r.drift()
}

type recorder struct {
	*cluster
	d *Driver
}

// images has plans that other images and stale maps cause. Bumped is what the old tool's module did: one place has the
// image of all nodes.
func (r recorder) images() {
	const n1, n3, n4, hosts = `["n1"]`, `["n3"]`, `["n4"]`, "terraform_data.hosts"
	bumped := func(nodes ...string) map[string]reconfigure.Spec {
		all := r.deployed(nodes...)
		for node, spec := range all {
			spec.ImageID = imageV2
			all[node] = spec
		}
		return all
	}
	r.plan("image-bumped-create", bumped("n1", "n2", "n3", "n4"), tfexec.Target(instanceBlock+n4),
		tfexec.Target("openstack_networking_port_v2.node"+n4), tfexec.Target(hosts))
	r.plan("image-bumped-remove", bumped("n1", "n2"), tfexec.Target(instanceBlock+n3),
		tfexec.Target("openstack_networking_port_v2.node"+n3), tfexec.Target(hosts))
	r.plan("image-bumped-hosts-alone", bumped("n1", "n2", "n3"), tfexec.Target(hosts))
	r.plan("stale-hosts-alone", r.deployed("n1", "n2"), tfexec.Target(hosts))
	r.plan("stale-no-target", r.deployed("n1", "n2"))
	r.plan("destroy-target", r.deployed("n1", "n2", "n3"), tfexec.Destroy(true),
		tfexec.Target("openstack_networking_port_v2.node"+n3))
	r.plan("typo", r.deployed("n1", "n2", "n3"), tfexec.Target(instanceBlock+`["n9"]`))
	r.plan("everything", nil)
	r.plan("replace-by-request", r.deployed("n1", "n2", "n3"), tfexec.Target(instanceBlock+n1),
		tfexec.Replace(instanceBlock+n1))
}

// others records the plans for another image, flavor or network of one node, and for a tainted instance.
func (r recorder) others() {
	with := func(change func(*reconfigure.Spec)) map[string]reconfigure.Spec {
		all := r.deployed("n1", "n2", "n3")
		spec := all["n1"]
		change(&spec)
		all["n1"] = spec
		return all
	}
	r.plan("one-image", with(func(s *reconfigure.Spec) { s.ImageID = imageV2 }))
	r.plan("one-flavor", with(func(s *reconfigure.Spec) { s.FlavorID = big }))
	r.plan("one-network", with(func(s *reconfigure.Spec) { s.NetworkID = r.storage }))
	r.plan("one-stops", with(func(s *reconfigure.Spec) { s.Power = reconfigure.PowerOff }))
	r.plan("one-stops-with-another-image", with(func(s *reconfigure.Spec) {
		s.Power, s.ImageID = reconfigure.PowerOff, imageV2
	}))
	n2 := instance(instanceBlock, "n2")
	r.must(r.d.run(func(tf *tfexec.Terraform) error { return tf.Taint(r.Context(), n2) }))
	r.plan("tainted", r.deployed("n1", "n2", "n3"))
	r.plan("tainted-removed", r.deployed("n1", "n3"))
	r.must(r.d.run(func(tf *tfexec.Terraform) error { return tf.Untaint(r.Context(), n2) }))
}

// modules has plans after changes of the declaration and of the module.
func (r recorder) modules() {
	all := r.deployed("n1", "n2", "n3")
	r.declare("cluster_name: eiffel", "cluster_name: tower")
	r.plan("other-name", all)
	r.declare("cluster_name: tower", "cluster_name: eiffel")
	r.declare("floating_ip_network: public", `floating_ip_network: ""`)
	r.plan("no-floating-ip", all)
	r.declare(`floating_ip_network: ""`, "floating_ip_network: public")
	file := "terraform/openstack/hazards.tf"
	r.write(file, hazards+"\nresource \"terraform_data\" \"stranger\" {}\nimport {\n  to = terraform_data.stranger\n "+
		" id = \"x\"\n}\n")
	r.plan("imported", all)
	r.write(file, "")
	r.plan("block-gone", all)
	r.write(file, hazards+"\nmoved {\n  from = terraform_data.hosts\n  to   = terraform_data.list\n}\n")
	text, err := os.ReadFile(filepath.Join(r.dir, file))
	r.must(err)
	r.write(file, strings.Replace(string(text), `"terraform_data" "hosts"`, `"terraform_data" "list"`, 1))
	r.plan("moved", all)
	r.write(file, hazards)
}

// drift has plans for an instance that was deleted in the cloud.
func (r recorder) drift() {
	r.removeServer("n1")
	r.plan("drift", r.deployed("n1", "n2", "n3"))
}

// plan records a plan without the parts that the fence ignores.
func (r recorder) plan(name string, nodes map[string]reconfigure.Spec, options ...tfexec.PlanOption) {
	r.Helper()
	vars, out := filepath.Join(r.dir, "nodes.tfvars.json"), filepath.Join(r.dir, "saved")
	r.must(writeFile(vars, newFile(nodes)))
	r.must(r.d.run(func(tf *tfexec.Terraform) error {
		_, err := tf.Plan(r.Context(), append(options, tfexec.VarFile(vars), tfexec.Out(out))...)
		return err
	}))
	var p *tfjson.Plan
	r.must(r.d.run(func(tf *tfexec.Terraform) (err error) {
		p, err = tf.ShowPlanFile(r.Context(), out)
		return err
	}))
	p.Config, p.PlannedValues, p.Variables, p.OutputChanges, p.RelevantAttributes, p.ResourceDrift = nil, nil, nil, nil,
		nil, nil
	for _, rc := range p.ResourceChanges {
		if rc.Change.Actions.NoOp() {
			rc.Change.Before, rc.Change.After = nil, nil
		}
	}
	for _, resource := range resources(p.PriorState) {
		resource.AttributeValues, resource.SensitiveValues = nil, nil
	}
	text, err := json.Marshal(p)
	r.must(err)
	r.must(os.MkdirAll(filepath.Dir(recordingFile(name)), 0o755))
	r.must(os.WriteFile(recordingFile(name), text, 0o644))
}
