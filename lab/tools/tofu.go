package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// TofuVersion is the version of OpenTofu with which the tests of package terraform and those of a cluster also run.
const TofuVersion = "1.12.6"

// TofuVariable is the environment variable that makes Find return OpenTofu and its mirrors instead of Terraform.
const TofuVariable = "EIFFEL_TOFU"

const tofuModule = "github.com/opentofu/opentofu"

// InstallTofu installs everything that Install does, and, in the tools' folder, OpenTofu as bin/tofu, and the two
// mirrors of the provider as plugins-tofu and plugins-tofu-quick: OpenTofu looks for providers by the name of its own
// registry. Its build takes minutes.
func InstallTofu(ctx context.Context, checkout string, progress io.Writer) error {
	p, err := paths(checkout)
	if err != nil {
		return err
	}
	return install(ctx, checkout, progress, append(chains(checkout, p), tofuChain(checkout, p)))
}

func tofuChain(checkout string, p Paths) chain {
	release, tofu := releases()[p.ProviderVersion], p.withTofu()
	return chain{{
		"tofu " + TofuVersion,
		func() bool { return builtFrom(tofu.Terraform, tofuModule, TofuVersion) },
		func(ctx context.Context) error {
			// Without the flag, programs that compare versions see a development version.
			return build(ctx, filepath.Join(checkout, "lab", "tools", "tofu"), tofuModule+"/cmd/tofu", tofu.Terraform,
				"-ldflags=-X "+tofuModule+"/version.dev=no")
		},
	}, release.tofuMirror(p.Plugins, tofu.Plugins), release.tofuMirror(p.QuickPlugins, tofu.QuickPlugins),
		cliConfig("terraformrc-tofu", tofu.TerraformRC, tofu.Plugins)}
}

// withTofu returns the paths with OpenTofu and its mirrors.
func (p Paths) withTofu() Paths {
	release := releases()[p.ProviderVersion]
	dir := filepath.Dir(p.Plugins)
	p.Terraform = filepath.Join(filepath.Dir(p.Terraform), "tofu")
	p.QuickTerraform = p.Terraform
	p.Plugins = filepath.Join(dir, "plugins-tofu"+release.suffix)
	p.QuickPlugins = p.Plugins + "-quick"
	p.TerraformRC = filepath.Join(dir, "terraformrc-tofu"+release.suffix)
	return p
}

// chosen returns the paths with OpenTofu if TofuVariable asks for it.
func (p Paths) chosen(checkout string) (Paths, error) {
	if os.Getenv(TofuVariable) == "" {
		return p, nil
	}
	for _, s := range tofuChain(checkout, p) {
		if !s.present() {
			return Paths{}, fmt.Errorf("missing or out of date: %s; run \"make test-tofu\"", s.name)
		}
	}
	return p.withTofu(), nil
}

// tofuMirror is a step that makes a mirror with the provider from another mirror, under the name of OpenTofu's
// registry. The file is a hard link, since a lab's control host has the mirror without the rest of the checkout.
func (p provider) tofuMirror(from, to string) step {
	original := p.binary(from)
	mirror := strings.Replace(p.binary(to), "registry.terraform.io", "registry.opentofu.org", 1)
	s := hardLink(filepath.Base(to), original, mirror)
	link := s.install
	s.install = func(ctx context.Context) error { return errors.Join(os.RemoveAll(to), link(ctx)) }
	return s
}

// hardLink is a step that makes a hard link to a file.
func hardLink(name, original, link string) step {
	return step{
		name,
		func() bool {
			a, missing := os.Stat(original)
			b, err := os.Stat(link)
			return missing == nil && err == nil && os.SameFile(a, b)
		},
		func(context.Context) error {
			return errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.RemoveAll(link), os.Link(original, link))
		},
	}
}
