package tools

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/google/renameio/v2"
)

// The versions that the tests use: the last Terraform with a free license, and the version of the provider that the
// root module allows.
const (
	TerraformVersion = "1.5.7"
	ProviderVersion  = "1.54.1"
)

const (
	terraformModule = "github.com/hashicorp/terraform"
	providerModule  = "github.com/terraform-provider-openstack/terraform-provider-openstack"
)

// providerBinary returns the provider's path in a filesystem mirror with the unpacked layout.
func providerBinary(plugins string) string {
	return filepath.Join(plugins, "registry.terraform.io", "terraform-provider-openstack", "openstack",
		ProviderVersion, runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-openstack_v"+ProviderVersion)
}

// TerraformRC returns a CLI configuration that uses providers from the mirror only, without network access.
func TerraformRC(plugins string) string {
	return fmt.Sprintf("disable_checkpoint = true\n\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n "+
		" }\n}\n", plugins)
}

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
