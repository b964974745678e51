package tools

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// TofuVersion is the version of OpenTofu with which the tests of package terraform run too.
const TofuVersion = "1.12.6"

const tofuModule = "github.com/opentofu/opentofu"

// InstallTofu installs all that Install does, and OpenTofu as bin/tofu with a mirror of the quick provider as plugins-tofu,
// both in the tools' folder: OpenTofu looks for providers by the name of its own registry. Its build takes minutes.
func InstallTofu(ctx context.Context, checkout string, progress io.Writer) error {
	p, err := paths(checkout)
	if err != nil {
		return err
	}
	binary := filepath.Join(filepath.Dir(p.Terraform), "tofu")
	provider := filepath.Dir(providerBinary(p.QuickPlugins))
	mirror := strings.Replace(strings.Replace(provider, p.QuickPlugins, filepath.Join(filepath.Dir(p.Plugins), "plugins-tofu"), 1),
		"registry.terraform.io", "registry.opentofu.org", 1)
	return install(ctx, checkout, progress, append(steps(checkout, p), step{
		"tofu " + TofuVersion,
		func() bool { return builtFrom(binary, tofuModule, TofuVersion) },
		func(ctx context.Context) error {
			// Without the flag it is a version in development to all who compare versions.
			return build(ctx, filepath.Join(checkout, "lab", "tools", "tofu"), tofuModule+"/cmd/tofu", binary,
				"-ldflags=-X "+tofuModule+"/version.dev=no")
		},
	}, step{
		"mirror of the provider for tofu",
		func() bool { target, err := os.Readlink(mirror); return err == nil && target == provider },
		func(context.Context) error {
			return errors.Join(os.MkdirAll(filepath.Dir(mirror), 0o755), os.RemoveAll(mirror), os.Symlink(provider, mirror))
		},
	}))
}
