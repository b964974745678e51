package tools

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// TofuVersion is the version of OpenTofu with which the tests of package terraform also run.
const TofuVersion = "1.12.6"

const tofuModule = "github.com/opentofu/opentofu"

// InstallTofu installs everything that Install does, and, in the tools' folder, OpenTofu as bin/tofu, and the two
// mirrors of the provider as plugins-tofu and plugins-tofu-quick: OpenTofu looks for providers by the name of its own
// registry. Its build takes minutes.
func InstallTofu(ctx context.Context, checkout string, progress io.Writer) error {
	p, err := paths(checkout)
	if err != nil {
		return err
	}
	binary := filepath.Join(filepath.Dir(p.Terraform), "tofu")
	release := releases()[p.ProviderVersion]
	mirror := filepath.Join(filepath.Dir(p.Plugins), "plugins-tofu"+release.suffix)
	return install(ctx, checkout, progress, append(chains(checkout, p), chain{{
		"tofu " + TofuVersion,
		func() bool { return builtFrom(binary, tofuModule, TofuVersion) },
		func(ctx context.Context) error {
			// Without the flag, programs that compare versions see a development version.
			return build(ctx, filepath.Join(checkout, "lab", "tools", "tofu"), tofuModule+"/cmd/tofu", binary,
				"-ldflags=-X "+tofuModule+"/version.dev=no")
		},
	}, release.tofuMirror(p.Plugins, mirror), release.tofuMirror(p.QuickPlugins, mirror+"-quick")}))
}

// tofuMirror is a step that makes a mirror with the provider from another mirror, under the name of OpenTofu's
// registry.
func (p provider) tofuMirror(from, to string) step {
	provider := filepath.Dir(p.binary(from))
	link := strings.Replace(strings.Replace(provider, from, to, 1), "registry.terraform.io", "registry.opentofu.org", 1)
	return step{
		filepath.Base(to),
		func() bool { target, err := os.Readlink(link); return err == nil && target == provider },
		func(context.Context) error {
			return errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.RemoveAll(link), os.Symlink(provider, link))
		},
	}
}
