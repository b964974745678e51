package tools

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
)

// VSphereProviderVersion is the version of Terraform's provider for vSphere that its root module admits.
const VSphereProviderVersion = "1.24.3"

const vsphereProviderModule = "github.com/hashicorp/terraform-provider-vsphere"

// vsphereProvider returns the provider's path in a filesystem mirror.
func vsphereProvider(plugins string) string {
	return filepath.Join(plugins, "registry.terraform.io", "hashicorp", "vsphere", VSphereProviderVersion,
		runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-vsphere_v"+VSphereProviderVersion)
}

// InstallVSphere installs Terraform's provider for tests with a simulated vCenter.
func InstallVSphere(ctx context.Context, checkout string, progress io.Writer) error {
	p, err := paths(checkout)
	if err != nil {
		return err
	}
	return install(ctx, checkout, progress, append(chains(checkout, p), chain{vsphereStep(checkout, p)}))
}

// FindVSphere is [Find] for a test with Terraform and a simulated vCenter.
func FindVSphere(checkout string) (Paths, error) {
	p, err := Find(checkout)
	if err != nil {
		return Paths{}, err
	}
	if s := vsphereStep(checkout, p); !s.present() {
		return Paths{}, fmt.Errorf("missing or out of date: %s; run \"make tools-vsphere\"", s.name)
	}
	return p, nil
}

func vsphereStep(checkout string, p Paths) step {
	provider := vsphereProvider(p.Plugins)
	return step{
		"terraform-provider-vsphere " + VSphereProviderVersion,
		func() bool { return builtFrom(provider, vsphereProviderModule, VSphereProviderVersion) },
		func(ctx context.Context) error {
			return build(ctx, filepath.Join(checkout, "lab", "tools", "vsphere"), vsphereProviderModule, provider)
		},
	}
}
