package labcloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/eiffel-hpc/eiffel/lab/labcloud"
	"github.com/eiffel-hpc/eiffel/lab/needs"
)

// node is one value of the module's variable "nodes".
type node struct {
	Image  string `json:"image"`
	Flavor string `json:"flavor"`
}

// root is a Terraform root module in a separate folder, for one cloud.
type root struct {
	*fixture
	tf *tfexec.Terraform
}

// newRoot prepares the module in testdata/cluster with the real provider.
func newRoot(t *testing.T, cfg labcloud.Config) *root {
	t.Helper()
	f := newFixture(t, cfg, labcloud.Null{})
	dir := t.TempDir()
	text, err := os.ReadFile("testdata/cluster/main.tf")
	f.must(err)
	f.must(os.WriteFile(filepath.Join(dir, "main.tf"), text, 0o644))
	clouds := filepath.Join(dir, "clouds.yaml")
	f.must(os.WriteFile(clouds, f.cloud.CloudsYAML("lab", f.url), 0o600))

	tf, err := tfexec.NewTerraform(dir, tool(t, "EIFFEL_TERRAFORM", "quick/terraform"))
	f.must(err)
	f.must(tf.SetEnv(map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": dir, "CHECKPOINT_DISABLE": "1",
		"OS_CLOUD": "lab", "OS_CLIENT_CONFIG_FILE": clouds,
	}))
	f.must(tf.Init(t.Context(), tfexec.PluginDir(tool(t, "EIFFEL_PLUGINS", "plugins"))))
	return &root{fixture: f, tf: tf}
}

// tool returns the path of a program or folder that the lab installs. The test fails without it.
func tool(t *testing.T, variable, below string) string {
	t.Helper()
	needs.Lab(t)
	path := os.Getenv(variable)
	if path == "" {
		repo, err := filepath.Abs("../..")
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(repo, ".tools", below)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("this test needs the lab's tools: run `make tools`, or set %s (%s)", variable, err)
	}
	return path
}

// apply makes the cloud have these nodes.
func (r *root) apply(nodes map[string]node) error {
	r.Helper()
	r.declare(nodes)
	return r.tf.Apply(r.Context())
}

// declare writes the module's variables.
func (r *root) declare(nodes map[string]node) {
	r.Helper()
	text, err := json.Marshal(map[string]any{"nodes": nodes, "public_key": publicKey})
	r.must(err)
	r.must(os.WriteFile(filepath.Join(r.tf.WorkingDir(), "cluster.auto.tfvars.json"), text, 0o644))
}

// actions returns what a plan would do to the instances, by node.
func (r *root) actions() map[string]tfjson.Actions {
	r.Helper()
	_, err := r.tf.Plan(r.Context(), tfexec.Out("saved.plan"))
	r.must(err)
	plan, err := r.tf.ShowPlanFile(r.Context(), "saved.plan")
	r.must(err)
	actions := map[string]tfjson.Actions{}
	for _, change := range plan.ResourceChanges {
		if name, ok := change.Index.(string); ok && change.Type == "openstack_compute_instance_v2" &&
			!change.Change.Actions.NoOp() {
			actions[name] = change.Change.Actions
		}
	}
	return actions
}

// byName returns the cloud's servers by name.
func (r *root) byName() map[string]labcloud.Server {
	all := map[string]labcloud.Server{}
	for _, s := range r.cloud.Servers() {
		all[s.Name] = s
	}
	return all
}

