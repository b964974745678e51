package terraform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-version"
	install "github.com/hashicorp/hc-install"
	"github.com/hashicorp/hc-install/fs"
	"github.com/hashicorp/hc-install/product"
	"github.com/hashicorp/hc-install/releases"
	"github.com/hashicorp/hc-install/src"
)

// oldest is the first version whose event stream and saved plans are as this package reads them; the root module
// demands the same.
const oldest = ">= 1.5.0"

// findBinary is the path of the configured binary, whose version is not asked for here, else of the first terraform,
// then tofu, on PATH that fits, else of one that is downloaded into dir. One that an earlier call downloaded is found
// there.
func findBinary(ctx context.Context, configured, dir string) (string, error) {
	if configured != "" {
		if !filepath.IsAbs(configured) {
			return "", fmt.Errorf("the configured Terraform %q is not an absolute path", configured)
		}
		return configured, nil
	}
	fitting, err := version.NewConstraint(oldest)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("terraform: %w", err)
	}
	path, err := install.NewInstaller().Ensure(ctx, []src.Source{
		&fs.Version{Product: product.Terraform, Constraints: fitting, ExtraPaths: []string{dir}},
		&fs.Version{Product: tofu(), Constraints: fitting},
		&releases.LatestVersion{Product: product.Terraform, Constraints: fitting, InstallDir: dir},
	})
	if err != nil {
		return "", fmt.Errorf("no terraform or tofu %s on PATH, and none could be downloaded; install one, or name it as "+
			"`terraform` of `reconfigure` in group_vars/all.yml: %w", oldest, err)
	}
	return path, nil
}

// checkBinary asks a binary for its version.
func checkBinary(ctx context.Context, path string) error {
	fitting, err := version.NewConstraint(oldest)
	if err != nil {
		return err
	}
	found, err := product.Terraform.GetVersion(ctx, path)
	if err != nil {
		return fmt.Errorf("the configured Terraform %s does not tell its version: %w", path, err)
	}
	if found == nil {
		return errors.New("the configured Terraform " + path + " does not tell its version")
	}
	if !fitting.Check(found) {
		return fmt.Errorf("the configured Terraform %s is version %s, but it must be %s", path, found, oldest)
	}
	return nil
}

// tofu is OpenTofu, which hc-install does not know. It tells its version as Terraform does.
func tofu() product.Product {
	return product.Product{
		Name: "tofu", BinaryName: func() string { return "tofu" }, GetVersion: product.Terraform.GetVersion,
	}
}
