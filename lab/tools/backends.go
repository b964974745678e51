package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// terraformPatch is the version of the patch of Terraform: see buildTerraform.
const terraformPatch = "terraform-" + TerraformVersion + "-5"

// leftOut are the back ends for states that no test uses. Their clouds' libraries are almost half of the time for which
// Terraform is built.
var leftOut = []string{"Azure", "Consul", "Cos", "GCS", "Kubernetes", "OSS", "S3"}

// buildTerraform builds Terraform without the back ends leftOut. When started from a folder quickFolder, it omits what
// quickly says.
func buildTerraform(ctx context.Context, wrapper, file string) error {
	return buildPatched(ctx, wrapper, terraformModule, terraformPatch, file, func(source string) error {
		return errors.Join(
			rewrite(filepath.Join(source, "internal", "backend", "init", "init.go"), withoutBackends),
			rewrite(filepath.Join(source, "internal", "command", "meta_providers.go"), quickly),
			os.WriteFile(filepath.Join(source, "internal", "command", "quick.go"),
				fmt.Appendf(slices.Clone(quickTerraform), "\nconst quickFolder = %q\n", quickFolder), 0o600))
	})
}

// withoutBackends removes the lines that import and register the back ends leftOut.
func withoutBackends(source []byte) ([]byte, error) {
	for _, name := range leftOut {
		line := regexp.MustCompile(`(?m)^.*\bbackend` + name + `\b.*\n`)
		if found := len(line.FindAll(source, -1)); found != 2 {
			return nil, fmt.Errorf("%d lines with the back end %s, not 2", found, name)
		}
		source = line.ReplaceAll(source, nil)
	}
	return source, nil
}
