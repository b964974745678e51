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

// downloaded is the version to download if none is installed: the newest one with which the tests run.
const downloaded = "1.5.7"

// oldest is the first version whose events and saved plans have the format that this package reads; the root module
// requires the same.
const oldest = ">= 1.5.0"

// noCheckpoint is the variable that stops Terraform from asking HashiCorp, at each command, for newer releases and
// security bulletins (Terraform's CLI documentation, "Upgrade and Security Bulletin Checks").
const noCheckpoint = "CHECKPOINT_DISABLE"

// tested is the line of releases that the tests run with.
const tested = "~> 1.5.0"

// findBinary returns the path of the configured binary, without a check of its version. If none is configured, it
// returns an installed one, or downloads one into dir.
func findBinary(ctx context.Context, configured, dir string) (string, error) {
	if configured != "" && !filepath.IsAbs(configured) {
		return "", fmt.Errorf("the configured Terraform %q is not an absolute path", configured)
	}
	if path, err := Installed(ctx, configured, dir); path != "" || err != nil {
		return path, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("terraform: %w", err)
	}
	path, err := install.NewInstaller().Ensure(ctx, []src.Source{download(dir)})
	if err != nil {
		return "", fmt.Errorf("no terraform or tofu %s on PATH, and none could be downloaded; install one, or name "+
			"it as "+
			"`terraform` of `reconfigure` in all.yml: %w", oldest, err)
	}
	return path, nil
}

// Installed returns the path of the configured binary; else of the first terraform of a tested release on PATH or in
// dir, the folder of earlier downloads; else of another suitable terraform, or tofu, on PATH. The path is empty if
// there is none. Installed changes nothing.
func Installed(ctx context.Context, configured, dir string) (string, error) {
	// hc-install runs Terraform with the environment of this process, here and in checkBinary.
	if err := os.Setenv(noCheckpoint, "1"); err != nil {
		return "", err
	}
	if configured != "" {
		return configured, nil
	}
	for _, source := range []struct {
		product  product.Product
		versions string
	}{{product.Terraform, tested}, {product.Terraform, oldest}, {tofu(), oldest}} {
		fitting, err := version.NewConstraint(source.versions)
		if err != nil {
			return "", err
		}
		found := &fs.Version{Product: source.product, Constraints: fitting, ExtraPaths: []string{dir}}
		if path, err := install.NewInstaller().Ensure(ctx, []src.Source{found}); err == nil {
			return path, nil
		}
	}
	return "", nil
}

// download gets exactly one version, since the tests do not cover newer ones.
func download(dir string) *releases.ExactVersion {
	return &releases.ExactVersion{
		Product: product.Terraform, Version: version.Must(version.NewVersion(downloaded)), InstallDir: dir,
	}
}

// checkBinary checks the version of a binary.
func checkBinary(ctx context.Context, path string) error {
	fitting, err := version.NewConstraint(oldest)
	if err != nil {
		return err
	}
	found, err := product.Terraform.GetVersion(ctx, path)
	if err != nil {
		return fmt.Errorf("the configured Terraform %s does not report its version: %w", path, err)
	}
	if found == nil {
		return errors.New("the configured Terraform " + path + " does not report its version")
	}
	if !fitting.Check(found) {
		return fmt.Errorf("the configured Terraform %s is version %s, but it must be %s", path, found, oldest)
	}
	return nil
}

// tofu is OpenTofu, which hc-install does not support. It reports its version as Terraform does.
func tofu() product.Product {
	return product.Product{
		Name: "tofu", BinaryName: func() string { return "tofu" }, GetVersion: product.Terraform.GetVersion,
	}
}
