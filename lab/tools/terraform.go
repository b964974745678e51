package tools

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/google/renameio/v2"
)

// TerraformVersion is the version that the tests use: the last one with a free license.
const TerraformVersion = "1.5.7"

const terraformModule = "github.com/hashicorp/terraform"

// provider is a release of Terraform's provider for OpenStack.
type provider struct {
	version string
	module  string
	wrapper string         // the folder of our module that requires it
	suffix  string         // of the folders of its mirrors
	waits   map[string]int // the number of fixed waits in each of its files for resources of the root module
}

// The versions of the provider that the root module admits and the tests use: the oldest one, which `make test` uses,
// and the newest one.
const (
	ProviderVersion       = "1.54.1"
	NewestProviderVersion = "3.4.0"
)

// releases returns the releases of the provider, by their versions.
func releases() map[string]provider {
	const module = "github.com/terraform-provider-openstack/terraform-provider-openstack"
	waits := func(instance int) map[string]int {
		return map[string]int{
			"resource_openstack_compute_instance_v2.go":         instance,
			"resource_openstack_networking_port_v2.go":          2,
			"resource_openstack_networking_floatingip_v2.go":    2,
			"resource_openstack_networking_secgroup_v2.go":      1,
			"resource_openstack_networking_secgroup_rule_v2.go": 1,
		}
	}
	return map[string]provider{
		ProviderVersion: {version: ProviderVersion, module: module, wrapper: "provider", waits: waits(12)},
		NewestProviderVersion: {
			version: NewestProviderVersion, module: module + "/v3", wrapper: "provider3",
			suffix: "-" + NewestProviderVersion, waits: waits(13),
		},
	}
}

// selected returns the release of the provider that the tools use: EIFFEL_PROVIDER names its version.
func selected() (provider, error) {
	want := cmp.Or(os.Getenv("EIFFEL_PROVIDER"), ProviderVersion)
	if p, ok := releases()[want]; ok {
		return p, nil
	}
	return provider{}, fmt.Errorf("EIFFEL_PROVIDER is %q, and not %s or %s", want, ProviderVersion, NewestProviderVersion)
}

// binary returns the provider's path in a filesystem mirror with the unpacked layout.
func (p provider) binary(plugins string) string {
	return filepath.Join(plugins, "registry.terraform.io", "terraform-provider-openstack", "openstack",
		p.version, runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-openstack_v"+p.version)
}

// TerraformRC returns a CLI configuration that uses providers from the mirror only, without network access.
func TerraformRC(plugins string) string {
	return fmt.Sprintf("disable_checkpoint = true\n\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n "+
		" }\n}\n", plugins)
}

// CopyTerraform installs Terraform and a mirror of its provider on a machine whose root is a folder of this computer, as
// a site without internet does. The user's home is relative to the root. It returns the path of the CLI configuration
// that it has written there.
func (p Paths) CopyTerraform(root, home string) (config string, err error) {
	const mirror = "/opt/eiffel-mirror"
	config = filepath.Join(root, home, ".terraformrc")
	binary, err := os.ReadFile(p.Terraform)
	if err != nil {
		return config, err
	}
	return config, errors.Join(
		os.WriteFile(filepath.Join(root, MachineTerraform), binary, 0o755),
		os.CopyFS(filepath.Join(root, mirror), os.DirFS(p.Plugins)),
		os.WriteFile(config, []byte(TerraformRC(mirror)), 0o644))
}

// MachineTerraform is the path at which CopyTerraform installs Terraform.
const MachineTerraform = "/usr/local/bin/terraform"

// builtFrom reports whether the file is a Go program of that module and version.
func builtFrom(file, module, version string) bool {
	info, err := buildinfo.ReadFile(file)
	return err == nil && info.Main.Path == module && info.Main.Version == "v"+version
}

// build builds the program of a package, in a module of ours that requires it, so that go.sum there pins the program
// and its dependencies. The file is written atomically.
func build(ctx context.Context, wrapper, program, file string, flags ...string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fresh := filepath.Join(dir, "program")
	args := append([]string{"build", "-mod=readonly", "-o", fresh}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, program)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Dir = wrapper
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w:\n%s", cmd, err, out)
	}
	return os.Rename(fresh, file)
}

func hasContent(file, want string) bool {
	found, err := os.ReadFile(file)
	return err == nil && string(found) == want
}

func writeFile(file, content string) error {
	return renameio.WriteFile(file, []byte(content), 0o644)
}