// TestTerraformLifeOfNodes makes the product's changes with the real provider.
func TestTerraformLifeOfNodes(t *testing.T) {
	t.Parallel()
	cfg := configuration()
	cfg.Timings = labcloud.Timings{Build: time.Second, Rebuild: time.Second, Delete: time.Second}
	r := newRoot(t, cfg)

	nodes := map[string]node{"n1": {imageV1, "small"}, "n2": {imageV1, "small"}}
	r.must(r.apply(nodes))
	before := r.byName()
	if len(before) != 2 || before["n1"].Status != "ACTIVE" || before["n2"].Status != "ACTIVE" {
		t.Fatalf("servers after the first apply: %+v", before)
	}
	if different, err := r.tf.Plan(t.Context()); err != nil || different {
		t.Fatalf("a second plan finds differences: %v, %v\n%v", different, err, r.actions())
	}

	nodes["n1"], nodes["n2"] = node{imageV2, "small"}, node{imageV1, "big"}
	r.declare(nodes)
	inPlace := map[string]tfjson.Actions{"n1": {tfjson.ActionUpdate}, "n2": {tfjson.ActionUpdate}}
	if diff := cmp.Diff(inPlace, r.actions()); diff != "" {
		t.Fatalf("a new image and a new flavor are planned otherwise than in place:\n%s", diff)
	}
	r.must(r.apply(nodes))
	now := r.byName()
	if now["n1"].ID != before["n1"].ID || now["n1"].Image != imageV2 ||
		now["n1"].Addresses[0] != before["n1"].Addresses[0] {
		t.Errorf("image change: %+v became %+v", before["n1"], now["n1"])
	}
	if now["n2"].ID != before["n2"].ID || now["n2"].Flavor != "big" {
		t.Errorf("flavor change: %+v became %+v", before["n2"], now["n2"])
	}

	delete(nodes, "n2")
	r.must(r.apply(nodes))
	if left := r.byName(); len(left) != 1 || left["n1"].ID != before["n1"].ID {
		t.Errorf("after removing n2: %+v", left)
	}
	r.must(r.tf.Destroy(t.Context()))
	r.wantNothingLeft()
}

// wantNothingLeft checks that the cloud has only its initial resources.
func (r *root) wantNothingLeft() {
	r.Helper()
	for path, want := range map[string]int{
		"/compute/v2.1/servers": 0, "/compute/v2.1/os-keypairs": 0, "/network/v2.0/ports": 0,
		"/network/v2.0/floatingips": 0, "/network/v2.0/security-groups": 1, "/network/v2.0/security-group-rules": 4,
	} {
		var body map[string][]any
		r.get(path, &body)
		for key, things := range body {
			if len(things) != want {
				r.Errorf("%s: %d %s are left, want %d: %v", path, len(things), key, want, things)
			}
		}
	}
}

// TestTerraformServerInError checks the failure of one node: the provider reports it, its instance is tainted, and the
// other node succeeds.
func TestTerraformServerInError(t *testing.T) {
	t.Parallel()
	r := newRoot(t, configuration())
	_, err := r.cloud.Faults().Add(labcloud.Fault{Kind: labcloud.NoValidHost, Server: "n2"})
	r.must(err)
	err = r.apply(map[string]node{"n1": {imageV1, "small"}, "n2": {imageV1, "small"}})
	if err == nil || !strings.Contains(err.Error(), "ERROR") {
		t.Fatalf("the provider's error is %v", err)
	}
	state, err := r.tf.Show(t.Context())
	r.must(err)
	tainted := map[string]bool{}
	for _, resource := range state.Values.RootModule.Resources {
		if name, ok := resource.Index.(string); ok && resource.Type == "openstack_compute_instance_v2" {
			tainted[name] = resource.Tainted
		}
	}
	if diff := cmp.Diff(map[string]bool{"n1": false, "n2": true}, tainted); diff != "" {
		t.Errorf("tainted instances:\n%s", diff)
	}
	if got := r.byName()["n2"]; got.Status != "ERROR" || got.Fault != "No valid host was found. " {
		t.Errorf("n2 is %+v", got)
	}
}

// TestTerraformQuotaExceeded checks that the provider's error has Nova's text.
func TestTerraformQuotaExceeded(t *testing.T) {
	t.Parallel()
	cfg := configuration()
	cfg.Quotas.Instances = 1
	r := newRoot(t, cfg)
	var output bytes.Buffer
	r.tf.SetStderr(&output)
	err := r.apply(map[string]node{"n1": {imageV1, "small"}, "n2": {imageV1, "small"}})
	if err == nil || !strings.Contains(output.String(),
		"Quota exceeded for instances: Requested 1, but already used 1 of 1 instances") {
		t.Fatalf("the provider's error is %v\n%s", err, output.String())
	}
	if got := r.byName(); len(got) != 1 {
		t.Errorf("servers: %+v", got)
	}
	r.tf.SetStderr(nil)
	r.must(r.tf.Destroy(context.WithoutCancel(t.Context())))
	r.wantNothingLeft()
}
